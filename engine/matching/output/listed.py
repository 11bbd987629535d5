"""Matches as arrays: what a runtime hands to the output forms, and what a union of runtimes exchanges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array, Value
from engine.matching.output.after_listing import Later
from engine.stream.run_store import RunStore
from engine.stream.store import EventStore
from engine.uncertainty.possibilities import Possibilities

Key = tuple[tuple[str, Value], ...]
"""A partition key as (attribute, value) pairs; () without one."""


Cut = tuple[tuple[int, int], ...]
"""Events of which some matches are missing, the work for one having been spent: number in the stream of the last event
of these matches, or `~number` of the first one (which decides them where a negation stands at the end), t_hi."""


class ListedMatches(NamedTuple):
    """n matches with m events in all, as row numbers of one event store.

    partition: int64 (n,), BROADCAST (-1) for none; the events of match k are rows[offsets[k]:offsets[k + 1]], in the
    order of the match, offsets int64 (n + 1,), rows int64 (m,). components: int64 (m,), the index of each event's
    variable among the positive variables of the query in textual order. iterations: int64 (m, depth), for each event
    the number (from 0) of the iteration of every repeated group around its component, outermost first, -1 beyond the
    component's depth; None when no component is in one. confidence: float64 (n,). values: float64 (n, n_returns).
    ends: int64 (n, 2), which of its events are the first and the last of each match in the stream; None: the first and
    the last one. Among imprecise events of AND the order of a match is the pattern's, which need not be the stream's.
    """

    partition: Int64Array
    offsets: Int64Array
    rows: Int64Array
    components: Int64Array
    iterations: Int64Array | None
    confidence: Float64Array
    values: Float64Array
    ends: Int64Array | None = None

    @property
    def n_matches(self) -> int:
        """How many matches these are."""
        return len(self.partition)

    @property
    def first(self) -> Int64Array:
        """The row of the first event of each match, (n,)."""
        begins = self.offsets[:-1]
        return self.rows[begins if self.ends is None else begins + self.ends[:, 0]]

    @property
    def last(self) -> Int64Array:
        """The row of the last event of each match, (n,)."""
        return self.rows[self.offsets[1:] - 1 if self.ends is None else self.offsets[:-1] + self.ends[:, 1]]

    @classmethod
    def none(cls, n_returns: int, depth: int = 0) -> ListedMatches:
        """No matches; `depth` of a query with repeated groups."""
        nothing = np.empty(0, np.int64)
        return cls(
            partition=nothing,
            offsets=np.zeros(1, np.int64),
            rows=nothing,
            components=nothing,
            iterations=np.empty((0, depth), np.int64) if depth else None,
            confidence=np.empty(0, np.float64),
            values=np.empty((0, n_returns), np.float64),
        )

    @classmethod
    def joined(cls, parts: Sequence[ListedMatches]) -> ListedMatches:
        """The matches of all parts of one store, in their order; at least one part, without `ends`."""
        n_rows = np.cumsum([0, *(len(part.rows) for part in parts)]).tolist()
        offsets = [parts[0].offsets, *(own.offsets[1:] + n for own, n in zip(parts[1:], n_rows[1:], strict=False))]
        iterations = [part.iterations for part in parts if part.iterations is not None]
        return cls(
            partition=np.concatenate([part.partition for part in parts]),
            offsets=np.concatenate(offsets),
            rows=np.concatenate([part.rows for part in parts]),
            components=np.concatenate([part.components for part in parts]),
            iterations=np.concatenate(iterations) if iterations else None,
            confidence=np.concatenate([part.confidence for part in parts]),
            values=np.concatenate([part.values for part in parts]),
        )

    def chosen(self, numbers: Int64Array) -> ListedMatches:
        """The matches of these numbers, in that order."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[numbers]
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
        events = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][numbers] - offsets[:-1], lengths)
        return ListedMatches(
            partition=self.partition[numbers],
            offsets=offsets,
            rows=self.rows[events],
            components=self.components[events],
            iterations=None if self.iterations is None else self.iterations[events],
            confidence=self.confidence[numbers],
            values=self.values[numbers],
            ends=None if self.ends is None else self.ends[numbers],
        )

    def with_ends(self) -> Int64Array:
        """`ends`, whether they are given or not."""
        if self.ends is not None:
            return self.ends
        lengths = np.diff(self.offsets)
        return np.stack([np.zeros_like(lengths), lengths - 1], axis=1)


class MatchedEvents(NamedTuple):
    """The events of some matches, independent of the store that they come from.

    ids: Arrow strings (e,); lo_ms, hi_ms, clock, source_seq int64 (e,); number int64 (e,): the index of the event in
    the stream since its query began, which tells events apart and is their stream order.
    """

    ids: pa.Array
    lo_ms: Int64Array
    hi_ms: Int64Array
    clock: Int64Array
    source_seq: Int64Array
    number: Int64Array


@dataclass(frozen=True)
class Matches:
    """Matches with their events: `listed.rows` are indices in `events`, `listed.partition` in `keys`.

    `unfinished`: a bound stopped the listing, there may be more. `cut`: the last events of which some are missing.
    `in_order`: in listing order, each binding once. `possible`: for each match in which worlds it is one, None where
    that is not known; None: of no match.
    """

    listed: ListedMatches
    events: MatchedEvents
    keys: tuple[Key, ...]
    unfinished: bool = False
    possible: tuple[Possibilities | None, ...] | None = None
    cut: Cut = ()
    in_order: bool = False

    @property
    def n_matches(self) -> int:
        """How many matches these are."""
        return self.listed.n_matches

    @property
    def first(self) -> Int64Array:
        """Place in `events` of the first event of each match, (n,)."""
        return self.listed.first

    @property
    def last(self) -> Int64Array:
        """Place in `events` of the last event of each match, (n,)."""
        return self.listed.last

    def ends_from_ms(self, watermark_ms: int) -> int:
        """The earliest t_lo of the last events, `watermark_ms` when that is earlier."""
        lows: list[int] = self.events.lo_ms[self.last].tolist()
        return min([watermark_ms, *lows])

    def have_imprecise(self) -> BoolArray:
        """Which matches have an imprecise event, (n,)."""
        if not self.n_matches:
            return np.empty(0, np.bool_)
        imprecise = (self.events.lo_ms != self.events.hi_ms)[self.listed.rows]
        return np.asarray(np.logical_or.reduceat(imprecise, self.listed.offsets[:-1]))

    @property
    def n_events(self) -> Int64Array:
        """Events of each match, (n,)."""
        return self.listed.offsets[1:] - self.listed.offsets[:-1]

    @classmethod
    def of_store(
        cls,
        store: EventStore | RunStore,
        listed: ListedMatches,
        *,
        unfinished: bool = False,
        possible: tuple[Possibilities | None, ...] | None = None,
        cut: Cut = (),
        in_order: bool = False,
    ) -> Matches:
        """Matches of a store whose rows have their position in the stream (`placed`).

        What the plan applies to listed matches is applied to them.
        """
        if store.plan.later is not None:
            kept, values = Later(store.plan, store.plan.later, store.interner).applied(
                store.columns, listed.offsets, listed.rows, listed.components, listed.iterations, listed.values
            )
            listed = listed._replace(values=values).chosen(kept)
            possible = None if possible is None else tuple(possible[number] for number in kept.tolist())
        n = len(store)
        if 16 * len(listed.rows) < n:
            rows, index = np.unique(listed.rows, return_inverse=True)
        else:
            used = np.zeros(n, np.bool_)
            used[listed.rows] = True
            rows = np.flatnonzero(used)
            index = (np.cumsum(used) - 1)[listed.rows]
        partition, keys = _keys(store, listed)
        return cls(
            listed._replace(rows=index.astype(np.int64), partition=partition),
            MatchedEvents(
                ids=store.ids.take(rows).array(),
                lo_ms=store.t_lo_ms[rows],
                hi_ms=store.t_hi_ms[rows],
                clock=store.clock[rows],
                source_seq=store.source_seq[rows],
                number=store.position[rows],
            ),
            keys,
            unfinished,
            possible,
            cut,
            in_order,
        )

    def without_cut(self) -> Matches:
        """The same, of which what was left out is told elsewhere."""
        return replace(self, cut=())

    def chosen(self, numbers: Int64Array) -> Matches:
        """The matches of these numbers, in that order; `in_order` these numbers ascend."""
        possible = self.possible
        if possible is not None:
            possible = tuple(possible[number] for number in numbers.tolist())
        return replace(self, listed=self.listed.chosen(numbers), possible=possible)

    def compact(self) -> Matches:
        """The same without the events and keys that no match has."""
        rows, index = np.unique(self.listed.rows, return_inverse=True)
        numbers, partition = np.unique(self.listed.partition, return_inverse=True)
        columns = [column[rows] for column in self.events[1:]]
        return replace(
            self,
            listed=self.listed._replace(rows=index.astype(np.int64), partition=partition.astype(np.int64)),
            events=MatchedEvents(self.events.ids.take(pa.array(rows, pa.int64())), *columns),
            keys=tuple(self.keys[number] for number in numbers.tolist()),
        )

    @classmethod
    def joined(cls, parts: Sequence[Matches]) -> Matches:
        """The matches of all parts, in their order; at least one part, all of one query."""
        first = parts[0]
        if len(parts) == 1:
            return first
        cut = tuple(dict.fromkeys(each for part in parts for each in part.cut))
        if sum(part.n_matches > 0 for part in parts) == 1:
            (some,) = (part for part in parts if part.n_matches)
            return replace(some, unfinished=any(part.unfinished for part in parts), cut=cut)
        key_positions: dict[Key, int] = {}
        listed: list[ListedMatches] = []
        n_events = n_rows = 0
        for part in parts:
            indices = np.array([key_positions.setdefault(key, len(key_positions)) for key in part.keys], np.int64)
            own = part.listed
            listed.append(
                own._replace(
                    partition=indices[own.partition] if len(indices) else own.partition,
                    offsets=own.offsets + n_rows,
                    rows=own.rows + n_events,
                )
            )
            n_events += len(part.events.ids)
            n_rows += len(own.rows)
        iterations = [part.iterations for part in listed if part.iterations is not None]
        has_ends = any(part.ends is not None for part in listed)
        return cls(
            ListedMatches(
                partition=np.concatenate([part.partition for part in listed]),
                offsets=np.concatenate([listed[0].offsets, *(part.offsets[1:] for part in listed[1:])]),
                rows=np.concatenate([part.rows for part in listed]),
                components=np.concatenate([part.components for part in listed]),
                iterations=np.concatenate(iterations) if iterations else None,
                confidence=np.concatenate([part.confidence for part in listed]),
                values=np.concatenate([part.values for part in listed]),
                ends=np.concatenate([part.with_ends() for part in listed]) if has_ends else None,
            ),
            MatchedEvents(
                pa.concat_arrays([part.events.ids for part in parts]),
                *(np.concatenate(columns) for columns in zip(*(part.events[1:] for part in parts), strict=True)),
            ),
            tuple(key_positions),
            any(part.unfinished for part in parts),
            _joined_possible(parts),
            cut,
        )

    # ---------------------------------------------------------------- state

    def save(self) -> dict[str, pa.Table]:
        """Tables "events" and "matches"."""
        own = self.listed
        events = {name: pa.array(column) for name, column in self.events._asdict().items() if name != "ids"}
        matches = {
            "key": pa.array([json.dumps(self.keys[index]) for index in own.partition.tolist()], pa.string()),
            "rows": _lists(own.rows, own.offsets),
            "components": _lists(own.components, own.offsets),
            "confidence": pa.array(own.confidence),
            "values": _lists(own.values.ravel(), np.arange(own.n_matches + 1) * own.values.shape[1]),
        }
        if own.ends is not None:
            matches["first"], matches["last"] = pa.array(own.ends[:, 0]), pa.array(own.ends[:, 1])
        if self.possible is not None:
            texts = [None if possible is None else possible.to_json() for possible in self.possible]
            matches["possible"] = pa.array(texts, pa.string())
        if own.iterations is not None:
            matches["iterations"] = _lists(own.iterations.ravel(), own.offsets * own.iterations.shape[1])
        return {"events": pa.table({"ids": self.events.ids, **events}), "matches": pa.table(matches)}

    @classmethod
    def restored(cls, state: Mapping[str, pa.Table], n_returns: int, depth: int) -> Matches:
        """What `save` returned."""
        events, matches = state["events"], state["matches"]
        offsets = np.append(0, np.cumsum([len(rows) for rows in matches.column("rows")])).astype(np.int64)
        rows = _flat(matches, "rows", np.int64)
        keys = [as_key(json.loads(text)) for text in matches.column("key").to_pylist()]
        indices = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        columns = {name: events.column(name).to_numpy() for name in MatchedEvents._fields if name != "ids"}
        listed = ListedMatches(
            partition=np.array([indices[key] for key in keys], np.int64),
            offsets=offsets,
            rows=rows,
            components=_flat(matches, "components", np.int64),
            iterations=_flat(matches, "iterations", np.int64).reshape(len(rows), depth) if depth else None,
            confidence=matches.column("confidence").to_numpy(),
            values=_flat(matches, "values", np.float64).reshape(len(offsets) - 1, n_returns),
            ends=_ends(matches),
        )
        ids = events.column("ids").combine_chunks()
        return cls(listed, MatchedEvents(ids, **columns), tuple(indices), possible=_possible(matches))


def no_matches(n_returns: int, depth: int = 0) -> Matches:
    """Matches of which there are none."""
    nothing = np.empty(0, np.int64)
    events = MatchedEvents(pa.array([], pa.string()), nothing, nothing, nothing, nothing, nothing)
    return Matches(ListedMatches.none(n_returns, depth), events, ())


def _keys(store: EventStore | RunStore, listed: ListedMatches) -> tuple[Int64Array, tuple[Key, ...]]:
    """The keys of matches, and the index of each match's among them, int64 (n,).

    A store's partition is completed by the attributes of the plan's partial key, from the first event that has each.
    """
    plan, source = store.plan, store.as_it_is()
    if not plan.partial_key or not listed.n_matches:
        numbers, partition = np.unique(listed.partition, return_inverse=True)
        return partition.astype(np.int64), tuple(source.key_of(number) for number in numbers.tolist())
    match_of = np.repeat(np.arange(listed.n_matches), np.diff(listed.offsets))
    parts = [listed.partition.astype(np.float64)]
    for partial in plan.partial_key:
        holders = [at for at, name in enumerate(plan.variables) if name in partial.variables]
        events = np.flatnonzero(np.isin(listed.components, holders))
        matches, first = np.unique(match_of[events], return_index=True)
        column = np.full(listed.n_matches, np.inf)  # no event of the match has it
        column[matches] = store.columns[plan.programs.columns.index(partial.attribute), listed.rows[events[first]]]
        parts.append(column)
    distinct, partition = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)
    keys = []
    for number, *codes in distinct.tolist():
        of_key = dict(source.key_of(int(number)))
        for partial, code in zip(plan.partial_key, codes, strict=True):
            if code != np.inf:
                of_key[partial.attribute] = source.value(code, plan.attribute_types[partial.attribute])
        keys.append(tuple((name, of_key[name]) for name in plan.match_key if name in of_key))
    return partition.reshape(-1).astype(np.int64), tuple(keys)


def _lists(flat: Int64Array | Float64Array, offsets: Int64Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(flat))


def _flat(table: pa.Table, name: str, dtype: type) -> Any:
    chunks = table.column(name).combine_chunks()
    return np.array(chunks.flatten().to_numpy(zero_copy_only=False), dtype)


def _joined_possible(parts: Sequence[Matches]) -> tuple[Possibilities | None, ...] | None:
    if all(part.possible is None for part in parts):
        return None
    return tuple(each for part in parts for each in part.possible or (None,) * part.n_matches)


def _possible(table: pa.Table) -> tuple[Possibilities | None, ...] | None:
    if "possible" not in table.column_names:
        return None
    texts = table.column("possible").to_pylist()
    return tuple(None if text is None else Possibilities.from_json(text) for text in texts)


def _ends(table: pa.Table) -> Int64Array | None:
    if "first" not in table.column_names:
        return None
    return np.stack([table.column(name).to_numpy() for name in ("first", "last")], axis=1)


def as_key(pairs: Sequence[Sequence[Any]]) -> Key:
    """The key that JSON gives back as lists."""
    return tuple((str(name), value) for name, value in pairs)


__all__ = ["Cut", "Key", "ListedMatches", "MatchedEvents", "Matches", "as_key", "no_matches"]
