"""`clustercep query`: any query over the event store."""
