"""Predicate programs: operations, and their evaluation by event and by block."""
