"""Kernels of the automaton runtime."""
