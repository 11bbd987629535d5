"""An engine under load on a simulated clock.

The clock reads what the engine has done so far from its own counters. Runs are not merged: the papers' systems do not,
and a merged run costs as one whatever it stands for, so that there would be nothing to shed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from benchmarks.shedding import windows
from benchmarks.shedding.ceilings import Ceiling, Machine, kept_at_most
from benchmarks.shedding.workload import EVENT_OFFERS, Shape
from engine import Engine, Limits, compile_query
from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, EventBatch, Float64Array
from engine.matching.output.match_row import MatchRow
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
POLL_S = 0.02
"""So long the machine waits for more events when none waits for it."""


class WindowStrategy(Enum):
    """Baselines that drop events from windows; see `windows`."""

    BY_TYPE = "e-bl of windows"
    ESPICE = "espice"


Control = Callable[[Mapping[str, CompiledQuery]], OverloadControl]
Strategy = RunStrategy | EventStrategy | WindowStrategy


class CountingEngine(Engine):
    """Counts what it does. `seconds`: of this machine, that its steps took."""

    n_evaluated = 0
    seconds = 0.0
    cost_factors: Mapping[str, float] = {}
    """By query: an offer to one of its runs costs so many times as much (1 where nothing is said)."""

    def _step(self, stream: StreamColumns, watermark_ms: int) -> dict[str, Sequence[MatchRow]]:
        began_s = time.perf_counter()
        rows = super()._step(stream, watermark_ms)
        self.seconds += time.perf_counter() - began_s
        self.n_evaluated += len(stream)
        return rows

    @property
    def work(self) -> float:
        """What was done, in offers to runs."""
        offers = sum(self.cost_factors.get(name, 1.0) * _n_offered(found) for name, found in self._runtimes.items())
        return EVENT_OFFERS * self.n_evaluated + float(offers)


def _n_offered(runtime: Any) -> int:
    parts = getattr(runtime, "branch_runtimes", None)  # asked at each look at the clock: not by the protocol
    return int(runtime.n_offered) if parts is None else sum(_n_offered(part) for part in parts)


class TimedRunShedder(RunShedder):
    """Counts seconds of this machine. `seconds`: to choose and drop. `build_s`: of the longest training."""

    seconds = 0.0
    build_s = 0.0

    def drop(self, n: int, now_ms: int) -> int:
        """See `RunShedder.drop`."""
        began_s = time.perf_counter()
        n_dropped = super().drop(n, now_ms)
        self.seconds += time.perf_counter() - began_s
        return n_dropped

    def learn(self, least: int | None = None) -> None:
        """See `RunShedder.learn`."""
        began_s = time.perf_counter()
        super().learn(least)
        self.build_s = max(self.build_s, time.perf_counter() - began_s)


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


def unshed(shape: Shape, stream: EventBatch, cost_factor: float = 1.0) -> Unshed:
    """Evaluate all of it."""
    engine = _engine(shape, cost_factor)
    matches = Counter(tuple(row.event_ids) for row in engine.process(stream, FOREVER_MS))
    n_starts = _n_starts(shape, stream)
    return Unshed(matches, matches.total() / max(1, n_starts), engine.work / len(stream))


def _n_starts(shape: Shape, stream: EventBatch) -> int:
    """Partial matches that are opened: one by each event that begins the pattern."""
    column, least = shape.start
    return int(np.count_nonzero(stream.of_types(shape.starts).table.column(column).to_numpy() >= least))


@dataclass(frozen=True)
class Load:
    """`rate`: of what the machine evaluates, from the half of the stream on; before that 80 %. `cost_factor`: an offer
    to runs of the first query costs so many times as much. `mixes`: partial matches are dropped where that loses less
    than events, see `OverloadControl.is_mixed`."""

    rate: float
    seed: int
    cost_factor: float = 1.0
    mixes: bool = False
    bound: Bound = BOUND


def halved(shape: Shape, stream: EventBatch, known: Unshed, load: Load) -> Bound:
    """Half of the average latency that the events of the second half have where nothing is shed."""
    clock = SimulatedClock(1.0 / (THROUGHPUT_PER_S * known.cost))

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        never = Sampling(first_every=1 << 40, n_first=0, every=1 << 40)
        shedder = RunShedder(queries, clock=clock, sampling=never)
        return OverloadControl(OverloadDetector(Bound(1e9, 0.0)), shedder, clock)

    clock.engine = _engine(shape, load.cost_factor, control)
    _, latencies = _drive(clock.engine, clock, stream, _arrivals(stream, load))
    bound_s = 0.5 * float(latencies[len(stream) // 2 :].mean())
    return Bound(bound_s, 0.2 * bound_s)


def _arrivals(stream: EventBatch, load: Load) -> Float64Array:
    at_rate = np.where(np.arange(len(stream)) < len(stream) // 2, 1 / 0.8, 1 / load.rate)
    return np.asarray(np.cumsum(at_rate) / THROUGHPUT_PER_S, np.float64)


def shed(shape: Shape, stream: EventBatch, known: Unshed, strategy: Strategy, load: Load) -> dict[str, Any]:
    """A row of figures: the second half of the stream comes at `rate`, the first one at 80 %, to learn from."""
    half = len(stream) // 2
    arrivals = _arrivals(stream, load)
    offer_s = 1.0 / (THROUGHPUT_PER_S * known.cost)
    if isinstance(strategy, WindowStrategy):
        came = _of_windows(shape, stream, strategy, arrivals, load)
    else:
        came = _of_engine(shape, stream, strategy, arrivals, offer_s, load)
    before = set(stream.table.column("event_id").slice(0, half).to_pylist())
    late = Counter({ids: n for ids, n in known.matches.items() if ids[-1] not in before})
    told = Counter({ids: n for ids, n in came.found.items() if ids[-1] not in before})
    n_lost, n_false = (late - told).total(), (told - late).total()
    return {
        **_row(shape, known, load, came.latencies_s),
        "strategy": f"{strategy.value} or pspice" if load.mixes else strategy.value,
        "pane": shape.pane_events if isinstance(strategy, EventStrategy) else None,
        "fn": n_lost / max(1, late.total()),
        "fp": n_false / max(1, late.total()),
        "fn_weighted": n_lost / max(1, late.total()),
        "fp_weighted": n_false / max(1, late.total()),
        "dropped": came.dropped,
        "overhead": came.overhead,
        "build_s": came.build_s,
        "matches": late.total(),
        "expected_loss": came.expected_loss / max(1, late.total()),
    }


def at_most(shape: Shape, stream: EventBatch, known: Unshed, ceiling: Ceiling, load: Load) -> dict[str, Any]:
    """A row as `shed` returns it, of what could be kept; nothing is said of what was dropped."""
    columns = windows.Stream.of(stream, shape.types, shape.attributes[0])
    machine = Machine(
        _arrivals(stream, load), 1.0 / (THROUGHPUT_PER_S * known.cost), len(stream) // 2, load.bound.latency_s
    )
    kept = kept_at_most(ceiling, shape.patterns, columns, machine)
    lost = 1.0 - kept.recall
    return {
        **_row(shape, known, load, kept.latencies_s),
        "strategy": ceiling.value,
        "pane": None,
        "fn": lost,
        "fp": 0.0,
        "fn_weighted": lost,
        "fp_weighted": 0.0,
        "dropped": None,
        "overhead": None,
        "build_s": None,
    }


def _row(shape: Shape, known: Unshed, load: Load, latencies_s: Float64Array) -> dict[str, Any]:
    """What all rows have."""
    return {
        "dataset": shape.dataset,
        "shape": shape.name,
        "query": shape.texts[0],
        "rate": load.rate,
        "match_probability": round(known.match_probability, 4),
        "cost_factor": load.cost_factor,
        "weight": 1.0,
        "seed": load.seed,
        "bound_ms": 1_000 * load.bound.latency_s,
        "latency_max_ms": 1_000 * float(latencies_s.max()),
        "latency_p999_ms": 1_000 * float(np.quantile(latencies_s, 0.999)),
    }


@dataclass(frozen=True)
class _Came:
    """What became of a stream. `overhead`: seconds of this machine that shedding took of all that evaluation took,
    where the engine evaluated (of windows: the share of work that decisions were). `build_s`: of this machine, for the
    model, where there is one before the stream."""

    found: Counter[tuple[str, ...]]
    latencies_s: Float64Array
    dropped: float
    overhead: float | None
    build_s: float | None
    expected_loss: float


def _of_engine(
    shape: Shape, stream: EventBatch, strategy: Strategy, arrivals_s: Float64Array, offer_s: float, load: Load
) -> _Came:
    clock = SimulatedClock(offer_s)
    half = len(stream) // 2
    build_s = None
    trained = None
    if isinstance(strategy, EventStrategy):
        training = _training(shape, stream, half)
        began_s = time.perf_counter()
        trained = training.trained(strategy, load.seed)
        build_s = time.perf_counter() - began_s

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        runs = strategy if isinstance(strategy, RunStrategy) else RunStrategy.PSPICE
        shedder = TimedRunShedder(
            queries, strategy=runs, sampling=Sampling(first_every=1, n_again=150), clock=clock, seed=load.seed
        )
        detector = OverloadDetector(load.bound)
        return OverloadControl(detector, shedder, clock, events=trained, is_mixed=load.mixes, least_events=8)

    engine = _engine(shape, load.cost_factor, control)
    clock.engine = engine
    found, latencies = _drive(engine, clock, stream, arrivals_s)
    assert engine.overload is not None
    shedder = engine.overload.shedder
    assert isinstance(shedder, TimedRunShedder)
    losses = shedder.loss.values()
    return _Came(
        found,
        latencies,
        _dropped(trained, sum(lost.n_runs for lost in losses), stream, shape),
        shedder.seconds / max(1e-9, engine.seconds) if isinstance(strategy, RunStrategy) else None,
        shedder.build_s if isinstance(strategy, RunStrategy) else build_s,
        sum(lost.expected_matches for lost in losses),
    )


def _of_windows(
    shape: Shape,
    stream: EventBatch,
    strategy: WindowStrategy,
    arrivals_s: Float64Array,
    load: Load,
) -> _Came:
    """At 100 % the machine evaluates what this operator does: it gives up a window that a negated event ends, where the
    engine looks when its match is decided."""
    columns = windows.Stream.of(stream, shape.types, shape.attributes[0])
    half, random = len(stream) // 2, np.random.default_rng(load.seed)
    began_s = time.perf_counter()
    shedder: windows.PositionUtilities | windows.TypeSampling
    if strategy is WindowStrategy.ESPICE:
        shedder = windows.PositionUtilities(len(shape.types), random)
        shedder.train(shape.patterns, columns, half)
    else:
        shedder = windows.TypeSampling(shape.patterns, columns, len(shape.types), random)
    build_s = time.perf_counter() - began_s
    offer_s = 1.0 / (THROUGHPUT_PER_S * windows.cost(shape.patterns, columns))
    driven = windows.drive(shape.patterns, columns, shedder, arrivals_s, offer_s, OverloadDetector(load.bound))
    found = Counter(tuple(columns.ids[event] for event in chosen) for chosen in driven.matches)
    dropped = 2 * driven.n_dropped / max(1, driven.n_looks)
    return _Came(found, driven.latencies_s, dropped, driven.overhead, build_s, 0.0)


def _dropped(events: EventShedder | None, n_runs: int, stream: EventBatch, shape: Shape) -> float:
    """Share of the events, or of the partial matches, of the overloaded half."""
    if events is not None:
        return 2 * events.n_dropped / max(1, events.n_seen)
    return 2 * n_runs / max(1, _n_starts(shape, stream))


def _training(shape: Shape, stream: EventBatch, half: int) -> EventTraining:
    first = EventBatch(stream.table.slice(0, half))
    queries = {query.name: query for query in _compiled(shape)}
    training = EventTraining(Judged(shape.types, shape.attributes, shape.pane_events), queries)
    engine = Engine(list(queries.values()), shape.schema, limits=Limits(merge_runs=False))
    training.take(first, engine.process(first, FOREVER_MS))
    return training


def _engine(shape: Shape, cost_factor: float, control: Control | None = None) -> CountingEngine:
    engine = CountingEngine(_compiled(shape), shape.schema, limits=Limits(merge_runs=False), overload=control)
    engine.cost_factors = {"q0": cost_factor}
    return engine


def _drive(
    engine: CountingEngine, clock: SimulatedClock, stream: EventBatch, arrivals_s: Float64Array
) -> tuple[Counter[tuple[str, ...]], Float64Array]:
    """Matches, and the latency of each event. Where none waits, what comes within `POLL_S` is taken together."""
    assert engine.overload is not None
    found: Counter[tuple[str, ...]] = Counter()
    latencies = np.empty(len(stream))
    t_ms, start = stream.t_lo_ms, 0
    while start < len(stream):
        clock.idle_s += max(0.0, arrivals_s[start] + POLL_S - clock())
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


__all__ = ["BOUND", "Load", "Strategy", "Unshed", "WindowStrategy", "at_most", "halved", "shed", "unshed"]
