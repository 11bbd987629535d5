"""The pairs of a first and a last event that a step decides, found part by part: together they may be tens of millions.

Where most events of a window overlap each first event is in reach of each last one. A search that has spent what the
stream has paid for, or has as many rows as are wanted, asks for no more parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.events import Int64Array
from engine.kernels.pairs.pairs import pairs
from engine.matching.pairs.context import Context, Groups
from engine.matching.pairs.precise_listing import most_pairs
from engine.matching.pairs.shared_listing import Parts

PAIRS_LISTED = 1 << 21
"""Pairs whose matches are searched together: bounded memory. First events share the search of all their last ones, so
that it takes longer in more parts."""
PAIRS_COUNTED = 65_536
"""Pairs that are found before their rows are counted."""


@dataclass(frozen=True)
class PairsInReach:
    """firsts: the rows that can start a match. n_steps, holds_back: see `postponed_pairs.pairs`."""

    context: Context
    firsts: Groups
    inner: Int64Array
    inner_starts: Int64Array
    n_steps: int
    holds_back: int

    def of(self, lasts: Int64Array, after_ms: int = -(2**62), before_ms: int = 2**63 - 1) -> Int64Array:
        """The pairs of these last events, ascending rows, that are decided in [after_ms, before_ms)."""
        context = self.context
        found: Int64Array = pairs(
            context.events, lasts, context.store.partition, self.firsts.rows, self.firsts.starts, self.inner,
            self.inner_starts, context.plan.within_ms, context.longest_ms, self.n_steps, self.holds_back, after_ms,
            before_ms,
        )  # fmt: skip
        return found

    def parts(
        self,
        lasts: Int64Array,
        after_ms: int = -(2**62),
        before_ms: int = 2**63 - 1,
        together: int = PAIRS_LISTED,
    ) -> Parts:
        """The same in parts of about so many, each with all pairs of some last events, which ascend."""
        if not len(lasts) or not len(self.firsts.rows):
            return ()
        n_shared = int(self.firsts.starts[1] - self.firsts.starts[0])  # those of no key, for each key
        parts = [lasts]
        if len(lasts) > 1 and len(lasts) * (len(self.firsts.rows) + n_shared * len(self.firsts.starts)) > together:
            part = np.cumsum(self._most(lasts)) // together
            parts = np.split(lasts, np.flatnonzero(np.diff(part)) + 1)
        return [partial(self.of, some, after_ms, before_ms) for some in parts]

    def _most(self, lasts: Int64Array) -> Int64Array:
        """The number of pairs of each last event at most."""
        context, store = self.context, self.context.store
        reach_ms = context.plan.within_ms + context.longest_ms if self.n_steps else 0
        return most_pairs(lasts, store.t_lo_ms, store.partition, self.firsts, -reach_ms, context.longest_ms)


__all__ = ["PAIRS_COUNTED", "PAIRS_LISTED", "PairsInReach"]
