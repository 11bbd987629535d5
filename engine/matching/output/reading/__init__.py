"""Rows as they are read: one at a time, in bulk as Arrow, as JSON, or without their events."""
