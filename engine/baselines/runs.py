"""One run per partial match (SASE+), at once or over buffers that wait for a last event (ZStream; SASE++ section 6.2).

Every event that can be taken clones the run that takes it, so runs are as many as partial matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine.baselines.base import MOST_LIVE_RUNS, Baseline
from engine.baselines.buffers import widened
from engine.errors import UnsupportedQueryError
from engine.events import Float64Array, Int64Array
from engine.kernels.baselines.buffers import AT_ONCE, WHEN_ALL_BUFFERS_FILL
from engine.kernels.baselines.runs import (
    EVENT,
    LONGEST,
    N_FREE,
    N_LIVE,
    NEEDED_CELLS,
    NEEDED_MATCHES,
    NEEDED_RUNS,
    REGISTERS,
    drop_expired_runs,
    match_runs,
    start_runs,
)
from engine.matching.output.listed import ListedMatches
from engine.matching.protocol import Limits
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner

_Number = TypeVar("_Number", np.int64, np.float64)

_PART = 4096
"""Offers whose runs are initialised together."""


class Runs(Baseline):
    """Every event is offered to every run of its partition as it comes."""

    mode = AT_ONCE

    def __init__(
        self,
        plan: SequencePlan,
        interner: Interner,
        limits: Limits | None = None,
        *,
        most_live_runs: int = MOST_LIVE_RUNS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(plan, interner, limits, most_live_runs=most_live_runs, clock=clock)
        self._runs: Int64Array = np.empty((0, REGISTERS + plan.programs.n_registers), np.int64)
        self._aggregates: Float64Array = np.empty((0, len(plan.programs.slots)), np.float64)
        self._free: Int64Array = np.empty(0, np.int64)
        self._list_head: Int64Array = np.full(1, -1, np.int64)
        self._list_length: Int64Array = np.zeros(1, np.int64)
        self._chain: Int64Array = np.empty((64, 2), np.int64)

    def _matches_of(self, offers: Int64Array) -> Iterator[ListedMatches]:
        self._list_head = widened(self._list_head, self.store.n_partitions)
        self._list_length = widened(self._list_length, self.store.n_partitions, fill=0)
        for start in range(0, len(offers), _PART):
            part = offers[start : start + _PART]
            self._ensure_free(len(part))
            with self.timed("run initialization"):
                started = self._start(part)
            done = 0
            while done < len(part):
                with self.timed("pattern matching"):
                    done = self._match(part, started, done)
                    matches = self.taken()
                yield matches
                if done < len(part):
                    self._grow()

    def _start(self, offers: Int64Array) -> Int64Array:
        code, bounds, constants, slots, loops, edges = self.arrays
        started = np.empty(len(offers), np.int64)
        start_runs(
            code, bounds, constants, self.store.columns, slots, loops, edges, self.masks.begin, offers, started,
            len(offers), self._runs, self._aggregates, self._free, self.counters,
        )  # fmt: skip
        return started

    def _match(self, offers: Int64Array, started: Int64Array, done: int) -> int:
        found, store, masks = self.found, self.store, self.masks
        code, bounds, constants, slots, loops, edges = self.arrays
        return int(
            match_runs(
                code, bounds, constants, store.columns, slots, loops, edges, self.plan.within_ms,
                int(self.plan.strict_ties), store.t_lo_ms, masks.begin, masks.take, offers, started, done, len(offers),
                self._runs, self._aggregates, self._free, self._list_head, self._list_length, self._chain,
                found.partition, found.offsets, found.cells, self.counters,
            )
        )  # fmt: skip

    # ------------------------------------------------------------------ arrays

    def _grow(self) -> None:
        counters = self.counters
        self._ensure_free(int(counters[NEEDED_RUNS]))
        self.found.grow(int(counters[NEEDED_MATCHES]), int(counters[NEEDED_CELLS]))
        if counters[LONGEST] + 2 > len(self._chain):
            self._chain = np.empty((2 * int(counters[LONGEST]) + 2, 2), np.int64)

    def _ensure_free(self, n_needed: int) -> None:
        n_free, n_old = int(self.counters[N_FREE]), len(self._runs)
        if n_needed <= n_free:
            return
        if self.counters[N_LIVE] > self.most_live_runs:
            raise UnsupportedQueryError(
                f"{int(self.counters[N_LIVE])} partial matches are alive at once, one run each",
                self.plan.query.span,
                f"at most {self.most_live_runs}",
                "evaluate it with --runtime auto, which postpones, or shorten the window",
            )
        n_new = max(2 * n_old, n_old + n_needed, _PART)
        self._runs = _grown(self._runs, n_new)
        self._aggregates = _grown(self._aggregates, n_new)
        free = np.empty(n_new, np.int64)
        free[: n_new - n_old] = np.arange(n_new - 1, n_old - 1, -1)
        free[n_new - n_old : n_new - n_old + n_free] = self._free[:n_free]
        self._free = free
        self.counters[N_FREE] = n_free + n_new - n_old

    # -------------------------------------------------------------- compaction

    def _forget(self, watermark_ms: int) -> None:
        drop_expired_runs(
            self.store.t_lo_ms, self.plan.within_ms, watermark_ms, self._runs, self._free, self._list_head,
            self._list_length, self.counters,
        )  # fmt: skip

    def _renumber(self, new_row: Int64Array, new_partition: Int64Array) -> None:
        is_live = np.ones(len(self._runs), np.bool_)
        is_live[self._free[: self.counters[N_FREE]]] = False
        live = np.flatnonzero(is_live)
        self._runs[live, EVENT:] = new_row[self._runs[live, EVENT:]]
        known = np.flatnonzero(new_partition[: len(self._list_head)] >= 0)
        heads, lengths = self._list_head, self._list_length
        self._list_head = np.full(max(1, self.store.n_partitions), -1, np.int64)
        self._list_length = np.zeros(len(self._list_head), np.int64)
        self._list_head[new_partition[known]] = heads[known]
        self._list_length[new_partition[known]] = lengths[known]


class Buffers(Runs):
    """Events wait in a buffer per component; runs are made of them when an event comes that may be the last one and
    no buffer is empty. Predicates between events are evaluated as the runs are assembled."""

    mode = WHEN_ALL_BUFFERS_FILL


def _grown(array: npt.NDArray[_Number], n: int) -> npt.NDArray[_Number]:
    grown = np.empty((n, array.shape[1]), array.dtype)
    grown[: len(array)] = array
    return grown


__all__ = ["Buffers", "Runs"]
