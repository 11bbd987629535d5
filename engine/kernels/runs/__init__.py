"""Kernels of the run-based NFAb."""
