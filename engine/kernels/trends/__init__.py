"""Aggregates over trends, propagated along the graph of events (GRETA, sections 4 to 7)."""
