"""Trends: all are built by definition, which of them a strategy selects, and what is aggregated over them."""
