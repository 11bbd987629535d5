"""Memory that one batch after the other is read into.

Fresh memory of the size of a batch is faulted in page by page, which takes as long as a kernel needs to write it; and
while it is, threads of a process wait for each other.
"""

from __future__ import annotations

import threading
from math import prod
from sys import getrefcount

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.compile.types import Int32Array

_LEAST = 16_384
_ROOMY = 4  # memory that is so many times too large is not taken
_MOST = 32
_IF_FREE = 2  # references that are counted while nobody else has one


class ArrayPool:
    """Arrays that are used again as soon as nobody refers to them any longer; for one thread."""

    def __init__(self) -> None:
        self._arrays: list[Int64Array] = []

    def __len__(self) -> int:
        return len(self._arrays)

    def integers(self, *shape: int) -> Int64Array:
        """An array of this shape, with anything in it, that nobody else has."""
        size = prod(shape)
        arrays = self._arrays
        for number in range(len(arrays)):
            # A view refers to the array itself, whatever views it was made of.
            if getrefcount(arrays[number]) == _IF_FREE and size <= len(arrays[number]) <= max(_LEAST, _ROOMY * size):
                return arrays[number][:size].reshape(shape)
        if len(arrays) >= _MOST:
            self._arrays = arrays = []  # sizes have changed; those who have the others keep them
        arrays.append(np.empty(max(_LEAST, size + size // 8), np.int64))
        return arrays[-1][:size].reshape(shape)

    def codes(self, n: int) -> Int32Array:
        """As `integers`, (n,) of half the size."""
        return self.integers((n + 1) // 2).view(np.int32)[:n]

    def doubles(self, *shape: int) -> Float64Array:
        """As `integers`."""
        return self.integers(*shape).view(np.float64)


_of_thread = threading.local()


def own_pool() -> ArrayPool:
    """That of the calling thread."""
    found: ArrayPool | None = getattr(_of_thread, "pool", None)
    if found is None:
        found = _of_thread.pool = ArrayPool()
    return found


__all__ = ["ArrayPool", "own_pool"]
