"""The cost model of the simulated machine (`clustercep demo --overload`): measured here, committed there.

    python -m benchmarks.shedding.machine           measure and print
    python -m benchmarks.shedding.machine --write   and store it as app/replay/machine.json

What an event takes grows with the partial matches that it is offered to. Measured where it is offered to all of them:
pairs of events whose numbers are equal, one partition, windows of several lengths; processor time of one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from app.replay.machine import COSTS
from benchmarks.measure import scale, show
from engine import Engine, Limits, compile_query
from engine.compiled.query import CompiledQuery
from engine.events import AttributeType, EventBatch, EventSchema, Float64Array
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.overload.detector import Bound, OverloadDetector

SCHEMA = EventSchema.of({kind: {"x": AttributeType.INT} for kind in "AB"})
WINDOWS_MS = (100, 200, 400, 800, 1_600, 3_200)
STEP_EVENTS = 500
N_NUMBERS = 100_000
"""Few pairs are equal: what begins stays until its window ends."""


@dataclass
class _Measured:
    """Steps: events, load and seconds of processor time."""

    steps: list[tuple[int, int, float]] = field(default_factory=list)
    began_s: float = 0.0

    def evaluated(self, n_events: int, load: int, released_s: float) -> None:
        del released_s
        if n_events:
            self.steps.append((n_events, load, time.process_time() - self.began_s))

    def dropped(self, load: int) -> None:
        del load


def main(arguments: list[str]) -> int:
    """Measure; returns the exit code."""
    measured, dropped_s = [], []
    for window_ms in WINDOWS_MS:
        steps, drop_s = _of_window(window_ms, scale(60_000))
        measured += steps
        dropped_s.append(drop_s)
    n_events, load, seconds = (np.array(column, np.float64) for column in zip(*measured, strict=True))
    event_s, kept_s = _fitted(n_events, load, seconds)
    costs = {"event_s": event_s, "kept_s": kept_s, "dropped_s": float(np.median(dropped_s))}
    predicted = n_events * (event_s + kept_s * load)
    rows = [[name, f"{value:.3g}"] for name, value in costs.items()]
    rows += [["largest load", f"{load.max():,.0f}"], ["error of all", f"{predicted.sum() / seconds.sum() - 1:+.1%}"]]
    show("the machine", ("what", "value"), rows)
    if "--write" in arguments:
        text = json.dumps({name: float(f"{value:.3g}") for name, value in costs.items()}, indent=2)
        COSTS.write_text(text + "\n", encoding="utf-8")
    return 0


def _of_window(window_ms: int, n: int) -> tuple[list[tuple[int, int, float]], float]:
    """Steps beside about half as many partial matches as the window has ms; seconds to drop, for each."""
    text = f"PATTERN SEQ(A a, B b) WHERE skip_till_next_match {{ b.x = a.x }} WITHIN {window_ms} ms"
    measured, made = _Measured(), []

    def control(known: Mapping[str, CompiledQuery]) -> OverloadControl:
        never = Sampling(first_every=1 << 40, n_first=0, every=1 << 40)
        made.append(RunShedder(known, clock=time.process_time, sampling=never))
        return OverloadControl(OverloadDetector(Bound(1e6, 0.0)), made[0], time.process_time, works=measured)

    engine = Engine([compile_query(text, SCHEMA, name="q")], SCHEMA, limits=Limits(merge_runs=False), overload=control)
    stream = _stream(n)
    for start in range(0, n, STEP_EVENTS):
        batch = EventBatch(stream.table.slice(start, STEP_EVENTS))
        measured.began_s = time.process_time()
        engine.process(batch, int(batch.t_lo_ms[-1]) + 1)
    n_warm = 2 * window_ms // STEP_EVENTS + 5
    return measured.steps[n_warm:], _dropping(made[0], int(stream.t_lo_ms[-1]))


def _stream(n: int) -> EventBatch:
    random = np.random.default_rng(1)
    kinds, x = random.choice(list("AB"), n).tolist(), random.integers(0, N_NUMBERS, n).tolist()
    rows = [{"event_id": str(i), "type": kinds[i], "t_lo_ms": i, "x": x[i]} for i in range(n)]
    return EventBatch.from_rows(rows, SCHEMA)


def _fitted(n_events: Float64Array, load: Float64Array, seconds: Float64Array) -> tuple[float, float]:
    """Seconds = events * (a + b load), least squares of the time per event."""
    weights = np.sqrt(n_events)
    table = np.column_stack([np.ones_like(load), load / load.max()]) * weights[:, None]
    (event_s, at_most_s), *_ = np.linalg.lstsq(table, seconds / n_events * weights)
    if min(event_s, at_most_s) <= 0:
        raise SystemExit("the time of an event does not grow with what is kept: measure on a quiet machine, for longer")
    return float(event_s), float(at_most_s / load.max())


def _dropping(shedder: RunShedder, now_ms: int) -> float:
    """Seconds to find and drop the half of least use, for each that is kept."""
    shedder.drop(1, now_ms)
    began_s, load = time.process_time(), shedder.load
    shedder.drop(load // 2, now_ms)
    return (time.process_time() - began_s) / max(1, load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
