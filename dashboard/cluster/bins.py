"""Time cut into equal columns, and what intervals contribute to each: the ground of heat maps and densities.

Contributions are weighted with the time that an interval shares with a column. So the sum over all columns is the sum
over all intervals, wherever the columns begin, and a span can be read in slices: what is cut at a slice's edge adds up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.events import Float64Array, Int64Array

MAX_OVERLAPS = 2_000_000
"""Pairs of interval and column that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class TimeBins:
    """`n` columns of `width_ms`; column k holds the milliseconds start + k * width + 1 up to start + (k + 1) * width.

    Edges are multiples of the width: a sample of a step, stamped t and covering (t - step, t], lies in one column when
    the width is a multiple of its step.
    """

    start_ms: int
    width_ms: int
    n: int

    @property
    def end_ms(self) -> int:
        """The last millisecond of the last column."""
        return self.start_ms + self.n * self.width_ms

    @property
    def edges_ms(self) -> Int64Array:
        """Shape (n + 1,): column k lies between edge k (not part of it) and edge k + 1 (part of it)."""
        return self.start_ms + self.width_ms * np.arange(self.n + 1, dtype=np.int64)

    def coarser(self, factor: int) -> TimeBins:
        """Columns of `factor` of these each; the last one may reach beyond the end."""
        return TimeBins(self.start_ms, self.width_ms * factor, -(-self.n // factor))


def bins_over(from_ms: int, to_ms: int, step_ms: int, at_most: int) -> TimeBins:
    """At most `at_most` columns over the closed span [from, to], as wide as a multiple of the step; one at least.

    Raises ValueError for a reversed span or numbers below 1.
    """
    if from_ms > to_ms or step_ms < 1 or at_most < 1:
        raise ValueError(f"no columns over [{from_ms}, {to_ms}] with step {step_ms} ms and at most {at_most}")
    n_steps = max(1, math.ceil((to_ms - from_ms + 1) / (step_ms * at_most)))
    while True:
        width_ms = n_steps * step_ms
        start_ms = (from_ms - 1) // width_ms * width_ms
        n = -(-(to_ms - start_ms) // width_ms)
        if n <= at_most:
            return TimeBins(start_ms, width_ms, n)
        if at_most == 1:  # an edge may cut the span however wide the column is
            return TimeBins(from_ms - 1, to_ms - from_ms + 1, 1)
        n_steps += 1


def overlaps(
    bins: TimeBins, lo_ms: Int64Array, hi_ms: Int64Array
) -> Iterator[tuple[Int64Array, Int64Array, Int64Array]]:
    """Which closed interval shares how much with which column: chunks of (interval, column, shared ms), shapes (k,)."""
    lo = np.maximum(lo_ms, bins.start_ms + 1)
    hi = np.minimum(hi_ms, bins.end_ms)
    kept = np.flatnonzero(lo <= hi)
    lo, hi = lo[kept], hi[kept]
    first = (lo - bins.start_ms - 1) // bins.width_ms
    n_columns = (hi - bins.start_ms - 1) // bins.width_ms - first + 1
    total = np.cumsum(n_columns)
    begin = 0
    while begin < len(kept):
        done = int(total[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, done + MAX_OVERLAPS, side="right")))
        part = slice(begin, end)
        repeats = n_columns[part]
        nth = np.arange(int(repeats.sum()), dtype=np.int64) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        column = np.repeat(first[part], repeats) + nth
        left_ms = bins.start_ms + column * bins.width_ms
        shared_ms = np.minimum(np.repeat(hi[part], repeats), left_ms + bins.width_ms) - np.maximum(
            np.repeat(lo[part], repeats), left_ms + 1
        )
        yield np.repeat(kept[part], repeats), column, shared_ms + 1
        begin = end


def occupancy(bins: TimeBins, row: Int64Array, n_rows: int, lo_ms: Int64Array, hi_ms: Int64Array) -> Float64Array:
    """How many intervals of each row are under way, averaged over each column; shape (n_rows, bins.n)."""
    shared = np.zeros(n_rows * bins.n, np.float64)
    for interval, column, shared_ms in overlaps(bins, lo_ms, hi_ms):
        cell = row[interval] * bins.n + column
        shared += np.bincount(cell, weights=shared_ms, minlength=len(shared))
    return shared.reshape(n_rows, bins.n) / bins.width_ms


__all__ = ["TimeBins", "bins_over", "occupancy", "overlaps"]
