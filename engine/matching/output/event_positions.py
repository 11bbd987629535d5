"""Where the events of a stream stand in it, for as long as a row may begin or end with them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from engine.events import FOREVER_MS, EventBatch
from engine.matching.output.match_row import EventPosition

_COLUMNS = ("event_id", "t_lo_ms", "source_rank", "source_seq")
_MANY = 64
"""Parts that are put together."""


class EventPositions:
    """t_lo_ms, source_rank, source_seq and id of recent events of some types."""

    def __init__(self, types: Collection[str]) -> None:
        self.longest_ms = 0
        """The longest interval of any event so far."""
        self._types = frozenset(types)
        self._parts: list[pa.Table] = []  # each in stream order, one after the other
        self._spans: list[tuple[int, int]] = []

    def put(self, batch: EventBatch) -> None:
        """Take in the next events of the stream, in its order."""
        own = batch.of_types(self._types)
        if not len(own):
            return
        self.longest_ms = max(self.longest_ms, int((own.t_hi_ms - own.t_lo_ms).max()))
        self._parts.append(own.table.select(_COLUMNS))
        self._spans.append((int(own.t_lo_ms[0]), int(own.t_lo_ms[-1])))
        if len(self._parts) > _MANY:
            self._join()

    def of(self, wanted: Collection[tuple[int, str]]) -> dict[str, EventPosition]:
        """The positions of events of which t_lo_ms and id are given, by their ids."""
        by_time: dict[int, set[str]] = {}
        for lo_ms, event_id in wanted:
            by_time.setdefault(lo_ms, set()).add(event_id)
        found: dict[str, EventPosition] = {}
        for lo_ms, ids in by_time.items():
            for part, (from_ms, to_ms) in zip(self._parts, self._spans, strict=True):
                if from_ms <= lo_ms <= to_ms:
                    found |= _found_in(part, lo_ms, ids)
        return found

    def forget(self, before_ms: int) -> None:
        """Forget, now and then, the events that begin before this."""
        n = sum(to_ms < before_ms for _, to_ms in self._spans)
        del self._parts[:n], self._spans[:n]
        if self._parts and self._spans[0][0] < before_ms:
            first = self._parts[0]
            start = int(np.searchsorted(first.column("t_lo_ms").to_numpy(), before_ms))
            if 2 * start > first.num_rows:  # a copy, so that the memory of the others is given back
                self._parts[0] = first.take(pa.array(np.arange(start, first.num_rows)))
                self._spans[0] = _span(self._parts[0])

    def clear(self) -> None:
        """Forget all."""
        self.forget(FOREVER_MS + 1)

    def save(self) -> pa.Table:
        """The events, with the longest interval in the metadata."""
        self._join()
        table = self._parts[0] if self._parts else EventBatch.empty().table.select(_COLUMNS)
        return table.replace_schema_metadata({"longest_ms": str(self.longest_ms)})

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned."""
        self.longest_ms = int(table.schema.metadata[b"longest_ms"])
        self._parts = [table.replace_schema_metadata(None)] if table.num_rows else []
        self._spans = [_span(part) for part in self._parts]

    def _join(self) -> None:
        if len(self._parts) > 1:
            self._parts = [pa.concat_tables(self._parts).combine_chunks()]
            self._spans = [_span(part) for part in self._parts]


def _span(part: pa.Table) -> tuple[int, int]:
    lo_ms = part.column("t_lo_ms")
    return lo_ms[0].as_py(), lo_ms[len(lo_ms) - 1].as_py()


def _found_in(part: pa.Table, lo_ms: int, ids: set[str]) -> dict[str, EventPosition]:
    times_ms = part.column("t_lo_ms").to_numpy()
    start, stop = np.searchsorted(times_ms, [lo_ms, lo_ms + 1]).tolist()
    alike = part.slice(start, stop - start)
    rows = zip(*(alike.column(name).to_pylist() for name in ("source_rank", "source_seq", "event_id")), strict=True)
    return {event_id: (lo_ms, rank, seq, event_id) for rank, seq, event_id in rows if event_id in ids}


__all__ = ["EventPositions"]
