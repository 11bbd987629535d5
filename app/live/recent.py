"""Events of the recent past, kept as columns: what an alert shows as its evidence is looked up here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.alerting.recording.evidence import KnownEvent, storable_origin, storable_raw
from engine.events import FOREVER_MS, HEADER_NAMES, BoolArray, EventBatch

MOST_LAST_EVENTS = 100_000
"""Of the last events of all values of a key so many are kept, the latest: values are forgotten by nothing else."""


NOTHING_WAITS: Mapping[str, int] = MappingProxyType({})


class LastEvents(NamedTuple):
    """The last `n` events of these types for each value of a key: those that a window of n events may still hold.

    Events that lack an attribute of the key are counted by what they have: of the last n events of a partition those
    with the same part of the key are among the last n of these.
    """

    types: frozenset[str]
    key: tuple[str, ...]
    n: int

    def among(self, events: EventBatch) -> BoolArray:
        """Which of the events these are, bool (n,)."""
        found = np.zeros(len(events), np.bool_)
        wanted = pc.is_in(events.strings("type"), value_set=pa.array(sorted(self.types), pa.string()))
        rows = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        group = np.zeros(len(rows), np.int64)
        for name in filter(events.has, self.key):
            values = events.table.column(name).take(pa.array(rows)).combine_chunks()
            codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
            group = np.unique(group * (len(rows) + 1) + codes, return_inverse=True)[1]
        by_group = np.lexsort((events.t_lo_ms[rows], group))
        ends = np.searchsorted(group[by_group], group[by_group], side="right")
        last = np.sort(rows[by_group[ends - np.arange(len(rows)) <= self.n]])
        if len(last) > MOST_LAST_EVENTS:
            last = last[np.argsort(events.t_lo_ms[last], kind="stable")[-MOST_LAST_EVENTS:]]
        found[last] = True
        return found


def last_events(queries: Iterable[tuple[frozenset[str], tuple[str, ...], int | None]]) -> list[LastEvents]:
    """What is kept for queries with windows of events: (types, key, n), n None for others; one for each key."""
    by_key: dict[tuple[str, ...], LastEvents] = {}
    for types, key, n in queries:
        if n is not None:
            known = by_key.get(key, LastEvents(frozenset(), key, 0))
            by_key[key] = LastEvents(known.types | types, key, max(known.n, n))
    return list(by_key.values())


def longest_windows(queries: Iterable[tuple[frozenset[str], int]]) -> dict[str, int]:
    """How long events of each type can be part of a match: the longest WITHIN of the queries that read it (ms)."""
    longest: dict[str, int] = {}
    for types, within_ms in queries:
        for event_type in types:
            longest[event_type] = max(longest.get(event_type, 0), within_ms)
    return longest


class RecentEvents:
    """Released events, for as long as a match may still bind them."""

    def __init__(self, keep_ms: Mapping[str, int], slack_ms: int = 0, last: Sequence[LastEvents] = ()) -> None:
        """`keep_ms`: per event type, after the watermark has passed the event's end; other types are not kept.
        `last`: those of these types that are kept longer."""
        self._last = last
        self._keep_ms = {event_type: duration + slack_ms for event_type, duration in keep_ms.items()}
        self._events = EventBatch.empty()
        self._watermark_ms = -FOREVER_MS

    def __len__(self) -> int:
        return len(self._events)

    @property
    def events(self) -> EventBatch:
        """All that is kept."""
        return self._events

    def add(self, released: EventBatch, watermark_ms: int, behind_ms: Mapping[str, int] = NOTHING_WAITS) -> None:
        """Keep events of the types that queries read, up to a watermark.

        What the watermark before this one had passed goes first: a step's matches find all their events, however far
        the watermark jumped. `behind_ms`: by event type, how far behind that watermark rows were still to come.
        """
        self._expire(behind_ms)
        self._events = EventBatch.concat([self._events, released.of_types(self._keep_ms)])
        self._watermark_ms = watermark_ms

    def _expire(self, behind_ms: Mapping[str, int]) -> None:
        if not len(self._events):
            return
        types = self._events.strings("type").dictionary_encode()
        names = types.dictionary.to_pylist()
        keep_ms = np.array([self._keep_ms.get(name, -1) + behind_ms.get(name, 0) for name in names], np.int64)
        last_ms = self._events.t_hi_ms + keep_ms[types.indices.to_numpy()]
        alive = last_ms >= self._watermark_ms
        for last in self._last:
            alive |= last.among(self._events)
        if not alive.all():
            self._events = self._events.where(alive)

    def lookup(self, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
        """The events of these ids that are still kept, by id."""
        return lookup(self._events, event_ids)

    def save(self) -> pa.Table:
        """The events."""
        return self._events.table

    def restore(self, table: pa.Table, watermark_ms: int) -> None:
        """Take over what `save` returned, with the watermark at that time."""
        self._events = EventBatch(table)
        self._watermark_ms = watermark_ms


def lookup(events: EventBatch, event_ids: Sequence[str]) -> dict[str, KnownEvent]:
    """Events by id; ids that are not there are left out."""
    if not event_ids or not len(events):
        return {}
    wanted = pc.is_in(events.table.column("event_id"), value_set=pa.array(list(set(event_ids)), pa.string()))
    if not len(found := _without_empty_columns(events.table).filter(wanted)):
        return {}
    types = found.column("type").unique()
    known: dict[str, KnownEvent] = {}
    for event_type in types:  # each has its own attributes
        of_type = found if len(types) == 1 else found.filter(pc.equal(found.column("type"), event_type))
        known |= {event.event_id: event for event in _known(_without_empty_columns(of_type))}
    return known


def _without_empty_columns(table: pa.Table) -> pa.Table:
    return table.select([name for name in table.column_names if table.column(name).null_count < len(table)])


def _known(table: pa.Table) -> Iterator[KnownEvent]:
    def values(name: str, change: Callable[[Any], Any] | None = None) -> Iterable[Any]:
        if name not in table.column_names:
            return repeat(None, len(table))
        found = table.column(name).to_pylist()
        return found if change is None else map(change, found)

    return map(
        KnownEvent,
        *map(values, ("event_id", "type", "t_lo_ms", "t_hi_ms")),
        _attributes(table.drop_columns([name for name in table.column_names if name in HEADER_NAMES])),
        values("origin", storable_origin),
        values("raw", storable_raw),
    )


def _attributes(table: pa.Table) -> list[dict[str, Any]]:
    """Of each row, without nulls."""
    names = table.column_names
    if not names:
        return [{} for _ in range(len(table))]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
    for name in names:
        if table.column(name).null_count:
            for row in rows:
                if row[name] is None:
                    del row[name]
    return rows
