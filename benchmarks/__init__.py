"""Benchmarks: figures against a baseline of the same run, never tests."""
