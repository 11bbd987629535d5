"""Events that come when no match can be under way are not kept, however well they would fit into one.

An event takes part in a match, or denies one between its events or after them, only when an event that can begin it is
at most a window older, in its partition. Where such events are rare, most of the stream is dropped before anything else
is asked about it: with many queries over one stream, nearly all work is saved so.
"""

from __future__ import annotations

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.runs.recent_starts import NEVER_MS, live_rows
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.store import EventStore

_NO_ROWS: Int64Array = np.empty(0, np.int64)


class RecentStarts:
    """The starts of one query that events still to come may follow: the latest of each partition."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._types = plan.types
        self._kinds = {name: plan.attribute_types[name] for name in plan.key}
        self._keys: Float64Array = np.empty((len(plan.key), 0), np.float64)
        self._ends_ms: Int64Array = _NO_ROWS
        self._shared_ms = np.full(2, NEVER_MS, np.int64)

    def select(self, stream: StreamColumns, starts: Int64Array) -> Int64Array | None:
        """Rows of the query's types that may take part in a match, given those that can begin one; None: all may.

        Where intervals overlap, an event may come after one that starts later; such batches are taken as they are.
        """
        rows, precise = stream.rows_of_types(self._types)
        if not len(rows):
            return rows
        if not len(starts) and int(self._shared_ms[1]) + self._plan.within_ms < int(stream.t_lo_ms[rows[0]]):
            return _NO_ROWS if precise else None
        partitions = stream.partitions(self._plan.key, self._kinds)
        with stream.lock:
            carried = partitions.table.numbers(self._keys)
            last_ms = np.full(len(partitions.table), NEVER_MS, np.int64)
        last_ms[carried] = self._ends_ms
        live = live_rows(
            rows, starts, partitions.numbers, stream.t_lo_ms, stream.t_hi_ms, self._plan.within_ms,
            last_ms, self._shared_ms,
        )  # fmt: skip
        kept = np.flatnonzero(last_ms + self._plan.within_ms >= stream.t_lo_ms[rows[-1]])
        with stream.lock:
            self._keys, self._ends_ms = partitions.table.columns(kept), last_ms[kept]
        return live if precise else None

    def of_store(self, store: EventStore, starts: Int64Array) -> None:
        """Begin with the starts among the kept rows."""
        hi_ms = store.t_hi_ms[starts]
        if len(starts):
            self._shared_ms[1] = hi_ms.max()
        keyed = store.partition[starts] >= 0
        if not keyed.all():
            self._shared_ms[0] = hi_ms[~keyed].max()
        partitions = store.partition[starts[keyed]]
        last_ms = np.full(store.n_partitions, NEVER_MS, np.int64)
        np.maximum.at(last_ms, partitions, hi_ms[keyed])
        kept = np.flatnonzero(last_ms > NEVER_MS)
        self._keys, self._ends_ms = store.keys(kept), last_ms[kept]


__all__ = ["RecentStarts"]
