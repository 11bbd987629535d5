"""Kernels of load shedding: what is seen of runs, which are dropped, keys and utilities of events."""
