"""What the pages of jobs show: lists, attempts, curves."""
