"""Kernels of the papers' baselines."""
