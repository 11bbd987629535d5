"""The engine by itself: what bounds it, kernels for a level of processors, aggregates over trends."""
