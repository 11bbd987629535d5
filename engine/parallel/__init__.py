"""One query on several threads: the stream divided by key or by time."""
