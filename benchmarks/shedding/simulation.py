"""An engine under load on a simulated clock.

The clock reads what the engine has done so far from its own counters. Runs are not merged: the papers' systems do not,
and a merged run costs as one whatever it stands for, so that there would be nothing to shed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.shedding.workload import Shape
from engine import Engine, Limits, compile_query
from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, EventBatch, Float64Array
from engine.matching.output.rows import MatchRow
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.event_shedder import EventShedder, EventStrategy
from engine.runtime.shedding.event_training import EventTraining, Judged
from engine.runtime.shedding.run_shedder import RunShedder, RunStrategy
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.overload.detector import Bound, OverloadDetector
from engine.stream.columns import StreamColumns

BOUND = Bound(1.0, 0.2)
THROUGHPUT_PER_S = 400.0
"""Events a second of the simulated machine at 100 %: latencies are in its seconds."""
EVENT_OFFERS = 1.0
"""An event costs as much as so many offers to a run, beside those: partial matches are most of the work, as in the
papers' systems. (Here an event costs more: then less of the work can be shed by dropping runs.)"""

Strategy = RunStrategy | EventStrategy


class CountingEngine(Engine):
    """Counts what it does."""

    n_evaluated = 0

    def _step(self, stream: StreamColumns, watermark_ms: int) -> dict[str, Sequence[MatchRow]]:
        rows = super()._step(stream, watermark_ms)
        self.n_evaluated += len(stream)
        return rows

    @property
    def work(self) -> float:
        """What was done, in offers to runs."""
        runtimes: Any = self._runtimes.values()
        return EVENT_OFFERS * self.n_evaluated + float(sum(runtime.n_offered for runtime in runtimes))


@dataclass
class SimulatedClock:
    """Seconds waited and worked."""

    offer_s: float
    idle_s: float = 0.0
    engine: CountingEngine | None = None

    def __call__(self) -> float:
        return self.idle_s + self.offer_s * (self.engine.work if self.engine is not None else 0.0)


@dataclass(frozen=True)
class Unshed:
    """A stream without shedding: its matches, by event ids; the share of partial matches that complete; offers an
    event costs on average."""

    matches: Counter[tuple[str, ...]]
    match_probability: float
    cost: float


def unshed(shape: Shape, stream: EventBatch) -> Unshed:
    """Evaluate all of it."""
    engine = CountingEngine(_compiled(shape), shape.schema, limits=Limits(merge_runs=False))
    matches = Counter(tuple(row.event_ids) for row in engine.process(stream, FOREVER_MS))
    n_starts = _n_starts(shape, stream)
    return Unshed(matches, matches.total() / max(1, n_starts), engine.work / len(stream))


def _n_starts(shape: Shape, stream: EventBatch) -> int:
    """Partial matches that are opened: one by each event that begins the pattern."""
    column, least = shape.start
    return int(np.count_nonzero(stream.of_types(shape.starts).table.column(column).to_numpy() >= least))


def shed(shape: Shape, stream: EventBatch, known: Unshed, strategy: Strategy, rate: float, seed: int) -> dict[str, Any]:
    """A row of figures: the second half of the stream comes at `rate`, the first one at 80 %, to learn from."""
    offer_s = 1.0 / (THROUGHPUT_PER_S * known.cost)
    clock = SimulatedClock(offer_s)
    half = len(stream) // 2
    compiled = _compiled(shape)

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        runs = strategy if isinstance(strategy, RunStrategy) else RunStrategy.PSPICE
        shedder = RunShedder(
            queries, strategy=runs, sampling=Sampling(first_every=1, n_again=150), clock=clock, seed=seed
        )
        events = None if isinstance(strategy, RunStrategy) else _trained(shape, queries, stream, half, strategy, seed)
        return OverloadControl(OverloadDetector(BOUND), shedder, clock, events=events, least_events=8)

    engine = CountingEngine(compiled, shape.schema, limits=Limits(merge_runs=False), overload=control)
    clock.engine = engine
    arrivals = np.cumsum(np.where(np.arange(len(stream)) < half, 1 / 0.8, 1 / rate)) / THROUGHPUT_PER_S
    found, latencies = _drive(engine, clock, stream, arrivals)
    before = set(stream.table.column("event_id").slice(0, half).to_pylist())
    late = Counter({ids: n for ids, n in known.matches.items() if ids[-1] not in before})
    told = Counter({ids: n for ids, n in found.items() if ids[-1] not in before})
    assert engine.overload is not None
    losses = engine.overload.shedder.loss.values()
    events = engine.overload.events
    return {
        "dataset": shape.dataset,
        "shape": shape.name,
        "query": shape.texts[0],
        "rate": rate,
        "match_probability": round(known.match_probability, 4),
        "strategy": strategy.value,
        "pane": shape.pane_events if strategy is EventStrategy.GSPICE_H else None,
        "cost_factor": 1,
        "weight": 1.0,
        "seed": seed,
        "fn": (late - told).total() / max(1, late.total()),
        "fp": (told - late).total() / max(1, late.total()),
        "dropped": _dropped(events, sum(lost.n_runs for lost in losses), stream, shape),
        "bound_ms": 1_000 * BOUND.latency_s,
        "latency_max_ms": 1_000 * float(latencies.max()),
        "latency_p999_ms": 1_000 * float(np.quantile(latencies, 0.999)),
        "matches": late.total(),
        "expected_loss": sum(lost.expected_matches for lost in losses) / max(1, late.total()),
    }


def _dropped(events: EventShedder | None, n_runs: int, stream: EventBatch, shape: Shape) -> float:
    """Share of the events, or of the partial matches, of the overloaded half."""
    if events is not None:
        return 2 * events.n_dropped / max(1, events.n_seen)
    return 2 * n_runs / max(1, _n_starts(shape, stream))


def _trained(
    shape: Shape,
    queries: Mapping[str, CompiledQuery],
    stream: EventBatch,
    half: int,
    strategy: EventStrategy,
    seed: int,
) -> EventShedder:
    first = EventBatch(stream.table.slice(0, half))
    training = EventTraining(Judged(shape.types, shape.attributes, shape.pane_events), queries)
    engine = Engine(list(queries.values()), shape.schema, limits=Limits(merge_runs=False))
    training.take(first, engine.process(first, FOREVER_MS))
    return training.trained(strategy, seed)


def _drive(
    engine: CountingEngine, clock: SimulatedClock, stream: EventBatch, arrivals_s: Float64Array
) -> tuple[Counter[tuple[str, ...]], Float64Array]:
    """Matches, and the latency of each event."""
    assert engine.overload is not None
    found: Counter[tuple[str, ...]] = Counter()
    latencies = np.empty(len(stream))
    t_ms, start = stream.t_lo_ms, 0
    while start < len(stream):
        clock.idle_s += max(0.0, arrivals_s[start] - clock())
        end = max(start + 1, int(np.searchsorted(arrivals_s, clock(), "right")))
        end = min(end, start + engine.overload.detector.step_size(engine.overload.shedder.n_runs, 200))
        end = int(np.searchsorted(t_ms, t_ms[end - 1], "right"))
        batch = EventBatch(stream.table.slice(start, end - start))
        watermark_ms = int(t_ms[end]) if end < len(stream) else int(t_ms[-1]) + 1
        rows = engine.process(batch, watermark_ms, released_s=arrivals_s[start:end].tolist())
        found.update(tuple(row.event_ids) for row in rows)
        latencies[start:end] = clock() - arrivals_s[start:end]
        start = end
    found.update(tuple(row.event_ids) for row in engine.finish())
    return found, latencies


def _compiled(shape: Shape) -> list[CompiledQuery]:
    return [compile_query(text, shape.schema, name=f"q{number}") for number, text in enumerate(shape.texts)]


__all__ = ["BOUND", "Strategy", "Unshed", "shed", "unshed"]
