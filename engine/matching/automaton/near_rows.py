"""The rows of a store near a time, by partition: found in the time that they take, however many others there are."""

from __future__ import annotations

import numpy as np

from engine.events import FOREVER_MS, BoolArray, Int64Array
from engine.kernels.automaton.tables import Rows
from engine.kernels.columns.partitions import BROADCAST
from engine.matching.output_watermark import longest_interval_ms
from engine.stream.store import EventStore


class NearRows:
    """Of one store as it is; `rows`: its rows by partition."""

    def __init__(self, store: EventStore, rows: Rows) -> None:
        self._n = len(store)
        self._lo_ms, self._hi_ms = store.t_lo_ms[: self._n], store.t_hi_ms[: self._n]
        self._partition = store.partition[: self._n]
        self._rows = rows
        self._longest_ms = longest_interval_ms(store)
        # They are not where times move back.
        self._is_sorted = bool((self._lo_ms[1:] >= self._lo_ms[:-1]).all())

    def rows_between(self, lo_ms: int, hi_ms: int) -> tuple[int, int]:
        """Rows from `start` to before `stop`, which have among them all whose intervals touch [lo_ms, hi_ms]."""
        if not self._is_sorted:
            return 0, self._n
        start = np.searchsorted(self._lo_ms, lo_ms - self._longest_ms)
        return int(start), int(np.searchsorted(self._lo_ms, hi_ms, side="right"))

    def apart(self, within_ms: int) -> BoolArray:
        """Which rows are precise, and have none that is not within so long before them; none where times move back."""
        precise = self._lo_ms == self._hi_ms
        reached = np.maximum.accumulate(np.where(precise, -FOREVER_MS, self._hi_ms))
        return np.asarray(precise & (reached < self._lo_ms - within_ms) & self._is_sorted)

    def partitions(self, start: int, stop: int, lo_ms: int) -> list[int]:
        """The partitions of those of these rows that do not end before `lo_ms`, in the order of the stream, that of no
        key first."""
        own = self._partition[start:stop][self._hi_ms[start:stop] >= lo_ms]
        numbers, first = np.unique(own, return_index=True)
        return [BROADCAST, *(number for number in numbers[np.argsort(first)].tolist() if number != BROADCAST)]

    def members(self, partition: int, start: int, stop: int) -> Int64Array:
        """Those of these rows that are of a partition or of none, in order."""
        shared = self._own(BROADCAST, start, stop)
        if partition == BROADCAST:
            return shared
        own = self._own(partition, start, stop)
        return np.sort(np.concatenate([shared, own])) if len(shared) else own

    def _own(self, partition: int, start: int, stop: int) -> Int64Array:
        rows: Int64Array = self._rows.members[self._rows.starts[partition + 1] : self._rows.starts[partition + 2]]
        return rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]


__all__ = ["NearRows"]
