"""Kernels of postponing: pairs of first and last event, searched, counted, listed, or in closed form."""
