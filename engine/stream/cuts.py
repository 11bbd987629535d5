"""Where a batch is cut into slices by time: see `engine.stream.by_time`, which makes streams of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Int64Array


class Cut(NamedTuple):
    """Rows [start, end) of a batch, of which the first `n_begin` may begin a match."""

    start: int
    end: int
    n_begin: int


class Cuts(NamedTuple):
    """All slices of a batch, and how many rows are in two of them."""

    slices: tuple[Cut, ...]
    n_again: int


def cut(t_ms: Int64Array, within_ms: int, n_slices: int) -> list[Cut]:
    """Slices that have equally many rows with those that follow them, but for how these differ over time.

    t_ms: ascending times of all rows, (n,). A batch that a window of it is too long for has fewer slices, or one.
    """
    n = len(t_ms)
    if n == 0:
        return [Cut(0, 0, 0)]
    n_after = int(np.searchsorted(t_ms, t_ms[(n - 1) // 2] + within_ms, "right")) - (n + 1) // 2
    starts = [number * (n - n_after) // n_slices for number in range(n_slices)]
    starts = sorted({start for start in starts if start >= 0} | {0})
    cuts = []
    for start, next_start in zip(starts, [*starts[1:], n], strict=True):
        end = int(np.searchsorted(t_ms, t_ms[next_start - 1] + within_ms, "right"))
        cuts.append(Cut(start, end, next_start - start))
    return cuts


__all__ = ["Cut", "Cuts", "cut"]
