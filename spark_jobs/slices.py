"""Time cut into slices: a match belongs to the one in which its first event begins, and needs events around that."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from engine import Distribution
from engine.events import FOREVER_MS

LEAST_MARGINS = 2
"""A slice is at least so many times as long as what it needs of its neighbours: that much is read twice."""


@dataclass(frozen=True)
class Slices:
    """`n` slices of `length_ms` from `origin_ms` on; the first has also what is before them, the last what is after.

    An event is needed where t_lo < end + after and t_hi >= start - before.
    """

    origin_ms: int
    length_ms: int
    n: int
    before_ms: int
    after_ms: int

    def own(self, number: int) -> tuple[int, int]:
        """The times [from, to) in which the matches of a slice begin."""
        start_ms = self.origin_ms + number * self.length_ms
        is_last = number == self.n - 1
        return -FOREVER_MS if number == 0 else start_ms, FOREVER_MS if is_last else start_ms + self.length_ms

    def numbers(self, t_lo_ms: int, t_hi_ms: int) -> range:
        """The slices that need an event."""
        first = (t_lo_ms - self.after_ms - self.origin_ms) // self.length_ms
        last = (t_hi_ms + self.before_ms - self.origin_ms) // self.length_ms
        return range(self._clamped(first), self._clamped(last) + 1)

    def columns(self, t_lo_ms: Column, t_hi_ms: Column) -> Column:
        """The same as an array of whole numbers, for columns of times."""
        length = sf.lit(self.length_ms)

        def clamped(distance: Column) -> Column:
            whole = (distance - sf.pmod(distance, length)) / length  # the quotient is whole: doubles are exact there
            return sf.greatest(sf.lit(0), sf.least(sf.lit(self.n - 1), whole.cast("bigint"))).cast("int")

        first = clamped(t_lo_ms - sf.lit(self.after_ms + self.origin_ms))
        last = clamped(t_hi_ms + sf.lit(self.before_ms - self.origin_ms))
        return sf.sequence(first, last)

    def _clamped(self, number: int) -> int:
        return max(0, min(self.n - 1, number))


def slices(distribution: Distribution, first_ms: int, last_ms: int, longest_ms: int, n_wanted: int) -> Slices:
    """At most `n_wanted` slices for events that begin in [first_ms, last_ms]; `longest_ms`: the longest interval.

    Fewer where slices would be shorter than LEAST_MARGINS times what they need of their neighbours.
    """
    widened_ms = longest_ms * distribution.n_links
    after_ms, before_ms = distribution.reach_ms + widened_ms, distribution.look_back_ms + widened_ms
    span_ms = last_ms - first_ms + 1
    n = max(1, min(n_wanted, span_ms // max(1, LEAST_MARGINS * (after_ms + before_ms))))
    return Slices(first_ms, -(-span_ms // n), n, before_ms, after_ms)


__all__ = ["LEAST_MARGINS", "Slices", "slices"]
