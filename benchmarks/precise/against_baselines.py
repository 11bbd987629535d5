"""Figures 5(a) to 5(i) of SASE++: postponing against the papers' baselines in the same run, as tables and plots.

The stream is workload S. The selectivity (matches per event) is set by the predicate on taken events, as the reference
does; the predicate on the last event is true-value consistent (max) or false-value consistent (min).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.measure import show
from benchmarks.plots import PLOTS, line_chart
from benchmarks.precise.queries import N_REFERENCE_EVENTS, REFERENCES, stock_query
from benchmarks.precise.rows import Figures, Row, quantity, rate, ratio

LIMIT_S = 10.0
"""A baseline that takes longer for 100,000 events (with its start, about 2 s) is cut off."""

PLANNED = {"collapsed": "OUTPUT COLLAPSED", "matches": ""}
BASELINES = ("runs", "buffers", "backtracking")
NAMES = {
    "collapsed": "collapsed",
    "matches": "on the fly",
    "runs": "SASE+ (one run each)",
    "buffers": "ZStream (buffers)",
    "backtracking": "backtracking",
}
PHASES = ("event buffering", "run initialization", "pattern matching", "result construction")


@dataclass(frozen=True)
class Point:
    """One query of a series; x is a selectivity or a window in ms."""

    name: str
    take: str
    aggregate: str
    within_ms: int
    n_matches: int | None


_BY_NAME = {r.name: Point(r.name, r.take, r.aggregate, r.within_ms, r.n_matches) for r in REFERENCES}
_FIFTH = "a[i].price % 5 = 0"
_SELECTIVITIES = {"T": ("true-1", "true-2", "true-4", "true-8"), "F": ("false-1", "false-4", "false-8")}
_WINDOWS_MS = (25, 50, 75, 100, 150)


def main(figures: Figures) -> None:
    """Measure both series of both classes, print tables, draw plots."""
    PLOTS.mkdir(parents=True, exist_ok=True)
    for which, (kind, aggregate) in {"T": ("true", "max"), "F": ("false", "min")}.items():
        by_selectivity = [(_BY_NAME[name], _measured(figures, _BY_NAME[name])) for name in _SELECTIVITIES[which]]
        by_window = [(point, _measured(figures, point)) for point in _windows(aggregate)]
        a, c = ("a", "c") if which == "T" else ("e", "f")
        _throughput(
            f"5({a}) throughput by selectivity, {kind}-value consistent", f"5{a}", by_selectivity, "matches/event"
        )
        _throughput(f"5({c}) throughput by window, {kind}-value consistent", f"5{c}", by_window, "window (ms)")
        if which == "T":
            _runs("5(b) runs by selectivity, true-value consistent", "5b", by_selectivity, "matches/event")
            _runs("5(d) runs by window, true-value consistent", "5d", by_window, "window (ms)")
            _breakdowns(by_window)


def _windows(aggregate: str) -> list[Point]:
    known = {(p.take, p.aggregate, p.within_ms): p for p in _BY_NAME.values()}
    return [
        known.get(
            (_FIFTH, aggregate, within_ms),
            Point(f"W{within_ms} {aggregate}", _FIFTH, aggregate, within_ms, None),
        )
        for within_ms in _WINDOWS_MS
    ]


def _measured(figures: Figures, point: Point) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    n_matches = point.n_matches
    for variant in (*PLANNED, *BASELINES):
        row = figures.find(point.name, variant)
        if row is None:
            text = stock_query(point.take, point.aggregate, point.within_ms, PLANNED.get(variant, ""))
            row = figures.measure(
                point.name,
                variant,
                text,
                ("stock", {"n_events": N_REFERENCE_EVENTS}),
                n_matches=n_matches,
                limit_s=LIMIT_S,
                repeats=3,
            )
        n_matches = row.get("matches", n_matches)  # all have to find as many
        rows[variant] = row
    return rows


Series = list[tuple[Point, dict[str, Row]]]


def _x(point: Point, rows: dict[str, Row], label: str) -> float | None:
    if label == "window (ms)":
        return point.within_ms
    n_matches = point.n_matches or rows["collapsed"].get("matches")
    return None if n_matches is None else n_matches / N_REFERENCE_EVENTS


def _variants() -> Iterable[str]:
    return (*PLANNED, *BASELINES)


def _throughput(title: str, name: str, series: Series, x_label: str) -> None:
    show(
        f"{title}; events/s (baselines cut off after {LIMIT_S:.0f} s)",
        (x_label, "matches", *(NAMES[v] for v in _variants()), "on the fly / SASE+", "peak MiB (last three)"),
        [
            [
                f"{_x(point, rows, x_label):.4g}",
                rows["collapsed"].get("matches", ""),
                *(rate(rows[v]) for v in _variants()),
                ratio(rows["matches"], rows["runs"].get("events_per_second")),
                " ".join(f"{rows[v]['peak_mb']:.0f}" if "peak_mb" in rows[v] else "-" for v in BASELINES),
            ]
            for point, rows in series
        ],
    )
    line_chart(
        PLOTS / f"figure{name}.svg",
        title,
        x_label,
        "events/s",
        {
            NAMES[v]: [(_x(p, rows, x_label) or 0.0, rows[v].get("events_per_second")) for p, rows in series]
            for v in _variants()
        },
    )


def _n_runs(rows: dict[str, Row], variant: str) -> float | None:
    """Runs created; of postponing those whose result is constructed: one for each first and last event."""
    found = rows["collapsed"].get("rows") if variant == "collapsed" else rows[variant].get("runs")
    return None if found is None else float(found)


def _runs(title: str, name: str, series: Series, x_label: str) -> None:
    variants = ("collapsed", *BASELINES)
    show(
        title,
        (x_label, "postponing", *(NAMES[v] for v in BASELINES), "alive at once, SASE+", "ZStream"),
        [
            [
                f"{_x(point, rows, x_label):.4g}",
                *(quantity(_n_runs(rows, v)) if _n_runs(rows, v) is not None else "cut off" for v in variants),
                *(rows[v].get("peak_runs", "") for v in ("runs", "buffers")),
            ]
            for point, rows in series
        ],
    )
    line_chart(
        PLOTS / f"figure{name}.svg",
        title,
        x_label,
        "runs",
        {NAMES[v]: [(_x(p, rows, x_label) or 0.0, _n_runs(rows, v)) for p, rows in series] for v in variants},
    )


def _phases(rows: dict[str, Row], variant: str) -> dict[str, float | None]:
    if variant != "matches":
        found = rows[variant].get("phases") or {}
        return {phase: found.get(phase) for phase in PHASES} | {"total": rows[variant]["seconds"]}
    matching, total = rows["collapsed"]["seconds"], rows["matches"]["seconds"]
    listing = None if None in (matching, total) else max(0.0, total - matching)
    return {"pattern matching": matching, "result construction": listing, "total": total}


def _breakdowns(series: Series) -> None:
    """5(g), (h), (i): seconds by phase; of postponing matching is the time of collapsed rows, construction the rest."""
    for letter, variant in (("g", "runs"), ("h", "buffers"), ("i", "matches")):
        title = f"5({letter}) cost by phase, {NAMES[variant]}, true-value consistent"
        phased = [(point, _phases(rows, variant)) for point, rows in series]
        names = [name for name in (*PHASES, "total") if name in phased[0][1]]
        show(
            f"{title}; ms",
            ("window (ms)", *names),
            [[str(p.within_ms), *(_milliseconds(found[name]) for name in names)] for p, found in phased],
        )
        line_chart(
            PLOTS / f"figure5{letter}.svg",
            title,
            "window (ms)",
            "seconds",
            {name: [(p.within_ms, found[name]) for p, found in phased] for name in names},
        )


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3g}"


__all__ = ["main"]
