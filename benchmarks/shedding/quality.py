"""What is lost at which rate: tables beside the values that the papers state."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np

from benchmarks.measure import scale, show, size
from benchmarks.shedding.simulation import Strategy, shed, unshed
from benchmarks.shedding.workload import Shape, negation, sequence, ten_stocks
from engine.runtime.shedding.event_shedder import EventStrategy
from engine.runtime.shedding.run_shedder import RunStrategy

RATES = (1.2, 1.4, 1.6, 1.8, 2.0)
RUNS: tuple[Strategy, ...] = (RunStrategy.PSPICE, RunStrategy.PSPICE_WITHOUT_TIME, RunStrategy.RANDOM)
EVENTS: tuple[Strategy, ...] = (EventStrategy.GSPICE_H, EventStrategy.BY_TYPE, EventStrategy.RANDOM)
PAPER = {
    ("sequence of ten, 600", 1.2, "pspice"): "18.5",
    ("sequence of ten, 600", 2.0, "pspice"): "60",
    ("sequence of ten, 600", 1.2, "pm-bl"): "29",
    ("sequence of ten, 600", 2.0, "pm-bl"): "86",
    ("sequence of ten, 600", 1.2, "e-bl"): "49",
    ("sequence of ten, 600", 2.0, "e-bl"): "94",
}
"""False negatives in percent: pSPICE, Figure 6(a), at a match probability of 30 %."""
N_STOCK = 16_000
N_SYNTHETIC = 8_000


def main() -> list[dict[str, Any]]:
    """Measure all shapes by rate and strategy; returns a row for each seed."""
    rows: list[dict[str, Any]] = []
    for window in (500, 600, 800, 1_200):
        rates = RATES if window == 600 else (1.2,)
        rows += _measure(ten_stocks(window), scale(N_STOCK), rates, (*RUNS, *EVENTS))
    for dataset in ("D1", "D4", "D5", "D8"):
        rows += _measure(sequence(dataset), scale(N_SYNTHETIC), RATES, (*EVENTS, RunStrategy.PSPICE))
    rows += _measure(negation("D1"), scale(N_SYNTHETIC), RATES, (*EVENTS, RunStrategy.PSPICE))
    _show(rows)
    return rows


def _measure(shape: Shape, n: int, rates: tuple[float, ...], strategies: tuple[Strategy, ...]) -> list[dict[str, Any]]:
    rows = []
    for seed in range(1, 1 + size("SEEDS", 3)):
        stream = shape.stream(n, seed)
        known = unshed(shape, stream)
        for rate in rates:
            for strategy in strategies:
                started = time.perf_counter()
                row = shed(shape, stream, known, strategy, rate, seed)
                rows.append({**row, "seconds_of_simulation": round(time.perf_counter() - started, 2)})
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    groups: dict[tuple[str, str, float, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["dataset"], row["shape"], row["rate"], row["strategy"]].append(row)
    for dataset, shape in dict.fromkeys((key[0], key[1]) for key in groups):
        some = {key: found for key, found in groups.items() if key[:2] == (dataset, shape)}
        match_probability = np.mean([row["match_probability"] for found in some.values() for row in found])
        show(
            f"{dataset}, {shape}: match probability {match_probability:.0%}",
            ("strategy", "rate", "lost %", "+-", "paper", "false positives %", "dropped %", "max latency ms"),
            [
                [
                    key[3],
                    f"{key[2]:.0%}",
                    f"{100 * np.mean([row['fn'] for row in found]):.1f}",
                    f"{100 * np.std([row['fn'] for row in found]):.1f}",
                    PAPER.get((shape, key[2], key[3]), ""),
                    f"{100 * np.mean([row['fp'] for row in found]):.1f}",
                    f"{100 * np.mean([row['dropped'] for row in found]):.1f}",
                    round(max(row["latency_max_ms"] for row in found)),
                ]
                for key, found in some.items()
            ],
        )


__all__ = ["main"]
