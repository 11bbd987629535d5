"""Backtracking (SASE+ section 5.2.2): every match is searched for in the raw window of its last event.

No early filters and nothing shared: events of the query's types are kept as they come, and every predicate is
evaluated anew on every path.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.baselines.base import Baseline
from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.baselines.backtracking import search_windows
from engine.kernels.baselines.buffers import ENDS_WINDOW, WHOLE_WINDOW
from engine.matching.output.listed import ListedMatches
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import Survivors


class Backtracking(Baseline):
    """One partial match at a time, depth first, over the window of each event whose type may be last."""

    mode = WHOLE_WINDOW
    local = True

    def _select(self, stream: StreamColumns) -> Survivors:
        plan = self.plan
        keyed = [self._filter.with_key(stream, stream.rows_of_type(name)) for name in plan.types - plan.broadcast]
        common = [stream.rows_of_type(name) for name in plan.types & plan.broadcast]
        wanted = np.sort(np.concatenate([*keyed, *common]))
        return self._by_type(self._filter.select(stream).with_rows(wanted), stream.type_index(self.store.types))

    def _select_stored(self) -> Survivors:
        return self._by_type(self._filter.of_store(self.store), self.store.type_index)

    def _by_type(self, survivors: Survivors, type_index: Int64Array) -> Survivors:
        """An event of its type may be anything that its type may be; negated components are filtered as elsewhere."""
        types = type_index[survivors.rows]
        begin: BoolArray = np.array([types == self.store.types.index(step.event_type) for step in self.plan.steps])
        take: BoolArray = begin & np.array([[step.kleene] for step in self.plan.steps])
        return Survivors(survivors.rows, begin, take, survivors.negated)

    def _matches_of(self, offers: Int64Array) -> Iterator[ListedMatches]:
        ends = np.flatnonzero(offers[:, ENDS_WINDOW])
        longest = int(np.diff(np.append(-1, ends)).max())
        n_registers = self.plan.programs.n_registers
        depth_rows: Int64Array = np.empty((longest, n_registers), np.int64)
        depth_aggregates: Float64Array = np.empty((longest, len(self.plan.programs.slots)), np.float64)
        cursor = np.empty(longest, np.int64)
        chain = np.empty((longest + 1, 2), np.int64)
        position = np.zeros(3, np.int64)
        self.found.grow(1, longest)
        code, bounds, constants, slots, loops, edges = self.arrays
        done = False
        while not done:
            with self.timed("pattern matching"):
                done = bool(
                    search_windows(
                        code, bounds, constants, self.store.columns, slots, loops, edges, int(self.plan.strict_ties),
                        self.store.t_lo_ms, self.masks.begin, self.masks.take, offers, len(offers), position, cursor,
                        depth_rows, depth_aggregates, chain,
                        self.found.partition, self.found.offsets, self.found.cells, self.counters,
                    )
                )  # fmt: skip
                matches = self.taken()
            yield matches

    def _forget(self, watermark_ms: int) -> None:
        """Nothing is kept between two last events."""

    def _renumber(self, new_row: Int64Array, new_partition: Int64Array) -> None:
        """As `_forget`."""


__all__ = ["Backtracking"]
