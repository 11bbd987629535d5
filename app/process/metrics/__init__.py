"""What Prometheus is told of the live process: counters, and gauges that are read when it asks."""
