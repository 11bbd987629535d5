"""One query over one stream by one runtime: seconds, matches, runs, memory. Runs in a process of its own.

What is timed is the runtime: events are in memory as Arrow columns, in batches with their watermarks; decoding them to
the columns that the query reads counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.measure import forget_peak, resident_mib, stopwatch
from benchmarks.precise import streams
from benchmarks.precise.queries import REFERENCES
from engine import BaselineKind, MatchRow, ast, compile_query, warm_kernels
from engine.baselines import OVER_INTERVALS, Baseline, make_baseline
from engine.compiled.query import CompiledQuery
from engine.events import EventBatch
from engine.matching.output.listed import ListedMatches
from engine.matching.output.rows import MatchRows, RowBlock, RowSink
from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.protocol import Limits, Runtime
from engine.matching.runs.runtime import NfaRuntime
from engine.plan.sequence.model import SequencePlan
from engine.runtime.factory import make_runtime
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

_SCHEMAS = {
    "stock": streams.STOCK,
    "keyed": streams.KEYED,
    "rising": streams.RISING,
    "jobs": streams.HADOOP,
    "pulls": streams.HADOOP,
}
_STREAMS = {
    "stock": streams.stock_stream,
    "keyed": streams.keyed_stream,
    "rising": streams.rising_stream,
    "jobs": streams.jobs_stream,
    "pulls": streams.pulls_stream,
}


@dataclass
class Outcome:
    """What one evaluation did; see `evaluate`. `n_event_cells`: events of all listed matches (the planner's: from a
    sample of them). `merged_runs`: runs that others have taken in; `offers`: pairs of a run and an event looked at."""

    seconds: float
    matches: int
    rows: int
    n_event_cells: int
    runs: int | None = None
    peak_runs: int | None = None
    phases: dict[str, float] | None = None
    merged_runs: int | None = None
    offers: int | None = None


def evaluate(
    text: str,
    stream: tuple[str, dict[str, int]],
    variant: str,
    n_per_batch: int = 10_000,
    repeats: int = 5,
    budget_s: float = 60.0,
    merge: bool = True,
) -> dict[str, Any]:
    """Median seconds of `repeats` evaluations (fewer once `budget_s` is spent), after one over the first events.

    `stream`: name of a function of `benchmarks.precise.streams` without "_stream", and its arguments. `variant`: one of
    the baselines, or the name of what the planner's runtime is asked for (collapsed, count, matches, ...); where the
    name ends in "read" all rows are read, as Arrow.
    `merge`: whether runs whose future is the same are merged.
    """
    name, arguments = stream
    clock = stopwatch()
    batch = _STREAMS[name](**arguments)  # type: ignore[operator]
    query = compile_query(text, _SCHEMAS[name])
    _once(query, list(streams.in_batches(EventBatch(batch.table.slice(0, 2_000)), n_per_batch)), variant, merge)
    parts = list(streams.in_batches(batch, n_per_batch))
    resident = resident_mib()
    forget_peak()
    outcomes: list[Outcome] = []
    started = clock()
    while len(outcomes) < repeats and (not outcomes or clock() - started < budget_s):
        outcomes.append(_once(query, parts, variant, merge))
    seconds = median(outcome.seconds for outcome in outcomes)
    last = outcomes[-1]
    counted = {"n_event_cells": _n_event_cells(query, parts, merge)} if _is_listing(query, variant) else {}
    return (
        asdict(last)
        | counted
        | {
            "events": len(batch),
            "seconds": seconds,
            "events_per_second": len(batch) / seconds,
            "repeats": len(outcomes),
            "peak_mb": resident_mib(peak=True),
            "grown_mb": max(0.0, resident_mib(peak=True) - resident),  # pages may be given back meanwhile
        }
    )


def compile_kernels() -> dict[str, Any]:
    """Let every kernel of the planner's runtimes, of the baselines and of the streams be in the cache."""
    warm_kernels()
    for kind in set(BaselineKind) - OVER_INTERVALS:
        evaluate(REFERENCES[0].text(), ("stock", {"n_events": 2_000}), kind.value, repeats=1)
    return {}


def _once(query: CompiledQuery, parts: Sequence[tuple[EventBatch, int]], variant: str, merge: bool) -> Outcome:
    interner = Interner()
    if variant in [kind.value for kind in BaselineKind]:
        assert isinstance(query.plan, SequencePlan)
        return _baseline(make_baseline(BaselineKind(variant), query.plan, interner, clock=stopwatch()), interner, parts)
    limits = Limits(max_rows=2**40, merge_runs=merge)
    keep, read = not _is_listing(query, variant), variant.endswith("read")
    return _planned(make_runtime(query, interner, limits), interner, parts, keep=keep, read=read)


def _is_listing(query: CompiledQuery, variant: str) -> bool:
    """Whether the planner's runtime lists matches; the baselines count their events themselves."""
    return query.plan.output is ast.Output.ALL and variant not in [kind.value for kind in BaselineKind]


def _baseline(runtime: Baseline, interner: Interner, parts: Sequence[tuple[EventBatch, int]]) -> Outcome:
    n_cells = 0
    clock = stopwatch()

    def sink(matches: ListedMatches) -> None:
        nonlocal n_cells
        n_cells += len(matches.rows)

    started = clock()
    for batch, watermark_ms in parts:
        runtime.deliver(StreamColumns(batch, interner), watermark_ms, sink)
    seconds = clock() - started
    counted = runtime.statistics
    return Outcome(
        seconds, counted.n_matches, counted.n_matches, n_cells, counted.n_runs, counted.peak_runs, counted.seconds
    )


def _planned(
    runtime: Runtime, interner: Interner, parts: Sequence[tuple[EventBatch, int]], keep: bool, read: bool = False
) -> Outcome:
    """`keep`: rows are few and stand for many matches, so they are kept; else a sink takes them and gives them up.
    `read`: all that they say is had of them, as Arrow."""
    clock = stopwatch()
    found: list[Sequence[MatchRow]] = []
    n_read = 0

    def take(block: RowBlock) -> None:
        nonlocal n_read
        n_read += block.to_arrow().num_rows if read else 0

    sink = RowSink(take)
    if isinstance(runtime, PostponedRuntime) and not keep:
        runtime.sink = sink
    started = clock()
    for batch, watermark_ms in parts:
        rows = runtime.advance(StreamColumns(batch, interner), watermark_ms)
        if keep:
            found.append(rows)
            if read and len(rows):
                take(MatchRows([rows]))
        else:
            sink.hand_over(rows)
    seconds = clock() - started
    n_rows = sum(map(len, found)) if keep else sink.n_rows
    if read and n_read != n_rows:
        raise AssertionError(f"read {n_read} of {n_rows} rows")
    n_matches = MatchRows(found).n_matches if keep else n_rows
    if not isinstance(runtime, NfaRuntime):
        return Outcome(seconds, n_matches, n_rows, 0)
    return Outcome(
        seconds, n_matches, n_rows, 0, runtime.n_begun, merged_runs=runtime.n_merged, offers=runtime.n_offered
    )


def _n_event_cells(query: CompiledQuery, parts: Sequence[tuple[EventBatch, int]], merge: bool) -> int:
    """Events of all listed matches, by a sample of each block, in an evaluation that is not timed: rows that are looked
    at become Python objects."""
    interner = Interner()
    n_cells = 0

    def look(block: RowBlock) -> None:
        nonlocal n_cells
        n_cells += round(len(block) * _mean_length(block))

    sink = RowSink(look)
    runtime = make_runtime(query, interner, Limits(max_rows=2**40, merge_runs=merge))
    if isinstance(runtime, PostponedRuntime):
        runtime.sink = sink
    for batch, watermark_ms in parts:
        sink.hand_over(runtime.advance(StreamColumns(batch, interner), watermark_ms))
    return n_cells


def _mean_length(rows: Sequence[MatchRow]) -> float:
    """Events per match, by a few in the middle: rows that stand together are made together."""
    middle = len(rows) // 2
    sample = [rows[at] for at in range(max(0, middle - 8), min(len(rows), middle + 8))]
    return sum(len(row.event_ids) for row in sample) / len(sample)


__all__ = ["Outcome", "compile_kernels", "evaluate"]
