"""The graph of one trend query, or of several that differ in what they return: events in, the totals of closed windows
out (GRETA, sections 4 to 7)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from engine.events import FOREVER_MS, Int64Array
from engine.kernels.programs.opcodes import MAX_STACK
from engine.kernels.trends import arrays as ta
from engine.kernels.trends import graph, selection
from engine.matching.protocol import Limits
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.windows import Window, of_window, windows_of
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.trends.evidence import Reached, TrendEvidence
from engine.trends.intake import Coming, TrendIntake
from engine.trends.memory import TrendMemory
from engine.trends.overlaps import TrendOverlaps
from engine.trends.template_arrays import trend_tables
from engine.trends.totals import Position, Totals, TrendTotals, groups_of
from engine.trends.windows import OfWindow, cut, put_together

LEAST_FORGOTTEN = 1024
"""Partitions without an open window after which they are forgotten."""

RESULTS = 1024
"""Closed windows of partitions that are told at once."""


class Member(Protocol):
    """A query of a graph."""

    plan: TrendPlan

    def use(self, graph: TrendGraph, /) -> None:
        """Take part in another one, in place of this."""

    def take(self, found: Mapping[Position, Totals], /) -> None:
        """Windows that are closed."""


class TrendGraph:
    """What trend queries of one `graph_meaning` keep of one stream; `plan` has the numbers of all of them.

    Each query takes part as a member: with its GROUP BY, and with events where people are told of its rows.
    """

    def __init__(self, plan: TrendPlan, interner: Interner, limits: Limits) -> None:
        self.plan = plan
        self.limits = limits
        self._interner = interner
        self._tables = trend_tables(plan, plan.programs.with_strings(interner.constant))
        self.intake = TrendIntake(plan, self._tables)
        self._memory = TrendMemory(self._tables)
        self._overlaps = TrendOverlaps(plan, self._tables, self._memory, limits.trend_overlap)
        self.evidence: dict[tuple[int, ...], TrendEvidence] = {}
        """Of rows that people are told of, by the key components of GROUP BY."""
        self.members: weakref.WeakSet[Member] = weakref.WeakSet()
        self._totals: dict[tuple[tuple[int, ...], int], TrendTotals] = {}
        sizes = self._tables.template.sizes
        n_numbers = int(sizes[ta.N_NUMBERS])
        self._results = _new_results(max(RESULTS, 4 * int(sizes[ta.N_EMITTED])), n_numbers)
        whole = np.zeros(int(sizes[ta.N_WINDOWS]) * n_numbers, np.int64)
        self._scratch = ta.Scratch(
            whole, whole.view(np.float64), np.zeros(len(whole), np.int32),
            np.zeros(3, np.int64), np.zeros(1), np.empty(MAX_STACK), np.zeros(int(sizes[ta.N_WINDOWS]), np.int64),
        )  # fmt: skip
        self.watermark_ms = -FOREVER_MS
        self.is_new = True
        """Whether nothing is known yet."""
        self.is_advanced = False
        """Whether it has come further than what it was made from: the indexes that it has made since are its own."""
        self._failure: Exception | None = None
        self._saved: dict[str, pa.Table] | None = None
        self._lock = threading.Lock()

    def add(self, member: Member, evidence: TrendEvidence | None = None) -> None:
        """One more query; `evidence`: what is known of its events, None: nothing yet."""
        self.members.add(member)
        if member.plan.has_notice and member.plan.groups not in self.evidence:
            self.evidence[member.plan.groups] = evidence or TrendEvidence(self._tables.variables)

    def advance(self, stream: StreamColumns, watermark_ms: int) -> None:
        """Take in a batch, once for all members, and hand each what its windows come to; see `Runtime.advance`."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if len(self.members) > 1 and watermark_ms <= self.watermark_ms:  # another member was first
                return
            try:
                self._advance(stream, watermark_ms)
            except Exception as error:
                self._failure = error
                raise

    def _advance(self, stream: StreamColumns, watermark_ms: int) -> None:
        members = list(self.members)
        self._totals = {
            position: TrendTotals(self.plan, *position) for position in {self._position(each) for each in members}
        }
        self._forget_events()
        self.is_new, self.is_advanced, self._saved = False, True, None
        coming = self.intake.candidates(stream, are_stored=len(self._overlaps.partitions) > 0)
        if len(coming):
            may_be_cut = not self._tables.stored_states and not len(self._overlaps.partitions)
            for batch in self.intake.batches(coming, stream, may_be_cut=may_be_cut):
                self._take_in(batch)
        for _ in self._overlaps.advance(watermark_ms, self._results, self._scratch):
            self._hand_over()
        self._close(watermark_ms)
        self.intake.forget(watermark_ms - 1 - self.plan.within_ms)
        if self.evidence:
            for retired in self._overlaps.take_retired(self._last_window(watermark_ms)):
                self._note(retired, retired.ids)
        self._forget_partitions()
        self.watermark_ms = watermark_ms
        for each in members:
            each.take(self._totals[self._position(each)].found)
        self._totals = {}

    def _position(self, member: Member) -> tuple[tuple[int, ...], int]:
        """By what a member's totals are told apart."""
        plan = member.plan
        return plan.groups, self.plan.windows.index((plan.within_ms, plan.slide_ms)) if self.plan.windows else 0

    def _note(self, reached: Reached, ids: np.ndarray) -> None:
        """Events of rows that people are told of."""
        partitions = np.unique(reached.partition)
        for groups, evidence in self.evidence.items():
            evidence.add(reached, ids, groups_of(self.plan, self._interner, groups, self.intake.keys, partitions))

    def _forget_events(self) -> None:
        """Of windows that all members have told."""
        for evidence in self.evidence.values():
            evidence.forget(self._last_window(self.watermark_ms))

    def _take_in(self, coming: Coming) -> None:
        """Partitions in which times overlap are gone through one by one, the others together."""
        batch, ids = coming.batch, coming.ids
        overlapping = self._overlapping(coming)
        self._memory.reserve_partitions(len(self.intake.keys))
        if len(overlapping):
            apart = np.zeros(len(self.intake.keys), np.bool_)
            apart[overlapping] = True
            is_apart = apart[batch.partition]
            rows = np.flatnonzero(~is_apart)
            batch, ids = _part(batch, rows), ids[rows] if self.plan.has_notice else ids
        self._advance_graph(batch)
        if self.evidence:
            self._note(batch, ids)
        if len(overlapping):
            for _ in self._overlaps.take_in(coming, np.flatnonzero(is_apart), self._results, self._scratch):
                self._hand_over()

    def _overlapping(self, coming: Coming) -> Int64Array:
        """Partitions of which an event is held, or gets an interval with this batch."""
        if coming.is_precise:
            return np.sort(self._overlaps.partitions)
        batch = coming.batch
        is_interval = coming.hi_ms[batch.rows] > batch.t_ms
        return np.union1d(self._overlaps.partitions, batch.partition[is_interval])

    def _advance_graph(self, batch: ta.Batch) -> None:
        memory, tables, n = self._memory, self._tables, len(batch.rows)
        if tables.stored_states or tables.held_states:
            memory.forget_closed()
        memory.held.reserve(batch, memory.n_partitions)
        for begin in range(0, n, memory.indexes.slice):
            end = min(n, begin + memory.indexes.slice)
            if tables.stored_states:
                new = memory.n_new(batch, begin, end)
                memory.index_all(new, batch, begin, end)
                memory.reserve_vertices(new.reshape(-1))
                memory.indexes.look_ahead(memory.vertices, new, batch, begin, end)
            self._advance_part(batch, begin, end)
        memory.indexes.end_batch()

    def _advance_part(self, batch: ta.Batch, first: int, end: int) -> None:
        memory, tables = self._memory, self._tables
        while first < end:
            if tables.selection is None:
                first = graph.advance(
                    tables.template, batch, memory.sums, memory.vertices, memory.held.arrays, memory.indexes.arrays,
                    memory.indexes.ahead, self._results, self._scratch, first, end,
                )  # fmt: skip
            else:
                first = selection.advance_selecting(
                    tables.template, tables.selection, batch, memory.sums, memory.vertices, memory.held.arrays,
                    memory.indexes.arrays, memory.indexes.ahead, self._results, self._scratch, first,
                )  # fmt: skip
            self._hand_over()

    def _close(self, watermark_ms: int) -> None:
        """Tell the windows that end before the watermark."""
        memory = self._memory
        until_ms = min(watermark_ms, FOREVER_MS)
        first = 0
        while first < memory.n_partitions:
            first = graph.close_windows(
                self._tables.template, memory.sums, memory.vertices, self._results, memory.n_partitions, until_ms,
                first,
            )  # fmt: skip
            self._hand_over()

    def _last_window(self, watermark_ms: int) -> int:
        """The last window that ends before the watermark."""
        return (min(watermark_ms, FOREVER_MS) - 1 - self.plan.within_ms) // self.plan.slide_ms

    def _hand_over(self) -> None:
        if self._results.n_rows[0]:
            for totals in self._totals.values():
                totals.add(self._results, self.intake.keys)
            self._results.n_rows[0] = 0

    def _forget_partitions(self) -> None:
        """Partitions without an open window begin anew when an event of theirs comes."""
        memory = self._memory
        live = self._is_live()
        n_dead = len(live) - int(np.count_nonzero(live))
        if n_dead > max(LEAST_FORGOTTEN, len(live) // 2):
            kept = np.flatnonzero(live)
            memory.keep_partitions(kept)
            self._overlaps.renumber(kept)
            self.intake.keep(kept)

    # ----------------------------------------------------------------- windows

    def part_windows(self, stream: StreamColumns) -> None:
        """Before a batch with intervals: a window has of an event what lies in it, so that its end matters, and each
        window gets a graph for itself from now on."""
        if not self.plan.windows or stream.rows_of_types(self.plan.types)[1]:
            return
        with self._lock:
            if not self.members or self._failure is not None:
                return
            by_window: dict[Window, list[Member]] = {}
            for each in list(self.members):
                by_window.setdefault((each.plan.within_ms, each.plan.slide_ms), []).append(each)
            for window, members in by_window.items():
                plan = of_window(self.plan, window)
                state = None if self.is_new else self._cut(window)
                graph = self.with_plan(plan, state)
                for each in members:
                    each.use(graph)

    def with_windows(self, plan: TrendPlan, graphs: Sequence[TrendGraph]) -> TrendGraph | None:
        """A graph without members that knows what several graphs know, of which it is one; they are all new or none
        is. None where they do not agree."""
        state = None
        if not self.is_new:
            parts = [
                OfWindow(graph._cut(window), of_window(graph.plan, window))
                for graph in graphs
                for window in windows_of(graph.plan)
            ]
            state = put_together(parts, plan)
            if state is None:
                return None
        found = self.with_plan(plan, state)
        found.watermark_ms = max(graph.watermark_ms for graph in graphs)
        return found

    def _cut(self, window: Window) -> Mapping[str, pa.Table]:
        """The state of one of its windows, with all numbers."""
        state = self.save()
        return cut(state, self.plan, window, self.watermark_ms - 1 - window[0]) if self.plan.windows else state

    def of_window(self, member: TrendPlan) -> tuple[Mapping[str, pa.Table], TrendPlan]:
        """What is known of the windows of a member, and the plan of the graph that knows no others."""
        window = member.within_ms, member.slide_ms
        return self._cut(window), of_window(self.plan, window)

    # ------------------------------------------------------------------- state

    def with_plan(self, plan: TrendPlan, state: Mapping[str, pa.Table] | None) -> TrendGraph:
        """A graph without members that knows the same, with other numbers; `state`: None for a new one."""
        found = TrendGraph(plan, self._interner, self.limits)
        if state is not None:
            found.restore(state)
        found.watermark_ms = self.watermark_ms
        found.intake.is_shared = self.intake.is_shared
        return found

    def save(self) -> Mapping[str, pa.Table]:
        """All but the events that people are told of, with the numbers of all members."""
        if self._saved is None:
            self._memory.forget_closed()
            self._forget_events()
            self.intake.n_rejected, self._overlaps.n_rejected = self.n_rejected, 0
            self._saved = {**self.intake.save(), **self._memory.save(), **self._overlaps.save()}
        return self._saved

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        self.is_new, self._saved = False, None
        self.intake.restore(state)
        self._memory.restore(state)
        self._overlaps.restore(state)

    def renumber(self, other: TrendGraph, member: TrendPlan) -> bool:
        """Number partitions as another graph does; False where other ones have open windows of the member there."""
        keys, its = self.intake.keys, other.intake.keys.values()
        if len(keys) == len(its) and np.array_equal(keys.values(), its):
            return True
        live = keys.values()[self._is_live()]
        if not np.array_equal(np.unique(live, axis=0), np.unique(its[other._is_live_for(member)], axis=0)):
            return False
        kept = keys.numbers(np.ascontiguousarray(its.T))
        self._saved = None
        self._memory.reserve_partitions(len(keys))
        self._memory.keep_partitions(kept)
        self._overlaps.renumber(kept)
        self.intake.keep(kept)
        return True

    def _is_live(self) -> np.ndarray:
        """Partitions of which something is known that matters, bool (n_partitions,)."""
        live = self._memory.is_live
        live[self._overlaps.partitions] = True
        return live

    def _is_live_for(self, member: TrendPlan) -> np.ndarray:
        """Of the windows of a member."""
        if not self.plan.windows:
            return self._is_live()
        windows = self._cut((member.within_ms, member.slide_ms))["windows"]
        first, last = (windows.column(name).to_numpy() for name in ("first_open", "last_open"))
        live: np.ndarray = first <= last
        return live

    @property
    def n_rows(self) -> int:
        """Events kept: those whose edges are looked at one by one, those that partitions to come will have, and those
        whose times overlap."""
        return self._memory.n_kept + self.intake.n_waiting + len(self._overlaps)

    @property
    def n_rejected(self) -> int:
        """Events with intervals that cannot be taken: see `TrendIntake.candidates` and `TrendOverlaps`."""
        return self.intake.n_rejected + self._overlaps.n_rejected


def _new_results(n: int, n_numbers: int) -> ta.Results:
    whole = np.zeros(n * n_numbers, np.int64)
    return ta.Results(
        np.zeros(1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
        whole, whole.view(np.float64), np.zeros(n * n_numbers, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64),
    )  # fmt: skip


def _part(batch: ta.Batch, rows: Int64Array) -> ta.Batch:
    """Some events of a batch; its columns are those of all."""
    has_reached = batch.reached.shape[1] > 0
    return batch._replace(
        rows=batch.rows[rows], partition=batch.partition[rows], t_ms=batch.t_ms[rows], order=batch.order[rows],
        states=batch.states[rows],
        reached=np.take(batch.reached, rows, axis=1) if has_reached else batch.reached,
    )  # fmt: skip


__all__ = ["LEAST_FORGOTTEN", "RESULTS", "Member", "TrendGraph"]
