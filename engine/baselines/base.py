"""What the three baselines share: events in, buffers, construction of results, state and statistics."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.baselines.arrays import construction_arrays, matching_arrays
from engine.baselines.buffers import MatchArrays, widened
from engine.baselines.rows import rows_of
from engine.errors import StateError, UnsupportedQueryError
from engine.events import FOREVER_MS, BoolArray, Int64Array
from engine.kernels.baselines.buffers import relink_rows, schedule_offers
from engine.kernels.baselines.results import construct_results
from engine.kernels.baselines.runs import N_CELLS, N_COUNTERS, N_CREATED, N_LIVE, N_MATCHES, PEAK_LIVE
from engine.language import ast
from engine.matching.output.bindings import comparable
from engine.matching.output.listed import ListedMatches
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import first_rows
from engine.matching.output_watermark import longest_interval_ms, output_watermark_ms
from engine.matching.protocol import Limits
from engine.plan.model import PlanForm
from engine.plan.sequence.model import SequencePlan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter, Masks, Survivors
from engine.stream.interner import Interner
from engine.stream.store import EventStore

_STATE_VERSION = 1
_COMPACT_AT = 4096
"""Smaller stores are not compacted."""

MOST_LIVE_RUNS = 5_000_000
"""Partial matches that may be alive at once: half a gigabyte or so."""

Sink = Callable[[ListedMatches], None]


@dataclass
class BaselineStatistics:
    """What a baseline has done so far.

    `n_runs`: partial matches created, complete ones included; `peak_runs`: alive at once (backtracking: the events of
    the longest partial match, since it follows one at a time). `seconds`: by phase, as the runtime's clock tells.
    """

    n_runs: int = 0
    peak_runs: int = 0
    n_matches: int = 0
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            ("event buffering", "run initialization", "pattern matching", "result construction"), 0.0
        )
    )


class Baseline(ABC):
    """Run state of one query; implements `engine.matching.protocol.Runtime`.

    Evaluates plain plans with skip_till_any_match and OUTPUT ALL over precise events; others are refused with
    UnsupportedQueryError, imprecise events counted in `n_rejected`. `most_live_runs` bounds the partial matches that
    may be alive at once: beyond it `advance` raises UnsupportedQueryError.
    """

    mode: int
    """When events are looked at, see `engine.kernels.baselines.buffers`."""
    local: bool = False
    """Whether predicates on one event alone are evaluated with the others, for each partial match again."""

    def __init__(
        self,
        plan: SequencePlan,
        interner: Interner,
        limits: Limits | None = None,
        *,
        most_live_runs: int = MOST_LIVE_RUNS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        _check_evaluated(plan)
        self.plan = plan
        self.limits = limits or Limits()
        self.most_live_runs = most_live_runs
        self.n_rejected = 0
        self.n_unfinished = 0  # every partial match is followed to its end
        self.statistics = BaselineStatistics()
        self.store = EventStore(plan, interner)
        self.counters: Int64Array = np.zeros(N_COUNTERS, np.int64)
        self.found = MatchArrays()
        self.masks = Masks(plan)
        self._clock = clock
        self._interner = interner
        self._watermark_ms = -FOREVER_MS
        self._trailing = any(negation.after == plan.n_steps - 1 for negation in plan.negations)
        self._pending = self.found.taken(0)
        self._previous_row: Int64Array = np.empty(0, np.int64)
        self._newest: Int64Array = np.full(1, -1, np.int64)
        self._offered: Int64Array = np.full(1, -1, np.int64)
        self._latest: Int64Array = np.full((1, plan.n_steps), -1, np.int64)
        self._offers: Int64Array = np.empty((1024, 3), np.int64)
        self._compile()

    def _compile(self) -> None:
        self.arrays = matching_arrays(self.plan, self._interner, local=self.local)
        self._construction = construction_arrays(self.plan)
        self._filter = EarlyFilter(self.plan, self._interner)

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        return output_watermark_ms(
            longest_interval_ms(self.store), watermark_ms, self.plan.within_ms if self._trailing else 0
        )

    # ------------------------------------------------------------ what differs

    @abstractmethod
    def _matches_of(self, offers: Int64Array) -> Iterator[ListedMatches]:
        """Make the offers int64 (n, 3); yields the complete matches, without values, in parts."""

    @abstractmethod
    def _forget(self, watermark_ms: int) -> None:
        """Drop the partial matches whose window the watermark has passed."""

    @abstractmethod
    def _renumber(self, new_row: Int64Array, new_partition: Int64Array) -> None:
        """Rows and partitions have new numbers, -1 where dropped; one more entry -1 stands at the end of both."""

    def _select(self, stream: StreamColumns) -> Survivors:
        """The events to be buffered and what each can be."""
        return self._filter.select(stream)

    def _select_stored(self) -> Survivors:
        """As `_select`, for all rows of the store."""
        return self._filter.of_store(self.store)

    # ---------------------------------------------------------------- matching

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`. Matches beyond `limits.max_rows` are found, but not kept. Where LIMIT counts, rows are
        in output order."""
        rows: list[MatchRow] = []
        ends: list[tuple[int, int]] = []
        most = self.limits.max_rows + 1

        def keep(matches: ListedMatches) -> None:
            wanted = min(matches.n_matches, most - len(rows))
            first, last = matches.rows[matches.offsets[:-1]], matches.rows[matches.offsets[1:] - 1]
            order = np.lexsort((first, last))[:wanted]
            rows.extend(rows_of(self.plan, self.store, matches.chosen(order)))
            ends.extend(zip(last[order].tolist(), first[order].tolist(), strict=True))

        self.deliver(stream, watermark_ms, keep)
        if self.plan.limit is not None:
            rows = [row for _, row in sorted(zip(ends, rows, strict=True), key=_output_order)]
        return first_rows(rows, self.limits.max_rows)

    def deliver(self, stream: StreamColumns, watermark_ms: int, sink: Sink) -> None:
        """As `advance`, giving the decided matches to `sink` in parts, none left out.

        Rows of the matches are those of `store` while the sink runs.
        """
        with self.timed("event buffering"):
            start, end = self._append(stream)
        for matches in self._found(start, end):
            self._decide(matches, watermark_ms, sink)
        if self._trailing:
            matches, self._pending = self._pending, self.found.taken(0)
            self._decide(matches, watermark_ms, sink)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        with self.timed("event buffering"):
            self._compact()
        self.statistics.n_runs = int(self.counters[N_CREATED])
        self.statistics.peak_runs = int(self.counters[PEAK_LIVE])

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time of the block for a phase of the statistics."""
        started = self._clock()
        yield
        self.statistics.seconds[phase] += self._clock() - started

    def _append(self, stream: StreamColumns) -> tuple[int, int]:
        survivors = self._select(stream)
        imprecise = stream.t_lo_ms != stream.t_hi_ms
        if imprecise.any():
            self.n_rejected += stream.n_imprecise(self.plan.types)
            survivors = survivors.where(~imprecise[survivors.rows])
        self.masks.append(survivors, len(self.store))
        start, end = self.store.append(stream, survivors.rows)
        self._widen()
        return start, end

    def _widen(self) -> None:
        n_entries = self.store.n_partitions + 1
        self._previous_row = widened(self._previous_row, len(self.store))
        self._newest = widened(self._newest, n_entries)
        self._offered = widened(self._offered, n_entries)
        self._latest = widened(self._latest, n_entries)

    def _found(self, start: int, end: int) -> Iterator[ListedMatches]:
        """The matches that the rows start..end-1 of the store complete, in parts."""
        store, masks = self.store, self.masks
        n_entries = store.n_partitions + 1
        while start < end:
            with self.timed("event buffering"):
                start, n_offers = schedule_offers(
                    self.mode, self.plan.within_ms, store.t_lo_ms, store.partition, masks.begin, masks.take,
                    self._previous_row, self._newest[:n_entries], self._offered[:n_entries], self._latest[:n_entries],
                    self._offers, start, end,
                )  # fmt: skip
            if n_offers:
                yield from self._matches_of(self._offers[:n_offers])
            elif start < end:
                self._offers = np.empty((2 * len(self._offers), 3), np.int64)

    def taken(self) -> ListedMatches:
        """The matches in `found`, which is empty afterwards."""
        matches = self.found.taken(int(self.counters[N_MATCHES]))
        self.counters[[N_MATCHES, N_CELLS]] = 0
        return matches

    # ------------------------------------------------------------------ results

    def _decide(self, matches: ListedMatches, watermark_ms: int, sink: Sink) -> None:
        """Construct the results of complete matches; those that a trailing negation may still deny wait."""
        if not matches.n_matches:
            return
        with self.timed("result construction"):
            if self._trailing:
                ends_ms = self.store.t_lo_ms[matches.rows[matches.offsets[:-1]]] + self.plan.within_ms
                waits = ends_ms >= watermark_ms
                self._pending = _joined(self._pending, matches.chosen(np.flatnonzero(waits)))
                matches = matches.chosen(np.flatnonzero(~waits))
            constructed = self._constructed(matches)
        if constructed.n_matches:
            self.statistics.n_matches += constructed.n_matches
            sink(constructed)

    def _constructed(self, matches: ListedMatches) -> ListedMatches:
        arrays, plan, store, construction = self.arrays, self.plan, self.store, self._construction
        kept: BoolArray = np.empty(matches.n_matches, np.bool_)
        values = np.empty((matches.n_matches, len(construction.returns)), np.float64)
        construct_results(
            arrays.code, arrays.bounds, arrays.constants, store.columns, arrays.slots, construction.negations,
            construction.returns, construction.having, plan.n_steps, plan.within_ms, int(plan.strict_ties),
            store.t_lo_ms, store.partition, self.masks.negated, len(store),
            matches.partition, matches.offsets, matches.rows, matches.components, kept, values,
        )  # fmt: skip
        complete = matches._replace(values=values)
        return complete if kept.all() else complete.chosen(np.flatnonzero(kept))

    # --------------------------------------------------------------- compaction

    def _compact(self) -> None:
        """Drop the events that no match to come can contain, or be denied by, once they are half of all."""
        n = len(self.store)
        if n < _COMPACT_AT:
            return
        reach_ms = self.plan.within_ms * (2 if self.plan.negations else 1)
        kept = self.store.t_hi_ms[:n] + reach_ms >= self._watermark_ms
        if 2 * int(kept.sum()) > n:
            return
        self._forget(self._watermark_ms)
        self.masks.keep(kept)
        new_row, new_partition = self.store.keep(kept)
        self._pending = self._pending._replace(
            rows=new_row[self._pending.rows], partition=new_partition[self._pending.partition]
        )
        offered = self._offered
        self._newest = np.full(self.store.n_partitions + 1, -1, np.int64)
        self._offered = np.full(self.store.n_partitions + 1, -1, np.int64)
        self._latest = np.full((self.store.n_partitions + 1, self.plan.n_steps), -1, np.int64)
        known = np.flatnonzero(new_partition[:-1] >= 0)
        self._offered[new_partition[known] + 1] = new_row[offered[known + 1]]
        self._relink()
        self._renumber(new_row, new_partition)

    def _relink(self) -> None:
        relink_rows(
            len(self.store), self.store.partition, self.masks.begin, self.masks.take, self._previous_row,
            self._newest, self._latest,
        )  # fmt: skip

    # --------------------------------------------------------------------- state

    def save(self) -> dict[str, pa.Table]:
        """The events kept: partial matches are made again from them."""
        events = self.store.save()
        marks = {"version": str(_STATE_VERSION), "watermark_ms": str(self._watermark_ms)}
        head = pa.table({"n_rejected": pa.array([self.n_rejected], pa.int64())}).replace_schema_metadata(marks)
        return {"events": events, "head": head}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when parts are missing or of another version."""
        if set(state) != {"events", "head"}:
            raise StateError(f"saved state of {self.plan.name} has parts {sorted(state)}, expected events, head")
        marks: Mapping[bytes, bytes] = state["head"].schema.metadata or {}
        if marks.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved state of {self.plan.name} has version {marks.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        self.store.restore(state["events"])
        self._compile()
        self.masks = Masks(self.plan)
        self.masks.append(self._select_stored(), 0)
        self._watermark_ms = int(marks[b"watermark_ms"])
        self.n_rejected = int(state["head"].column("n_rejected")[0].as_py())
        self._make_again()
        self.statistics = BaselineStatistics()
        self.counters[[N_CREATED, PEAK_LIVE]] = 0, self.counters[N_LIVE]

    def _make_again(self) -> None:
        """The partial matches of the events in the store."""
        self._widen()
        for matches in self._found(0, len(self.store)):
            if self._trailing:  # the others were decided before
                self._decide(matches, self._watermark_ms, lambda _: None)


def _output_order(listed: tuple[tuple[int, int], MatchRow]) -> tuple[object, ...]:
    """Last event, first event, ids."""
    ends, row = listed
    return ends, [(name, comparable(ids)) for name, ids in row.bindings.items()]


def _joined(first: ListedMatches, second: ListedMatches) -> ListedMatches:
    offsets = np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]])
    parts = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("partition", "rows")}
    return first._replace(
        **parts,
        offsets=offsets,
        components=np.concatenate([first.components, second.components]),
        confidence=np.concatenate([first.confidence, second.confidence]),
        values=np.concatenate([first.values, second.values]),
    )


def unsupported_pattern(query: ast.Query) -> UnsupportedQueryError:
    """What to raise for a query that has no plain plan."""
    return UnsupportedQueryError(
        "the baselines evaluate no such pattern, or no such predicate on its parts",
        query.pattern.span,
        "a SEQ of components and negated single components, each predicate decided when an event is taken",
        "evaluate it with --runtime auto",
    )


def _check_evaluated(plan: SequencePlan) -> None:
    if plan.form is not PlanForm.SEQUENCE:
        raise unsupported_pattern(plan.query)
    if not plan.lists_all:
        raise UnsupportedQueryError(
            f"the baselines do not evaluate {plan.strategy.value}",
            plan.query.span,
            "skip_till_any_match",
            "evaluate it with --runtime auto",
        )
    if plan.output is not ast.Output.ALL:
        raise UnsupportedQueryError(
            f"the baselines do not evaluate OUTPUT {plan.output.value}",
            plan.query.span,
            "OUTPUT ALL",
            "drop the OUTPUT clause, or evaluate it with --runtime auto",
        )
    if plan.forms_from_listed or plan.query.within_events is not None:
        raise UnsupportedQueryError(
            "the baselines evaluate neither windows of a query's own (n EVENTS, SLIDE, OPEN ON) nor a selection, "
            "user-defined aggregates or partly keyed types",
            plan.query.span,
            "WITHIN a duration, without SLIDE, OPEN ON, SELECT FIRST and CONSUME",
            "evaluate it with --runtime auto",
        )


__all__ = ["MOST_LIVE_RUNS", "Baseline", "BaselineStatistics", "Sink", "unsupported_pattern"]
