"""Trends over events (GRETA): aggregates over all matches without listing them. Nothing here yet."""
