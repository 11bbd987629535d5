"""A long stream in constant memory: collapsed rows of workload S, once."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import forget_peak, resident_mib, scale, show, stopwatch
from benchmarks.own_process import measured
from benchmarks.precise.queries import REFERENCES
from benchmarks.precise.rows import Figures, rate
from benchmarks.precise.streams import STOCK, StockStream
from engine import Limits, compile_query
from engine.matching.output.rows import MatchRows
from engine.runtime.factory import make_runtime
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

N_EVENTS = 100_000_000
N_PER_BATCH = 100_000
N_MARKS = 10


def main(figures: Figures, limit_s: float = 240.0) -> None:
    """Memory after each tenth of the stream; drawing the events is not part of the time."""
    arguments = {"n_events": scale(N_EVENTS), "limit_s": limit_s - 20.0}
    row = figures.keep(
        "W100, long stream", "collapsed", measured(f"{__name__}:run_long", arguments, limit_s), limit_s=limit_s
    )
    marks = row.get("marks", [])
    show(
        f"a long stream, W100, collapsed: {rate(row)} events/s, peak {row.get('peak_mb', 0):.0f} MiB",
        ("events", "resident MiB", "events kept", "seconds"),
        [[mark["events"], round(mark["resident_mb"]), mark["n_kept"], round(mark["seconds"], 1)] for mark in marks],
    )


def run_long(n_events: int, limit_s: float) -> dict[str, Any]:
    """Draw and evaluate batch by batch; stops early, at a batch's end, once `limit_s` has passed."""
    reference = next(r for r in REFERENCES if r.name == "W100")
    query = compile_query(reference.text("OUTPUT COLLAPSED"), STOCK)
    clock = stopwatch()
    interner = Interner()
    runtime = make_runtime(query, interner, Limits(max_rows=2**40))
    stream = StockStream()
    n_done = n_rows = n_matches = 0
    seconds = 0.0
    marks: list[dict[str, float]] = []
    begun = clock()
    while n_done < n_events and clock() - begun < limit_s:
        batch = stream.next(min(N_PER_BATCH, n_events - n_done))
        n_done += len(batch)
        started = clock()
        rows = runtime.advance(StreamColumns(batch, interner), n_done)
        seconds += clock() - started
        n_rows += len(rows)
        n_matches += MatchRows([rows]).n_matches
        if not marks:
            forget_peak()
        if n_done >= n_events * (len(marks) + 1) / N_MARKS or not marks:
            marks.append(
                {"events": n_done, "resident_mb": resident_mib(), "n_kept": runtime.n_rows, "seconds": seconds}
            )
    return {
        "events": n_done,
        "seconds": seconds,
        "events_per_second": n_done / seconds,
        "matches": n_matches,
        "rows": n_rows,
        "peak_mb": resident_mib(peak=True),
        "marks": marks,
    }


__all__ = ["main", "run_long"]
