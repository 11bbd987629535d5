"""`clustercep ingest`: files of Hadoop and Ganglia into the event store."""
