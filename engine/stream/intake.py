"""What a query keeps of the stream: early filter, gate, event store and masks.

Queries that keep the same events (of the same components with the same local predicates and key, whatever their
windows, further conditions and output are) can have it in common: of a hundred variants of a query each batch is then
filtered and stored once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from weakref import ref

import numpy as np
import pyarrow as pa

from engine.events import FOREVER_MS, Int64Array
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter, Masks
from engine.stream.interner import Interner
from engine.stream.predecessors import Predecessors
from engine.stream.start_filter import StartFilter
from engine.stream.store import EventStore, MovesBack

_LEAST_AT_ONCE = 4096
"""Rows that chains of pairs do not mind: what is out of the window is never looked at."""
_COMPACT_AT = 1024
"""Below this many rows everything unneeded is dropped at once; above, when half of the rows are unneeded."""


class Intake:
    """The kept events of one query, or of several that `share` it and advance with the same batches and watermarks."""

    def __init__(self, plan: Plan, interner: Interner, *, placed: bool, kleene: int | None = None) -> None:
        """`placed`: see `EventStore`. `kleene`: the events are needed in chains, this component is the Kleene one."""
        self.plan = plan
        self.store = EventStore(plan, interner, placed=placed)
        self.masks = Masks(plan)
        self.within_ms = plan.within_ms
        self.n_members = 1
        self.watermark_ms = -FOREVER_MS
        self._early = EarlyFilter(plan, interner, live=False)
        self._start_filter = StartFilter(plan, self._early)
        self._predecessors = None if kleene is None else Predecessors(plan, kleene)
        self._taken: Callable[[], StreamColumns | None] = lambda: None
        self._start = 0
        self._lock = threading.Lock()

    def meaning(self) -> Hashable:
        """Equal for intakes that keep the same events, but for their windows."""
        plan = self.plan
        return self._early.meaning, plan.key, plan.broadcast, self.store.names

    def take_in(self, stream: StreamColumns) -> int:
        """Take in a batch, unless another member has done so; returns the number of its first row in the store."""
        if self.n_members == 1:
            start = len(self.store)
            self._start_filter.take_in(stream, self.store, self.masks)
            return start
        with self._lock:
            if self._taken() is not stream:
                self.forget(self.earliest_ms(self.watermark_ms), self.watermark_ms)  # no member needs it any longer
                self._start = len(self.store)
                self._start_filter.take_in(stream, self.store, self.masks)
                self._taken = ref(stream)
            return self._start

    def predecessors(self) -> Int64Array:
        """The row before each row of the store, see `Predecessors`; precise events alone."""
        assert self._predecessors is not None
        with self._lock:
            return self._predecessors.through(self.store, self.masks)

    def share(self, plan: Plan) -> None:
        """One more query uses it; it must keep the same events, see `meaning`, and stand where this one stands."""
        self.n_members += 1
        self.within_ms = self._start_filter.within_ms = max(self.within_ms, plan.within_ms)

    def earliest_ms(self, watermark_ms: int) -> int:
        """The least time that an undecided match of precedent events may have: of those at the watermark or after."""
        n = len(self.store)
        undecided = self.store.t_hi_ms[:n] >= watermark_ms
        return min(watermark_ms, int(self.store.t_lo_ms[:n][undecided].min())) if undecided.any() else watermark_ms

    def forgets_later(self, watermark_ms: int) -> bool:
        """Whether rows that are not needed do no harm yet: in chains they are not looked at."""
        n = len(self.store)
        is_last = watermark_ms >= FOREVER_MS
        return self._predecessors is not None and n < _LEAST_AT_ONCE and not self.store.n_imprecise and not is_last

    def forget(self, earliest_ms: int, watermark_ms: int) -> Int64Array | None:
        """Drop the rows that ended more than a window before `earliest_ms`.

        Returns the new numbers of partitions, see `EventStore.keep`; None when all is as it was.
        """
        n = len(self.store)
        if n == 0 or self.forgets_later(watermark_ms):
            return None
        kept = self.store.t_hi_ms[:n] + self.within_ms >= earliest_ms
        n_kept = int(np.count_nonzero(kept))
        if n_kept == n or (n > _COMPACT_AT and 2 * n_kept > n):
            return None
        first = int(kept.argmax())
        if n_kept and n - first == n_kept:  # precise events that stand in order of time
            self.masks.keep_from(first, n)
            partitions = self.store.keep_from(first)
        else:
            self.masks.keep(kept)
            _, partitions = self.store.keep(kept)
        self._enter_again()
        return partitions

    def drop(self, rows: Int64Array) -> Int64Array:
        """Give up these rows, though matches to come may need them. Returns the new numbers of partitions."""
        n = len(self.store)
        kept = np.ones(n, np.bool_)
        kept[rows] = False
        self.masks.keep(kept)
        _, partitions = self.store.keep(kept)
        self._enter_again()
        return partitions

    def move_back(self, by: MovesBack) -> None:
        """See `EventStore.move_back`."""
        self.store.move_back(by)
        self._enter_again()

    def begin_none_from(self, begin_ms: int) -> None:
        """No kept event of then or later begins a match."""
        n = len(self.store)
        self.masks.begin[0, :n] &= self.store.t_lo_ms[:n] < begin_ms
        self._enter_again()

    def restore(self, events: pa.Table) -> None:
        """Begin with the saved events of a store: each may begin a match that an edge accepts as its first."""
        self.store.restore(events)
        self.masks.append(self._early.of_store(self.store), 0)
        self._enter_again()

    def _enter_again(self) -> None:
        self._start_filter.enter_again(self.store, self.masks)
        if self._predecessors is not None:
            self._predecessors.forget()


__all__ = ["Intake"]
