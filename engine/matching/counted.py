"""Windows of n events: the first and the last event of a match are among n consecutive ones of its partition.

Each partition has run state of its own, whose times are the places of events in the partition: 0, 1, 2, ... whatever
their types. WITHIN n EVENTS is then a window of n - 1, for every runtime, and so are the places of negations at the
start and the end. Events without the key are in every partition, at another place in each. Costs one runtime per
partition: a window of events never passes by itself, so that partitions are kept for good.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import StateError, UnsupportedQueryError
from engine.events import FOREVER_MS, BoolArray, EventBatch, Float64Array, Int64Array
from engine.language import ast
from engine.matching.base import Limits, Runtime
from engine.matching.interner import Interner
from engine.matching.key_table import KeyTable
from engine.matching.listed import Matches
from engine.matching.results import Results, TakesMatches
from engine.matching.rows import MatchRow
from engine.matching.stream import ShardColumns, StreamColumns
from engine.matching.union import Collected, is_trailing, union_shapes, union_variables
from engine.plan.automaton_model import AutomatonPlan
from engine.plan.model import Plan
from engine.plan.window import UNBOUNDED_MS

_STATE_VERSION = 1
_CONTIGUOUS = (ast.Strategy.STRICT_CONTIGUITY, ast.Strategy.PARTITION_CONTIGUITY)


class PlacedColumns(ShardColumns):
    """Some rows of a batch whose times are their places in a partition; the attribute `timestamp` stays what it is."""

    def __init__(self, whole: StreamColumns, rows: Int64Array, places: Int64Array) -> None:
        super().__init__(whole, rows)
        self.real_ms = self.t_lo_ms
        self.t_lo_ms = self.t_hi_ms = places


@dataclass
class _Partition:
    """`n`: events so far. `broadcast`: those without the key when it was last looked at. The last events that the
    runtime was given: their places, times and places in the whole stream."""

    runtime: Runtime
    collected: Collected
    n: int = 0
    broadcast: int = 0
    places: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    times_ms: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    numbers: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class _Others:
    """The rows of a batch whose type lacks the key, or a part of it: which of the key's attributes they have, and their
    values, (width, n)."""

    rows: Int64Array
    has: BoolArray
    values: Float64Array

    @classmethod
    def none(cls) -> _Others:
        """Without a key there are none."""
        return cls(np.empty(0, np.int64), np.empty((0, 0), np.bool_), np.empty((0, 0), np.float64))

    @property
    def is_partly_keyed(self) -> bool:
        """Whether there is one with a part of the key."""
        return bool(self.has.any())

    @property
    def n_broadcast(self) -> int:
        """Those that are in every partition."""
        return int((~self.has.any(axis=0)).sum()) if len(self.rows) else 0

    def of(self, key: tuple[float, ...]) -> Int64Array:
        """Those in the partition of this key: what they have of it is equal."""
        if not len(self.rows):
            return self.rows
        agrees: BoolArray = (~self.has | (self.values == np.array(key)[:, None])).all(axis=0)
        agreeing: Int64Array = self.rows[agrees]
        return agreeing


class CountedRuntime:
    """Run state of one query WITHIN n EVENTS; implements `engine.matching.base.Runtime`.

    `make`: run state of one partition, which hands its matches to its argument. Imprecise events are refused and
    counted in `n_rejected`, but have their places.
    """

    def __init__(
        self,
        plan: Plan,
        branches: Sequence[Plan],
        variables: Sequence[str],
        interner: Interner,
        limits: Limits,
        make: Callable[[TakesMatches], Runtime],
    ) -> None:
        self.plan = plan
        self.n_rejected = 0
        self._interner = interner
        self._make = make
        self._trailing = any(is_trailing(branch) for branch in branches)
        _check_evaluated(plan, branches, trailing=self._trailing)
        self._n_events = plan.within_ms + 1
        # Under strict contiguity what is between does not depend on partitions, and a match has all places between.
        self._key = () if plan.strategy is ast.Strategy.STRICT_CONTIGUITY else plan.key
        named_broadcast = any(name not in plan.keyed_types for name in plan.types)
        self._gives_broadcast = named_broadcast or plan.strategy is ast.Strategy.PARTITION_CONTIGUITY
        self._keys = KeyTable(len(self._key))
        self._partitions: list[_Partition] = []
        self._recent = EventBatch.empty()  # the last events without the key
        self._recent_numbers: Int64Array = np.empty(0, np.int64)
        self._n_seen = 0
        self._n_broadcast = 0
        unbounded = replace(plan, within_ms=UNBOUNDED_MS)
        bound, shapes = union_variables(branches, variables), union_shapes(branches, variables)
        self._results = Results(unbounded, interner, limits, bound, trailing=False, shapes=shapes)
        self._make(Collected(len(plan.returns)))  # what is refused is refused now

    @property
    def n_rows(self) -> int:
        """Events kept, in every partition that has them."""
        return sum(partition.runtime.n_rows for partition in self._partitions)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`."""
        return self._results.n_unfinished + sum(partition.runtime.n_unfinished for partition in self._partitions)

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        given = self._given(stream)
        numbers, others = self._members(stream)
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(self._keys) + 1))
        while len(self._partitions) < len(self._keys):
            self._begin(self._keys.key(len(self._partitions)))
        ended = watermark_ms >= FOREVER_MS
        none = Collected(len(self.plan.returns)).taken()
        found: list[Matches] = [none]
        for number, partition in enumerate(self._partitions):
            own = order[bounds[number] : bounds[number + 1]]
            if len(own) or others.is_partly_keyed or (len(others.rows) and (self._gives_broadcast or self._trailing)):
                members = np.concatenate([own, others.of(self._keys.key(number))])
                found.append(self._step(partition, stream, members, others.n_broadcast, given))
            if ended:
                nothing = np.empty(0, np.int64)
                found.append(self._give(partition, PlacedColumns(stream, nothing, nothing), nothing, FOREVER_MS))
        self._remember(stream, others.rows)
        self._n_seen += len(stream)
        self._n_broadcast += others.n_broadcast
        return self._results.take(Matches.joined(found), stream, watermark_ms)

    def promise_ms(self, watermark_ms: int) -> int:
        """See `Runtime.promise_ms`. A trailing negation is decided by events, however late these come."""
        if watermark_ms >= FOREVER_MS:
            return FOREVER_MS
        promised = watermark_ms
        if self._trailing:
            for partition in self._partitions:
                undecided = partition.times_ms[partition.places >= partition.n - self._n_events]
                promised = min(promised, int(undecided.min()) if len(undecided) else promised)
        return self._results.held_from_ms(promised)

    # --------------------------------------------------------------- partitions

    def _given(self, stream: StreamColumns) -> BoolArray:
        """The rows that runtimes get: precise ones of the query's types; under contiguity all the others as well."""
        given = np.full(len(stream), self.plan.strategy in _CONTIGUOUS)
        imprecise = stream.t_lo_ms != stream.t_hi_ms
        for name in self.plan.types:
            rows = stream.rows_of_type(name)
            given[rows] = ~imprecise[rows]
            self.n_rejected += int(imprecise[rows].sum())
        return given

    def _members(self, stream: StreamColumns) -> tuple[Int64Array, _Others]:
        """For each row the partition that it alone is in, -1 without one, and those that may be in several."""
        n = len(stream)
        if not self._key:
            return self._keys.numbers(np.empty((0, n), np.float64)), _Others.none()
        columns = np.stack([stream.column(name, self.plan.attribute_types[name]) for name in self._key])
        has = np.zeros((len(self._key), n), np.bool_)
        for event_type, own in self.plan.key_of_type.items():
            for at, name in enumerate(self._key):
                if name in own:
                    has[at, stream.rows_of_type(event_type)] = True
        keyed = has.all(axis=0)
        complete = np.flatnonzero(keyed & ~np.isnan(columns).any(axis=0))
        numbers: Int64Array = np.full(n, -1, np.int64)
        numbers[complete] = self._keys.numbers(columns[:, complete])
        rows = np.flatnonzero(~keyed)
        return numbers, _Others(rows, has[:, rows], columns[:, rows])

    def _begin(self, key: tuple[float, ...]) -> None:
        """A partition whose first keyed event has come; the events without the key before it are in it, too."""
        collected = Collected(len(self.plan.returns))
        partition = _Partition(self._make(collected), collected, broadcast=self._n_broadcast)
        self._partitions.append(partition)
        if len(self._recent):
            stream = StreamColumns(self._recent, self._interner)
            n_rejected = self.n_rejected
            given = self._given(stream)
            self.n_rejected = n_rejected  # they were counted when they came
            members = self._members(stream)[1].of(key)
            places = np.arange(len(members), dtype=np.int64)
            partition.n = len(members)
            chosen = given[members]
            rows = members[chosen]
            self._give(partition, PlacedColumns(stream, rows, places[chosen]), self._recent_numbers[rows])

    def _step(
        self, partition: _Partition, stream: StreamColumns, members: Int64Array, n_broadcast: int, given: BoolArray
    ) -> Matches:
        """Give a partition its rows of a batch; returns the matches that are decided then."""
        members = np.sort(members)
        first = partition.n + self._n_broadcast - partition.broadcast  # those that came while it was not looked at
        places = first + np.arange(len(members), dtype=np.int64)
        partition.n = first + len(members)
        partition.broadcast = self._n_broadcast + n_broadcast
        chosen = given[members]
        rows = members[chosen]
        return self._give(partition, PlacedColumns(stream, rows, places[chosen]), self._n_seen + rows)

    def _give(self, partition: _Partition, stream: PlacedColumns, numbers: Int64Array, n: int | None = None) -> Matches:
        partition.places = np.concatenate([partition.places, stream.t_lo_ms])
        partition.times_ms = np.concatenate([partition.times_ms, stream.real_ms])
        partition.numbers = np.concatenate([partition.numbers, numbers])
        partition.runtime.advance(stream, partition.n if n is None else n)
        taken = self._in_time(partition.collected.taken(), partition)
        # A match that is still undecided begins less than a window before the partition's end, or is decided now.
        kept = partition.places >= partition.n - 2 * self._n_events
        for name in ("places", "times_ms", "numbers"):
            setattr(partition, name, getattr(partition, name)[kept])
        return taken

    def _in_time(self, found: Matches, partition: _Partition) -> Matches:
        """The same matches with the times and numbers that their events have in the stream."""
        if self._key and () in found.keys:
            raise UnsupportedQueryError(
                "a match of events without the key alone is in no partition, in which its events could be counted",
                self.plan.query.clause_span("WITHIN"),
                "a pattern of which every match has an event with the key",
                "give WITHIN a duration, or evaluate it with --runtime oracle",
            )
        at = np.searchsorted(partition.places, found.events.lo_ms)
        times_ms = partition.times_ms[at]
        events = found.events._replace(lo_ms=times_ms, hi_ms=times_ms, number=partition.numbers[at])
        return replace(found, events=events)

    def _remember(self, stream: StreamColumns, others: Int64Array) -> None:
        """Keep the last events that may be in several partitions for those that are still to come."""
        if self._key and self._gives_broadcast and len(others):
            rows = others
            recent = EventBatch.concat([self._recent, stream.batch.take(rows)])
            skipped = self._beyond(recent)
            self._recent = EventBatch(recent.table.slice(skipped))
            self._recent_numbers = np.concatenate([self._recent_numbers, self._n_seen + rows])[skipped:]

    def _beyond(self, recent: EventBatch) -> int:
        """How many events, from the start, no match of a partition to come can have, nor count from one that it has."""
        broadcast = _is_broadcast(recent, self.plan).astype(np.int64)
        n_later: Int64Array = np.cumsum(broadcast[::-1])[::-1]  # those in every partition, from each event on
        outside = int(np.searchsorted(np.negative(n_later), -self._n_events))
        before_first = int(np.argmax(broadcast)) if broadcast.any() else len(recent)
        return max(outside, before_first)

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The partitions, each with the state of its runtime as Arrow streams; the last events without the key."""
        meta = {
            "version": str(_STATE_VERSION),
            "keys": json.dumps(self._keys.all()),
            "n_seen": str(self._n_seen),
            "n_broadcast": str(self._n_broadcast),
            "n_rejected": str(self.n_rejected),
        }
        parts = [partition.runtime.save() for partition in self._partitions]
        partitions = pa.table(
            {
                "n": pa.array([partition.n for partition in self._partitions], pa.int64()),
                "broadcast": pa.array([partition.broadcast for partition in self._partitions], pa.int64()),
                **{
                    name: pa.array([getattr(each, name) for each in self._partitions], pa.list_(pa.int64()))
                    for name in ("places", "times_ms", "numbers")
                },
                "parts": pa.array([list(state) for state in parts], pa.list_(pa.string())),
                "states": pa.array([[_bytes(t) for t in s.values()] for s in parts], pa.list_(pa.large_binary())),
            }
        )
        return {
            "partitions": partitions.replace_schema_metadata(meta),
            "recent": self._recent.table,
            "recent_numbers": pa.table({"number": self._recent_numbers}),
            **self._results.save(),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if missing := {"partitions", "recent", "recent_numbers"} - set(state):
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        meta: Mapping[bytes, bytes] = state["partitions"].schema.metadata or {}
        if meta.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved partitions of {self.plan.name} have version {meta.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        self._keys = KeyTable(len(self._key), json.loads(meta[b"keys"]))
        self._n_seen, self._n_broadcast = int(meta[b"n_seen"]), int(meta[b"n_broadcast"])
        self.n_rejected = int(meta[b"n_rejected"])
        self._recent = EventBatch(state["recent"])
        self._recent_numbers = np.array(state["recent_numbers"].column("number").to_numpy(), np.int64)
        self._partitions = [self._restored(row) for row in state["partitions"].to_pylist()]
        self._results.restore(state)

    def _restored(self, row: Mapping[str, Any]) -> _Partition:
        collected = Collected(len(self.plan.returns))
        runtime = self._make(collected)
        runtime.restore({name: _table(state) for name, state in zip(row["parts"], row["states"], strict=True)})
        last = {name: np.array(row[name], np.int64) for name in ("places", "times_ms", "numbers")}
        return _Partition(runtime, collected, n=row["n"], broadcast=row["broadcast"], **last)


def _is_broadcast(events: EventBatch, plan: Plan) -> BoolArray:
    """Whether the type of each event has nothing of the key."""
    partly = pa.array([name for name, own in plan.key_of_type.items() if own], pa.string())
    found = pc.is_in(events.table.column("type"), value_set=partly)
    return ~np.asarray(found.to_numpy(), np.bool_)


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(state: bytes) -> pa.Table:
    with pa.ipc.open_stream(state) as reader:
        return reader.read_all()


def _check_evaluated(plan: Plan, branches: Sequence[Plan], *, trailing: bool) -> None:
    """Raise UnsupportedQueryError for what is not evaluated in windows of events."""
    query = plan.query
    key = {item.attribute for item in query.equivalences if item.variable is None}
    leading = any(
        negation.after < 0 or isinstance(branch, AutomatonPlan) for branch in branches for negation in branch.negations
    )
    holds = query.select_first or query.consume or query.output in (ast.Output.NON_OVERLAPPING, ast.Output.SETS)
    refused = {
        "TIES STRICT": plan.ties is ast.Ties.STRICT,
        "a key attribute that only some keyed types of the pattern have": bool(
            key - set(plan.key) or any(branch.key != plan.key for branch in branches)
        ),
        "a negation at the start or the end under strict contiguity with a key": bool(
            plan.strategy is ast.Strategy.STRICT_CONTIGUITY and plan.key and (leading or trailing)
        ),
        "a negation at the end with SETS, NON_OVERLAPPING, SELECT FIRST or CONSUME": trailing and bool(holds),
    }
    for what, is_present in refused.items():
        if is_present:
            raise UnsupportedQueryError(
                f"WITHIN n EVENTS with {what} is not evaluated by the compiled runtimes of this version",
                query.clause_span("WITHIN"),
                "WITHIN a duration",
                "evaluate it with --runtime oracle",
            )


__all__ = ["CountedRuntime", "PlacedColumns"]
