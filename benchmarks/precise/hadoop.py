"""Q1 and Q3 of SASE++ at a million events, beside Flink CEP 2.3 on the same kind of machine."""

from __future__ import annotations

from benchmarks.measure import scale, show
from benchmarks.precise.queries import Q1, Q3
from benchmarks.precise.rows import Figures, quantity, rate, ratio

CASES = (("Q1", Q1, "jobs", "n_jobs", 73e3), ("Q3", Q3, "pulls", "n_tasks", 91e3))
"""Name, query, stream, its argument, Flink's events per second (of a range the better)."""


def main(figures: Figures) -> None:
    """2,000 jobs of 100 to 1,000 mappers; as many reducers that pull as many map outputs."""
    shown = []
    for name, text, stream, argument, flink in CASES:
        row = figures.measure(name, "matches", text, (stream, {argument: scale(2_000)}), n_per_batch=50_000)
        row["reference_events_per_second"] = flink
        shown.append(
            [
                name,
                row.get("events", ""),
                row.get("matches", ""),
                rate(row),
                quantity(flink),
                ratio(row, flink),
                round(row.get("peak_mb", 0)),
            ]
        )
    show("Q1 and Q3, skip till next match", ("query", "events", "matches", "events/s", "Flink", "", "MiB"), shown)


__all__ = ["main"]
