"""Postponing (SASE++ 5.1): skip till any match by pairs of first and last event, listed or counted."""
