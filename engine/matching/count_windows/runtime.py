"""Windows of n events: the first and the last event of a match are among n consecutive ones of its partition.

For each set of key attributes that matches may have (`engine.plan.count_windows`) a runtime sees the events of all its
partitions, whose times are their positions there, counted from the end of the partition: the last event so far is at
-1. WITHIN n EVENTS is then a window of n - 1 for every runtime, and 0 is the watermark of all partitions at once;
before a batch what is kept moves back by as many positions as its partition grows. Events without the key, or with a
part of it, are seen once per partition. A window of events never passes by itself, so that partitions are kept for
good.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS, BoolArray, EventBatch, Float64Array, Int64Array
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.matching.brake import braked
from engine.matching.count_windows.match_buffer import MatchBuffer
from engine.matching.count_windows.opened import OpenedByEvents
from engine.matching.deduplication import distinct
from engine.matching.factory import partition_runtime
from engine.matching.output.bounds import limit
from engine.matching.output.listed import Matches, no_matches
from engine.matching.output.match_row import MatchRow
from engine.matching.output.results import Results
from engine.matching.output.rows import first_rows, joined_rows
from engine.matching.output.variables import bound_variables, shapes_of
from engine.matching.positioned import PositionedColumns, PositionedRows, Sequels
from engine.matching.protocol import Limits
from engine.matching.union import Collected, in_union
from engine.plan.count_windows import CountWindowPlan, count_window_plans
from engine.plan.evaluation import QueryEvaluation, listed_plan, within_partition
from engine.plan.key_sets import key_attributes
from engine.plan.window import UNBOUNDED_MS
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.positions import PartitionPositions

_STATE_VERSION = 2
_COPIED_TOGETHER = 1 << 18
"""Copies of events, one for each of their partitions, that are made at once: bounded memory."""
_NO_ROWS: Int64Array = np.empty(0, np.int64)


class _Part:
    """The run state of one counted plan, and how its matches fit into those of the query."""

    def __init__(self, counted: CountWindowPlan, variables: Sequence[str], interner: Interner, limits: Limits) -> None:
        self.key = counted.key
        self.needs_whole = counted.needs_whole
        self.is_trailing = counted.plan.is_trailing
        self.collected = Collected(len(counted.plan.returns))
        branch = within_partition(listed_plan(counted.plan), takes_matches=True)
        self.runtime = partition_runtime(branch, interner, limits, self.collected)
        own = counted.plan.bound_variables
        self.numbers = np.array([variables.index(variable.name) for variable in own], np.int64)
        self._names = [variable.name for variable in own]
        self._of_variable = counted.of_variable

    def of_key(self, found: Matches) -> Matches:
        """Those whose events have all of the key and no more; the others are matches of a smaller, or a larger one."""
        if self._of_variable is None or not found.n_matches:
            return found
        kept = np.ones(found.n_matches, np.bool_)
        for x in self.key:
            holds = np.array([x in self._of_variable[name] for name in self._names], np.int64)
            kept &= np.add.reduceat(holds[found.listed.components], found.listed.offsets[:-1]) > 0
        has_more = np.array([not self._of_variable[name] <= set(self.key) for name in self._names], np.bool_)
        kept &= ~np.logical_or.reduceat(has_more[found.listed.components], found.listed.offsets[:-1])
        return found.chosen(np.flatnonzero(kept))


@dataclass
class _Partitions:
    """The partitions by one key, and the runtimes that see their events."""

    positions: PartitionPositions
    placed: PositionedRows
    parts: list[_Part]
    sequels: Sequels = field(default_factory=Sequels)

    def growth_by(self, growth: Int64Array) -> Callable[[Float64Array], Int64Array]:
        """By how many events partitions with these keys, (width, n), have grown."""

        def of_keys(keys: Float64Array) -> Int64Array:
            numbers = self.positions.keys.numbers_where(keys, np.zeros(keys.shape[1], np.bool_), -1)
            found: Int64Array = growth[numbers]
            return found

        return of_keys


class CountWindowRuntime:
    """Run state of one query WITHIN n EVENTS; implements `engine.matching.protocol.Runtime`.

    Imprecise events are refused and counted in `n_rejected`, but have their positions.
    """

    def __init__(
        self,
        evaluation: QueryEvaluation,
        resolved: ResolvedQuery,
        interner: Interner,
        limits: Limits,
    ) -> None:
        head, variables = evaluation.plan, evaluation.variables
        branches = [branch.plan for branch in evaluation.branches]
        self.plan = head
        self.limits = limits
        self.n_rejected = 0
        self._interner = interner
        query = resolved.query
        assert query.within_events is not None
        self._n_events = query.within_events
        self._types = frozenset(resolved.schema.types)
        plans = count_window_plans(resolved, branches)
        limits_of_part = replace(limits, n_sharing=limits.n_sharing * len(plans))
        parts = [_Part(counted, variables, interner, limits_of_part) for counted in plans]
        self._is_union = len(parts) > 1
        self._trailing = any(part.is_trailing for part in parts)
        attributes_of_type = key_attributes(resolved)
        several = any(attributes_of_type[name] < frozenset(part.key) for part in parts for name in head.types)
        self._gives_others = several or query.open_on is not None
        beginning = self._types if self._gives_others else head.types
        self._partitions: list[_Partitions] = []
        for key, needs_whole in dict.fromkeys((part.key, part.needs_whole) for part in parts):
            positions = PartitionPositions(
                key, head.attribute_types, attributes_of_type, beginning, needs_whole=needs_whole
            )
            own = [part for part in parts if (part.key, part.needs_whole) == (key, needs_whole)]
            self._partitions.append(_Partitions(positions, PositionedRows(), own))
        self._parts = parts
        self._recent = EventBatch.empty()  # the last events that may be in several partitions
        self._recent_numbers: Int64Array = np.empty(0, np.int64)
        self._n_seen = 0
        self._ended = False
        bound, shapes = bound_variables(branches, variables), shapes_of(branches, variables)
        self._depth = max((len(variable.path) for variable in bound), default=0)
        unbounded = replace(head, within_ms=UNBOUNDED_MS)
        self._opened = None
        if query.open_on is not None:
            self._opened = OpenedByEvents(head, interner, self._n_events, trailing=self._trailing)
        self._results = Results(unbounded, interner, limits, bound, trailing=False, shapes=shapes, windows=self._opened)
        self._buffered = MatchBuffer(len(head.returns), self._depth)
        self._is_buffered = self._n_buffered()

    @property
    def n_rows(self) -> int:
        """Events kept, in every partition that has them."""
        return sum(part.runtime.n_rows for part in self._parts)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`."""
        return self._results.n_unfinished + sum(part.runtime.n_unfinished for part in self._parts)

    def _n_buffered(self) -> tuple[int, int] | None:
        """How many events after its first and its last event a match waits for those that may displace it, merge with
        it or are counted with it; None: not at all.

        A match with a negation at its end is decided when a whole window has followed its first event.
        """
        query, after = self.plan.query, self._n_events - 1
        if self._opened is not None:  # until every window is told that it may be in
            return (2 * after if self._trailing else after), 0
        if not self._trailing:
            return None
        if query.select_first or query.consume or query.output in (ast.Output.NON_OVERLAPPING, ast.Output.SETS):
            return 0, after
        counts = query.output in (ast.Output.COUNT, ast.Output.COLLAPSED)
        return (after, 0) if self._is_union or counts else None

    # --------------------------------------------------------------- matching

    @braked
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        bounds = self._bounds(stream)
        parts: list[Sequence[MatchRow]] = []
        for start, end in pairwise(bounds):
            if len(bounds) == 2:
                return self._advance(stream, watermark_ms)
            piece = StreamColumns(EventBatch(stream.batch.table.slice(start, end - start)), self._interner)
            parts.append(self._advance(piece, watermark_ms if end == len(stream) else int(stream.t_lo_ms[end])))
        return first_rows(joined_rows(parts), limit(self.plan, self.limits))

    def _bounds(self, stream: StreamColumns) -> list[int]:
        """Where a batch is cut into pieces, its ends among them: at different times, as often as bounds the copies that
        partitions have of its events. A piece decides what a batch would, in the same order, where no match waits."""
        n, n_copies = len(stream), 0
        if self._gives_others and self._is_buffered is None and self._opened is None and len(stream.batch) == n:
            looked_at = self._rows_of_types(stream)
            n_copies = sum(each.positions.most_copies(stream, looked_at) for each in self._partitions)
        if n_copies <= _COPIED_TOGETHER:
            return [0, n]
        n_parts = min(-(-n_copies // _COPIED_TOGETHER), n)
        wanted = np.arange(1, n_parts) * n // n_parts
        cuts = np.searchsorted(stream.t_lo_ms, stream.t_lo_ms[wanted])
        return [0, *np.unique(cuts[cuts > 0]).tolist(), n]

    def _rows_of_types(self, stream: StreamColumns) -> BoolArray:
        found: BoolArray = np.zeros(len(stream), np.bool_)
        for name in self.plan.types:
            found[stream.rows_of_type(name)] = True
        return found

    def _advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        if self._ended:
            return []
        given, looked_at = self._given(stream)
        self._ended = ended = watermark_ms >= FOREVER_MS
        found: list[Matches] = [no_matches(len(self.plan.returns), self._depth)]
        due: list[Int64Array] = [np.empty((0, 3), np.int64)]
        for number, partitions in enumerate(self._partitions):
            for matches, when in self._step(number, partitions, stream, given, looked_at, ended=ended):
                found.append(matches)
                due.append(when)
        self._remember(stream)
        self._n_seen += len(stream)
        matches, when = Matches.joined(found), np.concatenate(due)
        ends = [partitions.positions.ends() for partitions in self._partitions]
        if self._opened is not None:
            return self._rows_by_window(matches, when, ends, stream, watermark_ms)
        if self._is_buffered is not None:
            matches = self._buffered.released(matches, when, ends, ended=ended)
        if self._is_union:
            matches = distinct(matches)
        return self._results.take(matches, stream, watermark_ms)

    def _given(self, stream: StreamColumns) -> tuple[BoolArray, BoolArray]:
        """The rows that runtimes get, precise ones of the query's types, and those whose positions are asked for."""
        given: BoolArray = np.zeros(len(stream), np.bool_)
        imprecise = stream.t_lo_ms != stream.t_hi_ms
        for name in self.plan.types:
            rows = stream.rows_of_type(name)
            given[rows] = ~imprecise[rows]
            self.n_rejected += int(imprecise[rows].sum())
        return given, given if self._opened is None else np.ones(len(stream), np.bool_)

    def _step(
        self,
        number: int,
        partitions: _Partitions,
        stream: StreamColumns,
        given: BoolArray,
        looked_at: BoolArray,
        *,
        ended: bool,
    ) -> list[tuple[Matches, Int64Array]]:
        """Give the runtimes of some partitions a batch; returns the matches that are decided then, and for each the
        number of these partitions, its own, and the position of the event that it waits for."""
        positions = partitions.positions
        n_known, n_earlier = len(positions.keys), 0
        numbers = self._n_seen + np.arange(len(stream))
        if positions.begin(stream) and positions.key and len(self._recent):
            n_earlier = len(self._recent)
            earlier = StreamColumns(self._recent, self._interner)
            n_rejected = self.n_rejected
            given_earlier, looked_at_earlier = self._given(earlier)
            self.n_rejected = n_rejected  # they were counted when they came
            given = np.concatenate([given_earlier, given])
            looked_at = np.concatenate([looked_at_earlier, looked_at])
            numbers = np.concatenate([self._recent_numbers, numbers])
            stream = StreamColumns(EventBatch.concat([self._recent, stream.batch]), self._interner)
        at = positions.assign(stream, looked_at, n_earlier, n_known)
        ends = positions.ends()
        if self._opened is not None:
            self._opened.observe_positions(number, positions, at, stream, numbers, ends, ended=ended)
        chosen = given[at.rows]
        rows, partition, position = at.rows[chosen], at.partition[chosen], at.position[chosen]
        if positions.key:
            order = np.lexsort((rows, position - ends[partition]))
            rows, partition, position = rows[order], partition[order], position[order]
        partitions.placed.append(partition, position, stream.t_lo_ms[rows], numbers[rows])
        times = position - ends[partition] if positions.key else position
        follows = None
        if self.plan.strategy is ast.Strategy.STRICT_CONTIGUITY:
            follows = partitions.sequels.follow(partition, numbers[rows])
        elif self.plan.strategy is ast.Strategy.PARTITION_CONTIGUITY:
            follows = partitions.sequels.follow(partition, position)
        seen = PositionedColumns(stream, rows, times, positions.key, positions.keys.columns(partition), follows)
        decided = [
            self._in_stream(number, partitions.placed, part, found, ends - at.growth)
            for part in partitions.parts
            for found in self._advanced(part, partitions, seen, at.growth, ended=ended)
        ]
        if partitions.placed.is_to_be_looked_at:
            partitions.placed.keep(partitions.placed.position >= ends[partitions.placed.partition] - self._n_events)
        return decided

    def _advanced(
        self, part: _Part, partitions: _Partitions, seen: PositionedColumns, growth: Int64Array, *, ended: bool
    ) -> Iterator[Matches]:
        positions = partitions.positions
        if positions.key:
            part.runtime.move_back(partitions.growth_by(growth), int(growth.max(initial=0)))
        part.runtime.advance(seen, 0 if positions.key else int(positions.ends()[0]))
        yield part.of_key(part.collected.taken())
        if ended:
            part.runtime.advance(PositionedColumns(seen, _NO_ROWS, _NO_ROWS), FOREVER_MS)
            yield part.of_key(part.collected.taken())

    def _in_stream(
        self, number: int, placed: PositionedRows, part: _Part, found: Matches, emitted_before: Int64Array
    ) -> tuple[Matches, Int64Array]:
        """The matches with the times and numbers that their events have in the stream, but for those that were told
        before, and for each the number of the partitions, its own, and the position of the event that it waits for."""
        at, is_there = placed.at(found.events.number)
        if found.n_matches and not is_there.all():  # it begins so far back that it has been told
            recent = np.logical_and.reduceat(is_there[found.listed.rows], found.listed.offsets[:-1])
            found = found.chosen(np.flatnonzero(recent))
        times_ms, position = placed.time_ms[at], placed.position[at]
        events = found.events._replace(lo_ms=times_ms, hi_ms=times_ms, number=placed.stream_number[at])
        partition = placed.partition[at[found.last]] if found.n_matches else _NO_ROWS
        first, last = position[found.first], position[found.last]
        decided = np.maximum(first + self._n_events - 1, last) if part.is_trailing else last
        after_first, after_last = self._is_buffered or (0, 0)
        waits_for = np.maximum(first + after_first, last + after_last)
        due = np.stack([np.full(len(first), number), partition, waits_for], axis=1)
        kept = np.flatnonzero(decided >= emitted_before[partition])
        cut = placed.cut_in_stream(found.cut)
        matches = in_union(replace(found, events=events, cut=cut), part.numbers, self._depth)
        return matches.chosen(kept), due[kept]

    def _rows_by_window(
        self, found: Matches, due: Int64Array, ends: Sequence[Int64Array], stream: StreamColumns, watermark_ms: int
    ) -> Sequence[MatchRow]:
        """Each window tells all its matches when no other one may come into it."""
        matches = self._buffered.joined(found, due)
        if self._is_union:
            matches = distinct(matches)
        rows = self._results.take(matches, stream, watermark_ms)
        self._buffered.forget(ends, ended=watermark_ms >= FOREVER_MS)
        return rows

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`. A match that waits for events does so however late these come."""
        if watermark_ms >= FOREVER_MS:
            return FOREVER_MS
        output_ms = self._buffered.matches.ends_from_ms(watermark_ms)
        if self._trailing:
            for partitions in self._partitions:
                ends, placed = partitions.positions.ends(), partitions.placed
                undecided = placed.time_ms[placed.position >= ends[placed.partition] - self._n_events]
                output_ms = min(output_ms, int(undecided.min()) if len(undecided) else output_ms)
        return self._results.buffered_from_ms(output_ms)

    def _remember(self, stream: StreamColumns) -> None:
        """Keep the last events that may be in several partitions for partitions that are still to come."""
        if not self._gives_others:
            return
        keyed = [partitions.positions for partitions in self._partitions if partitions.positions.key]
        others = [positions.others(stream) for positions in keyed]
        rows = np.unique(np.concatenate([_NO_ROWS, *others]))
        if not len(rows):
            return
        recent = EventBatch.concat([self._recent, stream.batch.take(rows)])
        numbers = np.concatenate([self._recent_numbers, self._n_seen + rows])
        columns = StreamColumns(recent, self._interner)
        kept = np.unique(np.concatenate([positions.latest(columns, self._n_events) for positions in keyed]))
        self._recent, self._recent_numbers = recent.take(kept), numbers[kept]

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """Places and runtimes by number, "NUMBER:part" and "p:NUMBER"; what waits; the last events of several
        partitions."""
        meta = {
            "version": str(_STATE_VERSION),
            "n_seen": str(self._n_seen),
            "n_rejected": str(self.n_rejected),
            "ended": str(int(self._ended)),
            "places": json.dumps([partitions.positions.save() for partitions in self._partitions]),
        }
        state = {
            f"{number}:{name}": table
            for number, part in enumerate(self._parts)
            for name, table in part.runtime.save().items()
        }
        for number, partitions in enumerate(self._partitions):
            state[f"p:{number}"] = partitions.placed.save()
            state[f"latest:{number}"] = pa.table({"number": partitions.sequels.latest})
        if self._opened is not None:
            state["opened"] = self._opened.save_positions()
        return {
            **state,
            "counted": pa.table({"number": self._recent_numbers}).replace_schema_metadata(meta),
            "recent": self._recent.table,
            **self._buffered.save(),
            **self._results.save(),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if missing := {"counted", "recent", *(f"p:{n}" for n in range(len(self._partitions)))} - set(state):
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        meta: Mapping[bytes, bytes] = state["counted"].schema.metadata or {}
        if meta.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved partitions of {self.plan.name} have version {meta.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        self._n_seen, self.n_rejected = int(meta[b"n_seen"]), int(meta[b"n_rejected"])
        self._ended = bool(int(meta[b"ended"]))
        self._recent = EventBatch(state["recent"])
        self._recent_numbers = np.array(state["counted"].column("number").to_numpy(), np.int64)
        for number, (partitions, saved) in enumerate(zip(self._partitions, json.loads(meta[b"places"]), strict=True)):
            partitions.positions.restore(saved)
            partitions.placed.restore(state[f"p:{number}"])
            partitions.sequels.latest = np.array(state[f"latest:{number}"].column("number").to_numpy(), np.int64)
        for number, part in enumerate(self._parts):
            prefix = f"{number}:"
            part.runtime.restore({k.removeprefix(prefix): table for k, table in state.items() if k.startswith(prefix)})
        if self._opened is not None:
            positions = {number: partitions.positions for number, partitions in enumerate(self._partitions)}
            self._opened.restore_positions(state["opened"], positions)
        self._buffered.restore(state)
        self._results.restore(state)


__all__ = ["CountWindowRuntime"]
