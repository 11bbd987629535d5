"""Figures 14 to 17 of GRETA (sections 10.2 to 10.4) beside its baselines: `make bench BENCH=trend_figures`.

Per approach and point: processor seconds of one window, throughput, latency (from when the last twentieth of the window
has come to the rows), memory; tables, SVG plots and JSON in build/benchmarks. An approach that takes longer than
CLUSTERCEP_BENCH_LIMIT_S (60) or stores more than `approaches.MOST_STORED` trends has no figure there, nor for larger
points of its series. Where an approach comes to an end, its number of trends and their sum must be the engine's.

"two_step_60" of the result: the size for which the two-step baseline needs the limit, against the engine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import scale, show, size
from benchmarks.own_process import measured as in_own_process
from benchmarks.plots import PLOTS, line_chart

APPROACHES = {"engine": "clustercep", "quadratic": "GRETA", "two_step": "SASE", "shared": "CET", "flattened": "Flink"}
"""GRETA: its quadratic propagation, without our index; all of these are our own (`baselines`)."""
KINDS: dict[str, Callable[[dict[str, Any]], float]] = {
    "latency, ms": lambda row: 1_000 * float(row["latency_s"]),
    "memory, MiB": lambda row: float(row["bytes"]) / 2**20,
    "throughput, events/s": lambda row: float(row["throughput"]),
}
_TASK = "benchmarks.trend_figures.approaches:measured"


@dataclass(frozen=True)
class Point:
    """One window: x on the chart, the stream with its arguments, the factor of the edge predicate (None: none)."""

    x: float
    stream: str
    arguments: dict[str, Any]
    factor: float | None


@dataclass(frozen=True)
class Figure:
    """A figure of the paper with its points from cheap to dear."""

    name: str
    title: str
    x_label: str
    points: tuple[Point, ...]


def factor_of(selectivity: float) -> float:
    """The X for which P(u * X < v) is this, u and v uniform over the same range from 0: 1 - X / 2 up to X = 1, then
    1 / (2 * X)."""
    return 2 * (1 - selectivity) if selectivity >= 0.5 else 1 / (2 * selectivity)


def figures() -> tuple[Figure, ...]:
    """The figures at CLUSTERCEP_BENCH_SCALE."""
    sizes = [scale(n) for n in (10_000, 50_000, 100_000, 250_000, 500_000, 700_000, 1_000_000)]
    n = scale(100_000)
    groups = [max(1, n // per_group) for per_group in (10, 14, 20, 50, 100, 1_000, 10_000)]
    return (
        Figure(
            "figure_14", "Positive patterns, prices 10 % up (stock)", "events per window",
            tuple(Point(size, "stock", {"n": size}, 1.1) for size in sizes),
        ),
        Figure(
            "figure_15", "A halt ends the begin of trends (stock)", "events per window",
            tuple(Point(size, "stock", {"n": size, "halts": 20}, 1.1) for size in sizes),
        ),
        Figure(
            "figure_16", "Selectivity of the edge predicate (position reports)", "selectivity, %",
            tuple(
                Point(percent, "positions", {"n": n, "n_vehicles": max(1, n // 20)}, factor_of(percent / 100))
                for percent in (10, 20, 30, 40, 50, 60, 70, 80, 90)
            ),
        ),
        Figure(
            "figure_17", "Groups of trends (cluster)", "groups",
            tuple(Point(number, "cluster", {"n": n, "n_mappers": number}, 1.0) for number in groups),
        ),
    )  # fmt: skip


def main() -> dict[str, Any]:
    """Measure, print, draw, return the rows."""
    limit_s = float(size("LIMIT_S", 60))
    chosen = os.environ.get("CLUSTERCEP_BENCH_TABLES", "").split(",")
    rows: list[dict[str, Any]] = []
    for figure in figures():
        if chosen == [""] or figure.name in chosen:
            rows += _series(figure, limit_s)
            _draw(figure, [row for row in rows if row["figure"] == figure.name])
    found: dict[str, Any] = {"load": os.getloadavg(), "limit_s": limit_s, "rows": rows}
    if chosen == [""] or "two_step_60" in chosen:
        found["two_step_60"] = _two_step_for(limit_s)
    return found


def _series(figure: Figure, limit_s: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    ended: set[str] = set()
    for point in figure.points:
        found: dict[str, dict[str, Any] | None] = {}
        for approach in APPROACHES:
            if approach in ended:
                continue
            arguments = {
                "approach": approach, "stream": point.stream, "arguments": point.arguments, "factor": point.factor,
            }  # fmt: skip
            one = in_own_process(_TASK, arguments, limit_s + _start_s(point))
            if one is None or not one["is_whole"] or one["seconds"] > limit_s:
                ended.add(approach)
                why = "memory" if one is not None and not one["is_whole"] else f"more than {limit_s:.0f} s"
                rows.append({"figure": figure.name, "x": point.x, "approach": approach, "ended_by": why})
                continue
            found[approach] = one
            rows.append({
                "figure": figure.name, "x": point.x, "approach": approach, "n_events": point.arguments["n"],
                "factor": point.factor, "throughput": point.arguments["n"] / one["seconds"], **one,
            })  # fmt: skip
        _agree(figure, point, found)
    _print(figure, rows)
    for row in rows:
        if "ended_by" in row:
            print(f"  {APPROACHES[row['approach']]} at {row['x']:g}: {row['ended_by']}")
    return rows


def _print(figure: Figure, rows: Sequence[dict[str, Any]]) -> None:
    """A table for each kind of number: a row for each point, a column for each approach."""
    of_point: dict[float, dict[str, dict[str, Any]]] = {point.x: {} for point in figure.points}
    for row in rows:
        of_point[row["x"]][row["approach"]] = row
    for what, value in KINDS.items():
        show(
            f"{figure.name}: {figure.title}; {what}",
            (figure.x_label, "trends", *APPROACHES.values()),
            [
                (
                    f"{x:.0f}",
                    f"{found['engine']['count']:.3g}" if "count" in found.get("engine", {}) else "",
                    *(value(found[name]) if "seconds" in found.get(name, {}) else "" for name in APPROACHES),
                )
                for x, found in of_point.items()
            ],
        )


def _start_s(point: Point) -> float:
    """What a process takes before it measures, at most: imports, and the events as columns."""
    return 15.0 + float(point.arguments["n"]) / 50_000


def _agree(figure: Figure, point: Point, found: dict[str, dict[str, Any] | None]) -> None:
    """Raises AssertionError where approaches that came to an end differ in what they found."""
    whole = {name: one for name, one in found.items() if one is not None and math.isfinite(one["sum"])}
    for name, one in whole.items():
        for what in ("count", "sum"):
            expected = whole.get("engine", one)[what]
            assert math.isclose(one[what], expected, rel_tol=1e-9), (
                f"{figure.name} at {point.x:g}: {what} of {APPROACHES[name]} is {one[what]}, of the engine {expected}"
            )


def _draw(figure: Figure, rows: Sequence[dict[str, Any]]) -> None:
    PLOTS.mkdir(parents=True, exist_ok=True)
    measured = [row for row in rows if "seconds" in row]
    for what, value in KINDS.items():
        lines = {
            name: [
                (row["x"], value(row))
                for row in sorted(measured, key=lambda row: float(row["x"]))
                if row["approach"] == own
            ]
            for own, name in APPROACHES.items()
        }
        path = PLOTS / f"trends_{figure.name}_{what.partition(',')[0]}.svg"
        line_chart(path, figure.title, figure.x_label, what, lines)


def _two_step_for(limit_s: float) -> dict[str, Any]:
    """`M+` over n events of one key, each a second after the one before: 2^n - 1 trends. The first n for which the
    two-step approach needs the limit, all of them at once, against the engine on the same events."""
    for n in range(24, 64):
        point = {"stream": "one_by_one", "arguments": {"n": n}, "factor": None}
        two_step = in_own_process(_TASK, {"approach": "two_step", **point}, 8 * limit_s + 15)
        if two_step is None or two_step["seconds"] >= limit_s:
            break
    ours = in_own_process(_TASK, {"approach": "engine", **point, "n_steps": 1}, limit_s)
    assert ours is not None
    if two_step is None:
        return {"n": n, "engine_s": ours["seconds"], "two_step_s": None}
    _agree(Figure("two_step_60", "", "", ()), Point(n, "", {}, None), {"engine": ours, "two_step": two_step})
    ratio = float(two_step["seconds"]) / float(ours["seconds"])
    print(
        f"{n} events of one key, no predicate, {ours['count']:.3g} trends: two-step {two_step['seconds']:.1f} s, "
        f"clustercep {1_000 * ours['seconds']:.1f} ms, {ratio:,.0f} times"
    )
    return {"n": n, "engine_s": ours["seconds"], "two_step_s": two_step["seconds"], "ratio": ratio}


__all__ = ["APPROACHES", "Figure", "Point", "factor_of", "figures", "main"]
