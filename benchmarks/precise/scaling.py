"""Many keys, a hundred queries: what one more of each costs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.measure import forget_peak, resident_mib, scale, show, stopwatch
from benchmarks.own_process import measured
from benchmarks.precise import streams
from benchmarks.precise.queries import stock_query
from benchmarks.precise.rows import Figures, rate
from engine import CompiledQuery, Engine, compile_query
from engine.events import EventBatch
from engine.matching.output.rows import MatchRows

N_KEYS = (1_000, 10_000, 1_000_000)
STRATEGIES = {"skip_till_any_match": "OUTPUT COLLAPSED", "skip_till_next_match": ""}
N_QUERIES = (1, 10, 100)


def main(figures: Figures) -> None:
    """Measure and print the tables."""
    _keys(figures)
    _queries(figures)


def _keys(figures: Figures) -> None:
    """A window holds four events of each key on average, however many keys there are."""
    shown: list[list[object]] = []
    for strategy, output in STRATEGIES.items():
        first_s = None
        for n_keys in N_KEYS:
            text = (
                f"PATTERN SEQ(A a, B+ b[], C c) WHERE {strategy} {{ [k] AND b[i].x >= 10 }} "
                f"WITHIN {4 * n_keys} {output}"
            )
            stream = ("keyed", {"n_events": scale(4_000_000), "n_keys": n_keys})
            row = figures.measure(
                f"{n_keys} keys, {strategy}", output.removeprefix("OUTPUT ").lower() or "matches", text, stream,
                n_per_batch=100_000, limit_s=90.0, repeats=3,
            )  # fmt: skip
            first_s = first_s or row["seconds"]
            cost = "" if None in (first_s, row["seconds"]) else f"{row['seconds'] / first_s:.2f}"
            shown.append([row["workload"], row.get("matches", ""), rate(row), cost, round(row.get("peak_mb", 0))])
    show("keys; 4 events of a key in a window", ("keys", "matches", "events/s", "cost / 1,000 keys", "MiB"), shown)


def _queries(figures: Figures) -> None:
    """Variants of a few patterns, whose predicates on one event occur several times, and queries that share none."""
    shown: list[list[object]] = []
    for kind in ("variants", "unlike"):
        for n_queries in N_QUERIES:
            arguments = {"n_queries": n_queries, "n_events": scale(300_000), "unlike": kind == "unlike"}
            row = figures.keep(
                f"{n_queries} queries, {kind}", "collapsed", measured(f"{__name__}:run_queries", arguments, 90.0),
                limit_s=90.0,
            )  # fmt: skip
            cost = f"{row['cost']:.2f}" if "cost" in row else ""
            shown.append([row["workload"], row.get("rows", ""), rate(row), cost, round(row.get("peak_mb", 0))])
    show("queries over one stream, by the whole engine", ("queries", "rows", "events/s", "cost / 1", "MiB"), shown)


def run_queries(n_queries: int, n_events: int, repeats: int = 9, *, unlike: bool = False) -> dict[str, Any]:
    """Median seconds of an engine with so many queries, and the median of what each run costs over one with one query
    right before it; they differ in what they take, in the last event and in the window. The first runs do not count.

    `unlike`: also in what their first event is.
    """
    texts = [
        stock_query(f"a[i].price % {5 + number % 10} = 0", ("max", "min")[number // 50], 25 + number // 10 % 5,
                    "OUTPUT COLLAPSED")
        for number in range(n_queries)
    ]  # fmt: skip
    if unlike:
        texts = [text.replace("a[1].price % 500", f"a[1].price % {450 + n}") for n, text in enumerate(texts)]
    queries = [compile_query(text, streams.STOCK, name=f"q{number}") for number, text in enumerate(texts)]
    parts = list(streams.in_batches(streams.stock_stream(n_events), 50_000))
    forget_peak()
    runs = [(_run(queries[:1], parts), _run(queries, parts)) for _ in range(1 + repeats)][1:]
    taken_s = median(several.seconds for _, several in runs)
    return {
        "events": n_events,
        "seconds": taken_s,
        "events_per_second": n_events / taken_s,
        "cost": median(several.seconds / one.seconds for one, several in runs),
        "matches": runs[-1][1].n_matches,
        "rows": runs[-1][1].n_rows,
        "repeats": repeats,
        "peak_mb": resident_mib(peak=True),
    }


class _Run(NamedTuple):
    """What is kept of a run: its rows would keep memory from the next one."""

    seconds: float
    n_rows: int
    n_matches: int


def _run(queries: Sequence[CompiledQuery], parts: Sequence[tuple[EventBatch, int]]) -> _Run:
    """A new engine over a stream."""
    engine = Engine(queries, streams.STOCK)
    clock = stopwatch()
    started = clock()
    found = [engine.process(part, watermark_ms) for part, watermark_ms in parts]
    found.append(engine.finish())
    seconds = clock() - started
    rows = MatchRows(found)
    return _Run(seconds, len(rows), rows.n_matches)


__all__ = ["main", "run_queries"]
