"""Benchmarks: figures against a baseline of the same run, never tests."""

import app  # noqa: F401  # first of all: it chooses Arrow's allocator, as in the program
