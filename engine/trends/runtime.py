"""The runtime of trend queries: events in, the rows of closed windows out (GRETA, sections 4 to 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS, Int64Array
from engine.kernels.programs.opcodes import MAX_STACK
from engine.kernels.trends import arrays as ta
from engine.kernels.trends import graph
from engine.matching.output.rows import MatchRow
from engine.matching.protocol import Limits
from engine.plan.trends.model import TrendPlan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.trends.evidence import TrendEvidence
from engine.trends.intake import Coming, TrendIntake
from engine.trends.memory import TrendMemory
from engine.trends.overlaps import TrendOverlaps
from engine.trends.rows import TrendRows
from engine.trends.template_arrays import trend_tables

LEAST_FORGOTTEN = 1024
"""Partitions without an open window after which they are forgotten."""

RESULTS = 1024
"""Closed windows of partitions that are told at once."""


class TrendRuntime:
    """Run state of one trend query over one stream; see `engine.matching.protocol.Runtime`."""

    def __init__(self, plan: TrendPlan, interner: Interner, limits: Limits | None = None) -> None:
        self.plan = plan
        programs = plan.programs
        constants = programs.with_strings(interner.constant)
        self._tables = trend_tables(plan, constants)
        self._intake = TrendIntake(plan, self._tables)
        self._memory = TrendMemory(self._tables)
        self._rows = TrendRows(plan, interner)
        self._evidence = TrendEvidence(self._tables.variables) if plan.is_told else None
        slots = (limits or Limits()).trend_overlap
        self._overlaps = TrendOverlaps(plan, self._tables, self._memory, slots)
        sizes = self._tables.template.sizes
        n_numbers = int(sizes[ta.N_NUMBERS])
        self._results = _new_results(max(RESULTS, 4 * int(sizes[ta.N_WINDOWS])), n_numbers)
        whole = np.zeros(int(sizes[ta.N_WINDOWS]) * n_numbers, np.int64)
        self._scratch = ta.Scratch(
            whole, whole.view(np.float64), np.zeros(len(whole), np.int32),
            np.zeros(3, np.int64), np.zeros(1), np.empty(MAX_STACK),
        )  # fmt: skip

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        coming = self._intake.candidates(stream, are_held=len(self._overlaps) > 0)
        if len(coming):
            for batch in self._intake.batches(coming):
                self._take_in(batch)
        for _ in self._overlaps.advance(watermark_ms, self._results, self._scratch):
            self._hand_over()
        self._close(watermark_ms)
        self._intake.forget(watermark_ms - 1 - self.plan.within_ms)
        if self._evidence is not None:
            for told in self._overlaps.take_retired(self._last_window(watermark_ms)):
                groups = self._rows.groups(self._intake.keys, np.unique(told.partition))
                self._evidence.add(told, told.ids, groups)
        self._forget_partitions()
        rows = self._rows.take(self._evidence)
        if self._evidence is not None:
            self._evidence.forget(self._last_window(watermark_ms))
        return rows

    def _take_in(self, coming: Coming) -> None:
        """Partitions in which times overlap are gone through one by one, the others together."""
        batch, ids = coming.batch, coming.ids
        overlapping = self._overlapping(coming)
        self._memory.reserve_partitions(len(self._intake.keys))
        if len(overlapping):
            apart = np.zeros(len(self._intake.keys), np.bool_)
            apart[overlapping] = True
            is_apart = apart[batch.partition]
            rows = np.flatnonzero(~is_apart)
            batch, ids = _part(batch, rows), ids[rows] if self._evidence is not None else ids
        self._advance_graph(batch)
        if self._evidence is not None:
            self._evidence.add(batch, ids, self._rows.groups(self._intake.keys, np.unique(batch.partition)))
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
        memory, tables = self._memory, self._tables
        if tables.stored_states:
            memory.forget_closed()
            n_stored = len(tables.stored_states)
            new = np.zeros((memory.n_partitions, n_stored), np.int64)
            for stored, state in enumerate(tables.stored_states):
                read = batch.partition[((batch.states >> state) & 1).astype(np.bool_)]
                new[:, stored] = np.bincount(read, minlength=memory.n_partitions)
            memory.index_all(new, batch)
            memory.reserve_vertices(new.reshape(-1))
        first, n = 0, len(batch.rows)
        while first < n:
            first = graph.advance(
                tables.template, batch, memory.sums, memory.vertices, memory.indexes, self._results, self._scratch,
                first,
            )  # fmt: skip
            self._hand_over()
        memory.end_batch()

    def _close(self, watermark_ms: int) -> None:
        """Tell the windows that end before the watermark."""
        memory = self._memory
        last_window = self._last_window(watermark_ms)
        first = 0
        while first < memory.n_partitions:
            first = graph.close_windows(
                self._tables.template, memory.sums, memory.vertices, self._results, memory.n_partitions, last_window,
                first,
            )  # fmt: skip
            self._hand_over()

    def _last_window(self, watermark_ms: int) -> int:
        """The last window that ends before the watermark."""
        return (min(watermark_ms, FOREVER_MS) - 1 - self.plan.within_ms) // self.plan.slide_ms

    def _hand_over(self) -> None:
        if self._results.n_rows[0]:
            self._rows.add(self._results, self._intake.keys)
            self._results.n_rows[0] = 0

    def _forget_partitions(self) -> None:
        """Partitions without an open window begin anew when an event of theirs comes."""
        memory = self._memory
        live = memory.is_live
        live[self._overlaps.partitions] = True
        n_dead = len(live) - int(np.count_nonzero(live))
        if n_dead > max(LEAST_FORGOTTEN, len(live) // 2):
            kept = np.flatnonzero(live)
            memory.keep_partitions(kept)
            self._overlaps.renumber(kept)
            self._intake.keys.keep(kept)

    # ------------------------------------------------------------------- state

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`: a window is told once the watermark has passed its end."""
        return watermark_ms if watermark_ms >= FOREVER_MS else max(watermark_ms - self.plan.within_ms, -FOREVER_MS)

    def save(self) -> dict[str, pa.Table]:
        """See `Runtime.save`."""
        self._memory.forget_closed()
        self._intake.n_rejected, self._overlaps.n_rejected = self.n_rejected, 0
        state = {**self._intake.save(), **self._memory.save()}
        told = {} if self._evidence is None else {"evidence": self._evidence.save()}
        return {**state, **self._overlaps.save(), **told}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """See `Runtime.restore`."""
        self._intake.restore(state)
        self._memory.restore(state)
        self._overlaps.restore(state)
        if self._evidence is not None:
            if "evidence" not in state:
                raise StateError(f"saved state of {self.plan.name} lacks ['evidence']")
            self._evidence.restore(state["evidence"])

    @property
    def n_rows(self) -> int:
        """Events kept: those whose edges are looked at one by one, those that partitions to come will have, and those
        whose times overlap."""
        return self._memory.n_kept + self._intake.n_waiting + len(self._overlaps)

    @property
    def n_rejected(self) -> int:
        """Events with intervals that cannot be taken: see `TrendIntake.candidates` and `TrendOverlaps`."""
        return self._intake.n_rejected + self._overlaps.n_rejected

    @property
    def n_unfinished(self) -> int:
        """Nothing is left out."""
        return 0


def _new_results(n: int, n_numbers: int) -> ta.Results:
    whole = np.zeros(n * n_numbers, np.int64)
    return ta.Results(
        np.zeros(1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
        whole, whole.view(np.float64), np.zeros(n * n_numbers, np.int32), np.zeros(n, np.int64),
    )  # fmt: skip


def _part(batch: ta.Batch, rows: Int64Array) -> ta.Batch:
    """Some events of a batch; its columns are those of all."""
    has_reached = batch.reached.shape[1] > 0
    return batch._replace(
        rows=batch.rows[rows], partition=batch.partition[rows], t_ms=batch.t_ms[rows], order=batch.order[rows],
        states=batch.states[rows], ranks=np.take(batch.ranks, rows, axis=1),
        reached=np.take(batch.reached, rows, axis=1) if has_reached else batch.reached,
    )  # fmt: skip


__all__ = ["LEAST_FORGOTTEN", "RESULTS", "TrendRuntime"]
