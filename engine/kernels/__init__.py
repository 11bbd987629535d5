"""Compiled kernels: arrays in, arrays out."""

from engine.kernels import cache

cache.configure(cache.default_folder())
