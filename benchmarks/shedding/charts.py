"""The papers' figures as charts, from the rows of the tables: a line for each strategy.

By rate: pSPICE's Figure 6, and 8 (the longest latency here, the latency over time there); gSPICE's 4 to 8, and 11. By
match probability: pSPICE's 5. By cost factor: pSPICE's 7. By the window: pSPICE's 9. By the pane: gSPICE's 9. By
dataset: gSPICE's 10.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.plots import PLOTS, line_chart

Row = dict[str, Any]
Value = Callable[[Row], float | None]


@dataclass(frozen=True)
class Axis:
    """`of`: where a row is on it, None: nowhere. Rows are of one chart where `alike` is the same; `drawn`: what is
    drawn of them."""

    name: str
    label: str
    of: Value
    alike: Callable[[Row], tuple[object, ...]]
    drawn: tuple[str, ...]


def _percent(name: str) -> Value:
    return lambda row: None if row.get(name) is None else 100 * float(row[name])


VALUES: dict[str, tuple[str, Value]] = {
    "lost": ("false negatives, %", _percent("fn")),
    "false": ("false positives, %", _percent("fp")),
    "dropped": ("dropped, %", _percent("dropped")),
    "latency": ("longest latency, % of the bound", lambda row: 100 * row["latency_max_ms"] / row["bound_ms"]),
    "overhead": ("shedding, % of the work", _percent("overhead")),
    "model": ("to build the model, ms", lambda row: None if row.get("build_s") is None else 1_000 * row["build_s"]),
}


def _window(row: Row) -> float | None:
    found = re.search(r"WITHIN (\d+)$", row["query"])
    return float(found.group(1)) if found else None


def _dataset(row: Row) -> float | None:
    """1 to 8 of gSPICE's D1 to D8."""
    found = re.fullmatch(r"D(\d)", row["dataset"])
    return float(found.group(1)) if found else None


def _family(row: Row) -> str:
    """Queries that differ in their numbers alone."""
    return re.sub(r"\d+", "n", row["shape"])


AXES = (
    Axis("rate", "rate, % of what is evaluated", _percent("rate"),
         lambda row: (row["dataset"], row["shape"], row["cost_factor"]), ("lost", "false", "dropped", "latency")),
    Axis("match_probability", "partial matches that complete, %", _percent("match_probability"),
         lambda row: (row["dataset"], _family(row), row["cost_factor"], f"{row['rate']:.0%}"), ("lost", "false")),
    Axis("cost_factor", "an offer to the first query costs so many times as much", lambda row: row["cost_factor"],
         lambda row: (row["dataset"], row["shape"], f"{row['rate']:.0%}"), ("lost",)),
    Axis("window", "window, events", _window,
         lambda row: (row["dataset"], _family(row), row["cost_factor"], f"{row['rate']:.0%}"), ("overhead", "model")),
    Axis("pane", "pane, events", lambda row: row["pane"],
         lambda row: (row["dataset"], row["shape"], f"{row['rate']:.0%}"), ("lost", "false")),
    Axis("dataset", "dataset, D1 to D8", _dataset, lambda row: (row["shape"], f"{row['rate']:.0%}"),
         ("lost", "dropped")),
)  # fmt: skip


def _setting(row: Row) -> tuple[object, ...]:
    """The same for all seeds."""
    return row["dataset"], row["shape"], row["rate"], row["cost_factor"], row["pane"]


def draw(rows: Iterable[Row], folder: Path = PLOTS) -> list[Path]:
    """Write the charts that have at least two points, means over seeds; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    every, paths = list(rows), list[Path]()
    for axis in AXES:
        charts: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in every:
            if axis.of(row) is not None:
                charts[axis.alike(row)].append(row)
        for alike, found in charts.items():
            if len({x for x, _ in _points(axis.of, axis.of, found).values()}) > 1:
                paths += [_draw(folder, axis, alike, what, found) for what in axis.drawn]
    return [path for path in paths if path.is_file()]


def _points(x: Value, y: Value, rows: Iterable[Row]) -> dict[tuple[object, ...], tuple[float, float]]:
    """Means over seeds of both, by setting, of rows that have them."""
    values: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if (at := x(row)) is not None and (value := y(row)) is not None:
            values[_setting(row)].append((at, value))
    means = {setting: np.mean(found, axis=0) for setting, found in values.items()}
    return {setting: (float(at), float(value)) for setting, (at, value) in means.items()}


def _draw(folder: Path, axis: Axis, alike: tuple[object, ...], what: str, rows: Sequence[Row]) -> Path:
    label, value = VALUES[what]
    lines = {
        name: list(_points(axis.of, value, [row for row in rows if row["strategy"] == name]).values())
        for name in dict.fromkeys(row["strategy"] for row in rows)
    }
    named = [str(part) for part in alike if part != 1]
    words = "-".join(re.sub(r"[^\w]+", "_", word).strip("_") for word in (axis.name, *named, what))
    path = folder / f"shedding-{words}.svg"
    path.unlink(missing_ok=True)
    line_chart(path, ", ".join(named), axis.label, label, lines, shares=True)
    return path


__all__ = ["AXES", "VALUES", "draw"]
