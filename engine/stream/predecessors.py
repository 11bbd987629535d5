"""The event before each event that queries keep, where Kleene events are selected independently.

All queries that keep the same events have them in common.
"""

from __future__ import annotations

import numpy as np

from engine.events import Int64Array
from engine.kernels.pairs.independent_chains import enter_rows
from engine.plan.model import Plan
from engine.stream.early_filter import Masks
from engine.stream.store import EventStore


class Predecessors:
    """Chains of events, see `kernels.pairs.independent_chains`; `kleene`: the number of the Kleene component."""

    def __init__(self, plan: Plan, kleene: int) -> None:
        self._kleene = kleene
        self._shared_first = plan.steps[0].event_type in plan.broadcast
        self._shared_member = plan.steps[kleene].event_type in plan.broadcast
        self.forget()

    def forget(self) -> None:
        """The rows of the store have other numbers: all are entered anew with the next ones."""
        self._heads: Int64Array = np.full((2, 64), -1, np.int64)
        self._before: Int64Array = np.empty((2, 64), np.int64)
        self._n_rows = 0

    def through(self, store: EventStore, masks: Masks) -> Int64Array:
        """The row before each row of the store, int64 (2, >= n), see `enter_rows`."""
        n, n_groups = len(store), store.n_partitions + 1
        if self._before.shape[1] < n:
            grown = np.empty((2, max(n, 2 * self._before.shape[1])), np.int64)
            grown[:, : self._n_rows] = self._before[:, : self._n_rows]
            self._before = grown
        if self._heads.shape[1] < n_groups:
            heads = np.full((2, max(n_groups, 2 * self._heads.shape[1])), -1, np.int64)
            heads[:, : self._heads.shape[1]] = self._heads
            self._heads = heads
        if self._n_rows < n:
            enter_rows(
                store.partition, masks.begin, masks.take, self._kleene, self._shared_first, self._shared_member,
                self._heads, self._before, self._n_rows, n,
            )  # fmt: skip
            self._n_rows = n
        return self._before


__all__ = ["Predecessors"]
