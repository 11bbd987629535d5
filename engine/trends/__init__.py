"""Aggregates over trends without building one (GRETA): run state, windows, rows."""
