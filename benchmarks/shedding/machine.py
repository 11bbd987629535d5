"""The cost model of the simulated machine (`clustercep demo --overload`): measured here, committed there.

    python -m benchmarks.shedding.machine           measure and print
    python -m benchmarks.shedding.machine --write   and store it as app/replay/machine.json

What the shipped queries take on the stream of a large cluster (workload H) is measured step by step: the time of an
event grows with what is kept. Processor time of one thread.

    CLUSTERCEP_BENCH_NODES=1000    of the cluster
    CLUSTERCEP_BENCH_MINUTES=30    of its stream
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from app.config import load_settings
from app.live.assembly import checked_queries
from app.replay.machine import COSTS
from benchmarks.hadoop_stream import SCHEMA, Cluster, HadoopStream
from benchmarks.measure import show, size
from engine import Engine, Limits
from engine.events import Float64Array
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder
from engine.shedding.overload.detector import Bound, OverloadDetector

ROOT = Path(__file__).parents[2]
STEP_S = 0.1


@dataclass
class _Measured:
    """Steps: events, load and seconds."""

    steps: list[tuple[int, int, float]] = field(default_factory=list)
    _ended_s: float = 0.0

    def begin(self) -> None:
        self._ended_s = time.process_time()

    def evaluated(self, n_events: int, load: int, released_s: float) -> None:
        del released_s
        now_s = time.process_time()
        if n_events:
            self.steps.append((n_events, load, now_s - self._ended_s))
        self._ended_s = now_s

    def dropped(self, load: int) -> None:
        del load


def main(arguments: list[str]) -> int:
    """Measure; returns the exit code."""
    measured, shedder = _steps(size("NODES", 1_000), size("MINUTES", 30))
    n_events, load, seconds = (np.array(column, np.float64) for column in zip(*measured.steps, strict=True))
    event_s, kept_s = _fitted(n_events, load, seconds)
    dropped_s = _dropping(shedder)
    predicted = n_events * (event_s + kept_s * load)
    show(
        "the machine",
        ("what", "value"),
        [
            ["steps", len(seconds)],
            ["events", int(n_events.sum())],
            ["largest load", int(load.max())],
            ["us per event", round(1e6 * event_s, 4)],
            ["ns per event and kept", round(1e9 * kept_s, 6)],
            ["ns per kept, to drop", round(1e9 * dropped_s, 3)],
            ["share of time by load at the end", round(float((kept_s * load / (event_s + kept_s * load))[-1]), 3)],
            ["error of the whole time", round(float(predicted.sum() / seconds.sum() - 1), 3)],
        ],
    )  # fmt: skip
    if "--write" in arguments:
        costs = {"event_s": event_s, "kept_s": kept_s, "dropped_s": dropped_s}
        text = json.dumps({name: float(f"{value:.3g}") for name, value in costs.items()}, indent=2)
        COSTS.write_text(text + "\n", encoding="utf-8")
    return 0


def _steps(n_nodes: int, minutes: int) -> tuple[_Measured, RunShedder]:
    queries = checked_queries(load_settings(ROOT / "config.yaml", {})).compiled
    measured = _Measured()
    made: list[RunShedder] = []

    def control(known: Any) -> OverloadControl:
        made.append(RunShedder(known, clock=time.process_time))
        bound = Bound(1e6, 0.0, STEP_S / 1e6)
        return OverloadControl(OverloadDetector(bound), made[0], time.process_time, works=measured)

    engine = Engine(queries, SCHEMA, limits=Limits(possibilities=True), overload=control)
    for batch, watermark_ms in HadoopStream(Cluster(n_nodes=n_nodes, length_ms=minutes * 60_000)):
        measured.begin()
        engine.process(batch, watermark_ms)
    made[0].attach(engine._runtimes)
    return measured, made[0]


def _fitted(n_events: Float64Array, load: Float64Array, seconds: Float64Array) -> tuple[float, float]:
    """Seconds = events * (a + b load), least squares of the time per event, neither below 0."""
    weights = np.sqrt(n_events)
    table = np.column_stack([np.ones_like(load), load / load.max()]) * weights[:, None]
    each = seconds / n_events * weights
    (event_s, at_most_s), *_ = np.linalg.lstsq(table, each)
    if min(event_s, at_most_s) < 0:
        raise SystemExit("the time of an event does not grow with what is kept: measure on a quiet machine, for longer")
    return float(event_s), float(at_most_s / load.max())


def _dropping(shedder: RunShedder) -> float:
    """Seconds to drop one of what is kept, of all that is."""
    began_s, load = time.process_time(), shedder.load
    shedder.drop(1, 0)
    return (time.process_time() - began_s) / max(1, load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
