"""Columns of whole numbers as the doubles that kernels compare."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import leaf


@leaf
def widen(values, doubles):
    """Write int64 (n,) as float64 (n,); returns the least and the greatest of them and 0.

    values: int64 (n,). doubles: float64 (n,), written.
    """
    low = np.int64(0)
    high = np.int64(0)
    for k in range(values.shape[0]):
        value = values[k]
        low = min(low, value)
        high = max(high, value)
        doubles[k] = value
    return low, high


@leaf
def are_as_long(offsets, length):
    """Whether each string of a column has this length: offsets int32 (n + 1,), where each begins."""
    n_others = 0
    for k in range(offsets.shape[0] - 1):
        n_others += offsets[k + 1] - offsets[k] != length
    return n_others == 0


@leaf
def widen_given(values, bits, start, doubles):
    """As `widen`, but NaN where bit `start` + k, the lowest of each byte first, is 0; what stands there does not count.

    bits: uint8.

    values: int64 (n,). bits: uint8 (at least (start + n) / 8,). doubles: float64 (n,), written.
    """
    low = np.int64(0)
    high = np.int64(0)
    start = max(start, 0)
    for k in range(values.shape[0]):
        given = (bits[(start + k) >> 3] >> ((start + k) & 7)) & 1
        value = values[k] if given else np.int64(0)
        low = min(low, value)
        high = max(high, value)
        doubles[k] = value if given else np.nan
    return low, high


__all__ = ["are_as_long", "widen", "widen_given"]
