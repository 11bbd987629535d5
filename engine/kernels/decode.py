"""Columns of whole numbers as the doubles that kernels compare."""

from __future__ import annotations

import numpy as np

from engine.kernels.compiling import leaf


@leaf
def widen(values, doubles):
    """Write int64 (n,) as float64 (n,); returns the least and the greatest of them and 0."""
    low = np.int64(0)
    high = np.int64(0)
    for k in range(values.shape[0]):
        value = values[k]
        low = min(low, value)
        high = max(high, value)
        doubles[k] = value
    return low, high


__all__ = ["widen"]
