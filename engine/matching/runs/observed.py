"""Runs observed: sampled events are offered one by one, and what became of the runs that they reached is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from engine.events import Int64Array
from engine.kernels.columns.partitions import NOWHERE
from engine.kernels.runs import arrays as na
from engine.kernels.shedding import observing
from engine.matching.runs.memory import RunMemory
from engine.matching.shedding import WatchesRuns

Offer = Callable[[na.BatchArrays], Iterator[na.MatchArrays]]
"""Offers events to the runs; yields completed matches."""


class ObservedRuns:
    """Offers the events of one runtime for it, and tells a watcher of some of them."""

    def __init__(self, by: WatchesRuns, plan: na.PlanArrays, memory: RunMemory) -> None:
        self._by = by
        self._plan = plan
        self._memory = memory
        self._state_of: Int64Array = np.empty(0, np.int64)
        self._marked: Int64Array = np.empty(0, np.int64)

    def offer(self, batch: na.BatchArrays, t_ms: Callable[[], Int64Array], offer: Offer) -> Iterator[na.MatchArrays]:
        """As `offer` does for all of the batch; t_ms: of the store as it is then."""
        start, n = 0, len(batch.rows)
        for position in self._by.positions(n).tolist():
            if position > start:
                yield from offer(_part(batch, start, position))
            yield from self._one(_part(batch, position, position + 1), t_ms, offer)
            start = position + 1
        if start < n:
            yield from offer(_part(batch, start, n) if start else batch)

    def _one(self, event: na.BatchArrays, t_ms: Callable[[], Int64Array], offer: Offer) -> Iterator[na.MatchArrays]:
        memory, partition = self._memory, int(event.partition[0])
        is_new = bool(self._plan.scalars[na.HAS_BROADCAST]) and partition >= 0
        is_new = is_new and memory.seen[partition, na.IS_KNOWN] == 0  # gets its runs only now
        if partition == NOWHERE or is_new:
            yield from offer(event)
            return
        first, last = (partition, partition + 1) if partition >= 0 else (0, len(memory.chains))
        self._reserve()
        n_states = len(self._plan.steps)
        n_offers, n_next = np.zeros(n_states, np.int64), np.zeros((n_states, n_states + 1), np.int64)
        n_marked = observing.mark_offered(
            memory.runs, memory.chains, first, last, t_ms(), int(self._plan.scalars[na.WITHIN]),
            int(event.t_ms[event.rows[0]]), self._by.protected, self._state_of, self._marked, n_offers,
        )  # fmt: skip
        n_nodes, n_cut = memory.n_nodes, memory.count(na.N_CUT)
        started = self._by.clock()
        completed = list(offer(event))
        seconds = self._by.clock() - started
        fields = np.concatenate([found.fields for found in completed])
        observing.count_next(
            memory.runs, memory.chains, first, last, memory.nodes, n_nodes, memory.n_nodes, self._plan.steps, fields,
            len(fields), self._state_of, n_next,
        )  # fmt: skip
        observing.unmark(self._state_of, self._marked, n_marked)
        if memory.count(na.N_CUT) == n_cut:  # else runs were given up that might have gone on
            self._by.take(n_offers, n_next, None if self._by.protected else seconds)
        yield from completed

    def _reserve(self) -> None:
        if len(self._state_of) < len(self._memory.nodes):
            self._state_of = np.full(len(self._memory.nodes), observing.NOT_OFFERED, np.int64)
        if len(self._marked) < len(self._memory.runs):
            self._marked = np.empty(len(self._memory.runs), np.int64)


def _part(batch: na.BatchArrays, start: int, end: int) -> na.BatchArrays:
    return batch._replace(
        rows=batch.rows[start:end],
        partition=batch.partition[start:end],
        roles=np.ascontiguousarray(batch.roles[:, start:end]),
    )


__all__ = ["ObservedRuns"]
