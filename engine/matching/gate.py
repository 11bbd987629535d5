"""Events that no match can contain, because no first event lies before them within the window, are not stored."""

from __future__ import annotations

import numpy as np

from engine.events import Int64Array
from engine.kernels.gate import keep_live, live_rows
from engine.matching.early_filter import EarlyFilter, Masks, Survivors
from engine.matching.store import EventStore
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan

_NEVER = -(2**62)


class Gate:
    """The newest first event of each partition, and what it lets pass.

    Sound for precise events: a first event stands before all others of its match in stream order. Batches with
    imprecise events pass whole.
    """

    def __init__(self, plan: Plan, early: EarlyFilter) -> None:
        self._plan = plan
        self._early = early
        self._latest_ms: Int64Array = np.full(64, _NEVER, np.int64)
        self._newest_ms = _NEVER

    def take_in(self, stream: StreamColumns, store: EventStore, masks: Masks) -> None:
        """Filter a batch and append what is left of it to the store and its masks."""
        if not stream.is_precise:
            survivors = self._early.select(stream)
            masks.append(survivors, len(store))
            start, end = store.append(stream, survivors.rows)
            self._notice(store, masks, start, end)
            return
        starts = self._early.may_begin(stream)
        firsts = starts[0]
        live: Int64Array = np.empty(len(stream), np.int64)
        n_live = live_rows(stream.t_lo_ms, firsts, self._newest_ms, self._plan.within_ms, live)
        survivors = self._early.select_near(stream, starts, live[:n_live])
        if not len(survivors.rows):
            store.append(stream, survivors.rows)
            return
        partitions = store.partitions_of(stream, firsts, survivors.rows)
        survivors, partitions = self._let_pass(stream, survivors, partitions, store.n_partitions)
        if len(firsts):
            self._newest_ms = max(self._newest_ms, int(stream.t_lo_ms[firsts[-1]]))
        masks.append(survivors, len(store))
        store.append(stream, survivors.rows, partitions)

    def enter_again(self, store: EventStore, masks: Masks) -> None:
        """The store has dropped rows, and numbers its partitions anew."""
        self._latest_ms = np.full(max(64, 2 * store.n_partitions), _NEVER, np.int64)
        self._notice(store, masks, 0, len(store))

    def _let_pass(
        self, stream: StreamColumns, survivors: Survivors, partitions: Int64Array, n_partitions: int
    ) -> tuple[Survivors, Int64Array]:
        if not self._plan.key:
            return survivors, partitions
        self._reserve(n_partitions)
        leading = [k for k, negation in enumerate(self._plan.negations) if negation.after < 0]
        kept = np.empty(len(survivors.rows), np.bool_)
        n_kept = keep_live(
            stream.t_lo_ms, survivors.rows, partitions, survivors.begin[0], survivors.negated[leading].any(axis=0),
            self._latest_ms, self._plan.within_ms, kept,
        )  # fmt: skip
        if n_kept == len(kept):
            return survivors, partitions
        return survivors.where(kept), partitions[kept]

    def _notice(self, store: EventStore, masks: Masks, start: int, end: int) -> None:
        firsts = start + np.flatnonzero(masks.begin[0, start:end])
        if not len(firsts):
            return
        self._reserve(store.n_partitions)
        np.maximum.at(self._latest_ms, store.partition[firsts] + 1, store.t_hi_ms[firsts])
        self._newest_ms = max(self._newest_ms, int(store.t_hi_ms[firsts].max()))

    def _reserve(self, n_partitions: int) -> None:
        if len(self._latest_ms) < n_partitions + 1:
            grown = np.full(2 * (n_partitions + 1), _NEVER, np.int64)
            grown[: len(self._latest_ms)] = self._latest_ms
            self._latest_ms = grown


__all__ = ["Gate"]
