"""Reports over the event store: life times of attempts, queued map output, stragglers."""
