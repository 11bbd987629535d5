"""Numbers of rows of one table: they lie so close together that marking beats sorting and hashing them."""

from __future__ import annotations

import numpy as np

from engine.events import Int64Array


def each_once(*parts: Int64Array) -> Int64Array:
    """The numbers in all of the parts, each once, in order; in time and memory that grow with them and with how far
    apart they are."""
    rows = np.concatenate(parts)
    if not len(rows):
        return rows.astype(np.int64)
    least = int(rows.min())
    is_there = np.zeros(int(rows.max()) - least + 1, np.bool_)
    is_there[rows - least] = True
    return np.flatnonzero(is_there) + least


__all__ = ["each_once"]
