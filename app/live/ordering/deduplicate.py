"""One event, one entry: copies from several sources are merged while they wait and counted afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.live.ordering.remembered_ids import OPEN, PANE_IDS, SEALED, RememberedIds
from engine.events import FOREVER_MS, HEADER_NAMES, BoolArray, EventBatch, Int64Array

PRECEDENCE = "precedence__"
"""Column of waiting events: rank of the source the row came from, 0 first. Attributes have no such name."""

TEXT = "released"
"""Remembered ids as checkpoints of version 1 have them: event_id (string) and until_ms."""

NEVER_MS = -FOREVER_MS


@dataclass(frozen=True)
class Offered:
    """What became of a batch."""

    n_new: Counter[str]
    """By event type; the others likewise."""
    n_duplicate: Counter[str]
    late: EventBatch
    """Events before the watermark that had not been released: they take no part."""
    late_rows: pa.Table
    """The same with what the deduplicator has to know of them, should they take part after all."""


class Deduplicator:
    """Holds events until the watermark has passed their start.

    Of copies that wait, the one of the source that stands first in the precedence enters; attributes it lacks are
    filled in from the others. Copies of released events are counted. Ids are remembered until `remember_ms` after the
    watermark passed their end; those of the types in `brief_types`, which only one source yields, for `brief_ms`: there
    are many of them, and copies come only from reading the source again.
    """

    def __init__(
        self,
        precedence: Mapping[str, int],
        remember_ms: int,
        *,
        brief_types: Collection[str] = (),
        brief_ms: int | None = None,
        pane_ids: int = PANE_IDS,
    ) -> None:
        self._precedence = dict(precedence)
        self._remember_ms = remember_ms
        self._brief_types = pa.array(sorted(brief_types), pa.string())
        self._brief_ms = remember_ms if brief_ms is None else min(brief_ms, remember_ms)
        self._waiting = _waiting_of(EventBatch.empty(), 0)
        self._released = RememberedIds(pane_ids)
        self.watermark_ms = NEVER_MS

    def __len__(self) -> int:
        return int(self._waiting.num_rows)

    def offer(self, source: str, batch: EventBatch) -> Offered:
        """Take in events of one source, in any order; raises EventError for a batch that breaks the schema."""
        batch.validate()
        known = self._released.hold(batch.table.column("event_id"))
        is_late = ~known & (batch.t_lo_ms < self.watermark_ms)
        on_time = batch.where(~known & ~is_late)
        # A source may date an event earlier than the copy that waits: the event is not lost, so this one is a copy.
        known |= is_late & _is_in(batch, [self._waiting, on_time.table])
        duplicate = batch.where(known)
        too_late = batch.where(is_late & ~known)
        late = distinct(too_late)
        self._remember(late)
        n_before = len(self)
        rank = self._precedence.get(source, len(self._precedence))
        merged, repeated = _merge(self._waiting, _waiting_of(on_time, rank))
        self._waiting = merged
        assert n_before + len(on_time) == len(self) + len(repeated)
        n_duplicate = _by_type(duplicate)
        n_duplicate.update(repeated)
        n_duplicate.update(_by_type(too_late) - _by_type(late))
        return Offered(_by_type(on_time) - Counter(repeated), n_duplicate, late, _waiting_of(late, rank))

    def bounded(self, watermark_ms: int, most_events: int) -> int:
        """The watermark, or an earlier one that releases at most so many events, or those of one millisecond."""
        times_ms = self._waiting.column("t_lo_ms").to_numpy()
        ready_ms = times_ms[times_ms < watermark_ms]
        if len(ready_ms) <= most_events:
            return watermark_ms
        first_left_ms = int(np.partition(ready_ms, most_events)[most_events])
        return max(first_left_ms, int(ready_ms.min()) + 1)

    def release(self, watermark_ms: int) -> EventBatch:
        """The events that start before `watermark_ms`; a lower one than before releases nothing."""
        self.watermark_ms = max(self.watermark_ms, watermark_ms)
        t_lo_ms = self._waiting.column("t_lo_ms")
        ready = pc.less(t_lo_ms, self.watermark_ms)
        released = EventBatch(self._waiting.filter(ready).drop_columns([PRECEDENCE]))
        self._waiting = self._waiting.filter(pc.invert(ready)).combine_chunks()
        self._remember(released)
        self._forget()
        return released

    def go_back(self, watermark_ms: int, late_rows: pa.Table | None) -> None:
        """The watermark was ahead of time; what was released stays so.

        `late_rows`: what was late against it; those that are not before the new one wait with the others.
        """
        self.watermark_ms = watermark_ms
        self._released.go_back(watermark_ms)
        if late_rows is not None:
            on_time = late_rows.filter(pc.greater_equal(late_rows.column("t_lo_ms"), watermark_ms))
            self._waiting, _ = _merge(self._waiting, on_time)

    def knows(self, event_id: str) -> bool:
        """True when an event of this id waits or was released and is still remembered."""
        waits = bool(pc.any(pc.equal(self._waiting.column("event_id"), event_id)).as_py())
        return waits or bool(self._released.hold(pa.array([event_id], pa.string()))[0])

    def save(self) -> dict[str, pa.Table]:
        """Waiting events and the latest remembered ids; the watermark travels as metadata."""
        meta = {"watermark_ms": str(self.watermark_ms)}
        return {"waiting": self._waiting.replace_schema_metadata(meta), OPEN: self._released.save()}

    def sealed(self) -> dict[str, pa.Table]:
        """The other remembered ids, in tables that never change: of one it is the same object each time."""
        return self._released.sealed()

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` and `sealed` returned; raises KeyError or ValueError when it is something else."""
        waiting = state["waiting"]
        self.watermark_ms = int((waiting.schema.metadata or {})[b"watermark_ms"])
        self._waiting = waiting.replace_schema_metadata(None)
        if (text := state.get(TEXT)) is not None:
            self._released.add(text.column("event_id"), text.column("until_ms"))
            self._forget()
            return
        self._released.restore(state[OPEN], {name: table for name, table in state.items() if name.startswith(SEALED)})

    def _remember(self, events: EventBatch) -> None:
        if not len(events):
            return
        brief = pc.is_in(events.strings("type"), value_set=self._brief_types)
        until_ms = pc.add(pa.array(events.t_hi_ms), pc.if_else(brief, self._brief_ms, self._remember_ms))
        self._released.add(events.strings("event_id"), until_ms)

    def _forget(self) -> None:
        if self.watermark_ms < FOREVER_MS:
            self._released.forget(self.watermark_ms)


def _is_in(batch: EventBatch, tables: list[pa.Table]) -> BoolArray:
    """Per event whether one of the tables has its id."""
    ids = batch.table.column("event_id")
    found = np.zeros(len(batch), np.bool_)
    for table in tables:
        if len(batch) and table.num_rows:
            # The hash table is built over the few new ids, not over the many remembered ones.
            there = table.column("event_id")
            seen = there.filter(pc.is_in(there, value_set=ids.combine_chunks()))
            found |= _mask(pc.is_in(ids, value_set=seen.combine_chunks()))
    return found


def _waiting_of(batch: EventBatch, rank: int) -> pa.Table:
    return batch.table.append_column(PRECEDENCE, pa.array(np.full(len(batch), rank, np.int32)))


def _merge(waiting: pa.Table, new: pa.Table) -> tuple[pa.Table, list[str]]:
    """One row per id, and the types of the new rows that were copies."""
    if not new.num_rows:
        return waiting, []
    table = pa.concat_tables([waiting, new], promote_options="default").combine_chunks()
    codes = table.column("event_id").combine_chunks().dictionary_encode().indices.to_numpy()
    n_distinct = int(codes.max()) + 1
    if n_distinct == len(codes):
        return table, []
    ranks = table.column(PRECEDENCE).to_numpy()
    # Copies of one id side by side, the preferred source first, of equal ones the first that came.
    order = np.lexsort((np.arange(len(codes)), ranks, codes))
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.r_[True, sorted_codes[1:] != sorted_codes[:-1]])
    merged = table.take(pa.array(order[starts]))
    merged = _enrich(merged, table, order, starts)
    _, first_seen = np.unique(codes, return_index=True)
    is_copy = np.ones(len(codes), np.bool_)
    is_copy[first_seen] = False
    return merged, table.column("type").filter(pa.array(is_copy)).to_pylist()


def _enrich(merged: pa.Table, table: pa.Table, order: Int64Array, starts: Int64Array) -> pa.Table:
    """Fill attributes that the preferred copy lacks; its header stays: interval and clock belong together."""
    counts = np.diff(np.r_[starts, len(order)])
    attributes = [name for name in table.column_names if name not in HEADER_NAMES and name != PRECEDENCE]
    for nth in range(1, int(counts.max())):
        has_nth = counts > nth
        places = order[np.where(has_nth, starts + nth, 0)]
        copies = table.select(attributes).take(pa.array(places, mask=~has_nth))
        for name in attributes:
            column = pc.coalesce(merged.column(name), copies.column(name))
            merged = merged.set_column(merged.column_names.index(name), table.schema.field(name), column)
    return merged


def distinct(batch: EventBatch) -> EventBatch:
    """Of events with one id the first."""
    if len(batch) < 2:
        return batch
    codes = batch.table.column("event_id").combine_chunks().dictionary_encode().indices.to_numpy()
    _, first_seen = np.unique(codes, return_index=True)
    return batch.take(np.sort(first_seen))


def _by_type(batch: EventBatch) -> Counter[str]:
    return Counter({item["values"]: item["counts"] for item in pc.value_counts(batch.strings("type")).to_pylist()})


def _mask(values: pa.ChunkedArray) -> BoolArray:
    return np.asarray(values.to_numpy(), np.bool_)
