"""One query over one stream of imprecise events: seconds, rows, matches, whether a limit cut them. In its own process.

What is timed is the runtime, as in `benchmarks.precise.evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.imprecise.queries import STOCK, stock_events, stock_query
from benchmarks.measure import forget_peak, resident_mib, stopwatch
from benchmarks.precise.streams import in_batches
from engine import BaselineKind, CompiledQuery, Limits, MatchRow, compile_query, warm_kernels
from engine.baselines import Enumeration
from engine.events import EventBatch
from engine.runtime.factory import make_runtime
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

WARM_EVENTS = 2_000


@dataclass(frozen=True)
class Outcome:
    """What one evaluation did; `matches`: those behind the rows, at least so many unless `matches_exact`.

    `capped`: rows were left out, `limits.max_rows` of one batch being reached, or a search its work budget.
    """

    seconds: float
    rows: int
    matches: float
    matches_exact: bool
    capped: bool


def evaluate_stock(
    within_ms: int,
    tail: str,
    n_events: int,
    repeats: int = 5,
    budget_s: float = 60.0,
    max_rows: int = 100_000,
    baseline: str | None = None,
) -> dict[str, Any]:
    """Workload S; see `evaluate`."""
    query = compile_query(stock_query(within_ms, tail), STOCK)
    kind = None if baseline is None else BaselineKind(baseline)
    return evaluate(query, stock_events(n_events), repeats=repeats, budget_s=budget_s, max_rows=max_rows, baseline=kind)


def evaluate(
    query: CompiledQuery,
    batch: EventBatch,
    *,
    repeats: int = 5,
    budget_s: float = 60.0,
    max_rows: int = 100_000,
    n_per_batch: int = 10_000,
    baseline: BaselineKind | None = None,
) -> dict[str, Any]:
    """Median seconds of `repeats` evaluations (fewer once `budget_s` is spent), after one over the first events.

    A baseline that enumerates worlds has no other bound than the time that its process is given.
    """
    limits = Limits(max_rows=max_rows)
    clock = stopwatch()
    list_rows(query, in_parts(EventBatch(batch.table.slice(0, WARM_EVENTS)), n_per_batch), limits, baseline)
    parts = in_parts(batch, n_per_batch)
    forget_peak()
    outcomes: list[Outcome] = []
    started = clock()
    while len(outcomes) < repeats and (not outcomes or clock() - started < budget_s):
        outcomes.append(_once(query, parts, limits, baseline))
    seconds = median(outcome.seconds for outcome in outcomes)
    return asdict(outcomes[-1]) | {
        "events": len(batch),
        "seconds": seconds,
        "events_per_second": len(batch) / seconds,
        "repeats": len(outcomes),
        "peak_mb": resident_mib(peak=True),
    }


def in_parts(batch: EventBatch, n_per_batch: int = 10_000) -> list[tuple[EventBatch, int]]:
    """Batches with their watermarks."""
    return list(in_batches(batch, n_per_batch))


def list_rows(
    query: CompiledQuery,
    parts: Sequence[tuple[EventBatch, int]],
    limits: Limits,
    baseline: BaselineKind | None = None,
) -> tuple[list[Sequence[MatchRow]], int]:
    """The rows of each batch, and how many searches were given up without a row that says so."""
    interner = Interner()
    runtime = make_runtime(query, interner, limits, baseline)
    if isinstance(runtime, Enumeration):
        runtime.most_points = 2**62
    rows = [runtime.advance(StreamColumns(batch, interner), watermark_ms) for batch, watermark_ms in parts]
    return rows, runtime.n_unfinished


def _once(
    query: CompiledQuery, parts: Sequence[tuple[EventBatch, int]], limits: Limits, baseline: BaselineKind | None
) -> Outcome:
    clock = stopwatch()
    started = clock()
    found, n_unfinished = list_rows(query, parts, limits, baseline)
    seconds = clock() - started
    return Outcome(
        seconds,
        rows=sum(map(len, found)),
        matches=float(sum(row.count for rows in found for row in rows)),
        matches_exact=not n_unfinished and all(row.count_exact for rows in found for row in rows),
        capped=bool(n_unfinished) or any(row.capped for rows in found for row in rows),
    )


def compile_kernels() -> dict[str, Any]:
    """Let every kernel that the tables use be in the cache."""
    warm_kernels()
    for tail in ("CONFIDENCE >= 0.7", "OUTPUT COLLAPSED"):
        evaluate_stock(25, tail, WARM_EVENTS, repeats=1)
    evaluate_stock(10, "", WARM_EVENTS, repeats=1, baseline=BaselineKind.EXTENSION.value)
    return {}


__all__ = ["Outcome", "compile_kernels", "evaluate", "evaluate_stock", "in_parts", "list_rows"]
