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


@leaf
def is_repeated(offsets, text):
    """Whether strings are all the same: offsets int32 (n + 1,) into text, uint8."""
    first = offsets[0]
    length = offsets[1] - first
    for k in range(1, offsets.shape[0] - 1):
        start = offsets[k]
        if offsets[k + 1] - start != length:
            return False
        for at in range(length):
            if text[start + at] != text[first + at]:
                return False
    return True


__all__ = ["is_repeated", "widen"]
