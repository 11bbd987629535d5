"""The event store: Parquet files that a log of commits names, on any file system that Hadoop knows."""
