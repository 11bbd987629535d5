"""SASE+: from text to a checked syntax tree, and back to text."""
