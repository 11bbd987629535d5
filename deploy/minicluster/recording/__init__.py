"""A run kept as files: recorded, packed, and held against its ground truth."""
