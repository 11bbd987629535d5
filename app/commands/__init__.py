"""The commands of `clustercep`, apart from what they start."""
