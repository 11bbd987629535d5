"""Compiled kernels: arrays in, arrays out."""

from engine.kernels.compile import cache

cache.configure(cache.default_folder())
