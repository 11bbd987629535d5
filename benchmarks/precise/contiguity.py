"""The contiguities and skip till next match with the template of SASE+ section 6.1; merging of equivalent runs.

A window of W there bounds the events of one symbol; with two symbols in turn that is 2 W ms of this stream.
"""

from __future__ import annotations

from benchmarks.measure import scale, show
from benchmarks.precise.queries import ITERATOR_PREDICATES, sase_plus_query
from benchmarks.precise.rows import Figures, Row, quantity, rate

N_EVENTS = 100_000
STRATEGIES = ("strict_contiguity", "partition_contiguity", "skip_till_next_match")
WINDOWS = (500, 1_000, 2_000)


def main(figures: Figures) -> None:
    """Measure strategies by predicates at W = 500, windows under skip till next match, and both without merging."""
    at_500 = [_row(figures, strategy, p, 500) for p in ITERATOR_PREDICATES for strategy in STRATEGIES]
    _show("SASE+ template, W = 500 (Figure 8(a))", at_500)
    by_window = [_row(figures, STRATEGIES[2], p, w) for p in ("p1", "p2", "p3 min") for w in WINDOWS]
    _show("SASE+ template, skip till next match by window (Figures 8(b), 8(c))", by_window)
    compared = [(STRATEGIES[2], p, w) for p in ("p1", "p2", "p3 min") for w in WINDOWS]
    compared += [(STRATEGIES[1], p, 500) for p in ("p1", "p2", "p3 min")]
    pairs = [(_row(figures, *case), _row(figures, *case, merge=False)) for case in compared]
    show(
        "merging of equivalent runs (Figures 8(f), 8(g)); events/s",
        ("workload", "matches", "merging", "no merging", "gain", "merged", "runs per event", "no merging"),
        [
            [
                merged["workload"],
                merged.get("matches", ""),
                rate(merged),
                rate(single),
                _gain(merged, single),
                f"{merged['merged_runs'] / merged['runs']:.0%}" if merged.get("runs") else "",
                _per_event(merged),
                _per_event(single),
            ]
            for merged, single in pairs
        ],
    )


def _row(figures: Figures, strategy: str, predicate: str, window: int, merge: bool = True) -> Row:
    workload, variant = f"{strategy} {predicate} W {window}", "matches" if merge else "matches, no merging"
    known = figures.find(workload, "matches")
    if merge and known is not None:
        return known
    return figures.measure(
        workload,
        variant,
        sase_plus_query(strategy, predicate, 2 * window),
        ("stock", {"n_events": scale(N_EVENTS)}),
        n_matches=None if known is None else known.get("matches"),
        merge=merge,
        limit_s=40.0,
    )


def _show(title: str, rows: list[Row]) -> None:
    show(
        title,
        ("workload", "events/s", "matches", "events in them", "ns per event in them", "MiB"),
        [
            [
                row["workload"],
                rate(row),
                row.get("matches", ""),
                quantity(row.get("n_event_cells", 0.0)),
                f"{row['seconds'] * 1e9 / row['n_event_cells']:.3g}" if row.get("n_event_cells") else "",
                round(row.get("peak_mb", 0)),
            ]
            for row in rows
        ],
    )


def _per_event(row: Row) -> str:
    """Runs looked at per event (Table 2 of SASE+: per time step)."""
    return f"{row['offers'] / row['events']:.3g}" if row.get("offers") is not None else ""


def _gain(merged: Row, single: Row) -> str:
    if None in (merged["seconds"], single["seconds"]):
        return ""
    return f"{single['seconds'] / merged['seconds']:.2f} x"


__all__ = ["main"]
