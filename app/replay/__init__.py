"""Recordings: replayed through the live path, set beside the ground truth, and the demo."""
