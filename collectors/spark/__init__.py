"""Event logs of Spark applications."""
