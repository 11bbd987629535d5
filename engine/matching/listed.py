"""Matches as arrays: what a runtime hands to the output forms, and what a union of runtimes exchanges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Float64Array, Int64Array


class ListedMatches(NamedTuple):
    """n matches with m events in all, as row numbers of one event store.

    partition: int64 (n,), BROADCAST (-1) for none; the events of match k are rows[offsets[k]:offsets[k + 1]], in the
    order of the match, offsets int64 (n + 1,), rows int64 (m,). components: int64 (m,), the place of each event's
    variable among the positive variables of the query in textual order. iterations: int64 (m, depth), for each event
    the number (from 0) of the iteration of every repeated group around its component, outermost first, -1 beyond the
    component's depth; None when no component is in one. confidence: float64 (n,). values: float64 (n, n_returns).
    """

    partition: Int64Array
    offsets: Int64Array
    rows: Int64Array
    components: Int64Array
    iterations: Int64Array | None
    confidence: Float64Array
    values: Float64Array

    @property
    def n_matches(self) -> int:
        """How many matches these are."""
        return len(self.partition)

    @classmethod
    def none(cls, n_returns: int, depth: int = 0) -> ListedMatches:
        """No matches; `depth` of a query with repeated groups."""
        nothing = np.empty(0, np.int64)
        return cls(
            partition=nothing,
            offsets=np.zeros(1, np.int64),
            rows=nothing,
            components=nothing,
            iterations=np.empty((0, depth), np.int64) if depth else None,
            confidence=np.empty(0, np.float64),
            values=np.empty((0, n_returns), np.float64),
        )

    def chosen(self, numbers: Int64Array) -> ListedMatches:
        """The matches of these numbers, in that order."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[numbers]
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
        events = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][numbers] - offsets[:-1], lengths)
        return ListedMatches(
            partition=self.partition[numbers],
            offsets=offsets,
            rows=self.rows[events],
            components=self.components[events],
            iterations=None if self.iterations is None else self.iterations[events],
            confidence=self.confidence[numbers],
            values=self.values[numbers],
        )


__all__ = ["ListedMatches"]
