"""An engine under load on a simulated clock: events arrive at a rate, work takes what a cost model says.

The clock reads what the engine has done so far, from its own counters, and what it waited: the same on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine import Engine, Limits, MatchRow, compile_query
from engine.compiled.query import CompiledQuery
from engine.events import AttributeType, EventBatch, EventSchema, Float64Array
from engine.matching.shedding import KeepsRuns
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder, RunStrategy
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.overload.detector import Bound, OverloadDetector

SCHEMA = EventSchema.of({name: {"x": AttributeType.INT, "k": AttributeType.INT} for name in "ABC"})


@dataclass(frozen=True)
class CostModel:
    """Seconds for an event, and for offering one to a run."""

    per_event_s: float = 2e-4
    per_offer_s: float = 4e-5


@dataclass
class SimulatedClock:
    """Seconds waited and worked."""

    costs: CostModel
    idle_s: float = 0.0
    engine: Engine | None = None

    @property
    def worked_s(self) -> float:
        """What the engine has done so far takes."""
        if self.engine is None:
            return 0.0
        n_events = sum(found.n_events for found in self.engine.statistics.values())
        n_offers = sum(getattr(runtime, "n_offered", 0) for runtime in self.engine._runtimes.values())
        return self.costs.per_event_s * n_events + self.costs.per_offer_s * n_offers

    def __call__(self) -> float:
        return self.idle_s + self.worked_s


@dataclass
class Driven:
    """What came of a stream: rows, and the latency of each event in seconds, float64 (n,)."""

    rows: list[MatchRow] = field(default_factory=list)
    latencies_s: Float64Array = field(default_factory=lambda: np.empty(0))
    engine: Engine | None = None


def controlled(
    texts: Mapping[str, str],
    bound: Bound | None,
    *,
    strategy: RunStrategy = RunStrategy.PSPICE,
    costs: CostModel | None = None,
    merge_runs: bool = False,
    threads: int = 1,
    sampling: Sampling | None = None,
) -> tuple[Engine, SimulatedClock]:
    """An engine with these queries, and its clock; no bound: not controlled."""
    queries = [compile_query(text, SCHEMA, name=name) for name, text in texts.items()]
    clock = SimulatedClock(costs or CostModel())

    def control(known: Mapping[str, CompiledQuery]) -> OverloadControl:
        assert bound is not None
        shedder = RunShedder(
            known, strategy=strategy, sampling=sampling or Sampling(first_every=4, n_again=300), clock=clock
        )
        return OverloadControl(OverloadDetector(bound), shedder, clock, least_events=4)

    engine = Engine(
        queries, SCHEMA, limits=Limits(merge_runs=merge_runs), overload=None if bound is None else control,
        threads=threads,
    )  # fmt: skip
    clock.engine = engine
    return engine, clock


def throughput(texts: Mapping[str, str], stream: EventBatch, costs: CostModel | None = None) -> float:
    """Events a second that the engine evaluates without a bound."""
    engine, clock = controlled(texts, None, costs=costs)
    engine.process(stream, int(stream.t_lo_ms[-1]) + 1)
    return len(stream) / clock.worked_s


def drive(engine: Engine, clock: SimulatedClock, stream: EventBatch, arrivals_s: Float64Array) -> Driven:
    """Events arrive at these times, ascending, and are released at once; as many as have arrived are given together."""
    driven = Driven(engine=engine)
    latencies = np.empty(len(stream))
    start = 0
    while start < len(stream):
        clock.idle_s += max(0.0, arrivals_s[start] - clock())
        end = max(start + 1, int(np.searchsorted(arrivals_s, clock(), "right")))
        # As much as a step may be: what arrives meanwhile is in the next one.
        size = len(stream)
        if engine.overload is not None:
            size = engine.overload.detector.step_size(engine.overload.shedder.n_runs, len(stream))
        end = min(end, start + size)
        batch = EventBatch(stream.table.slice(start, end - start))
        watermark_ms = int(stream.t_lo_ms[end]) if end < len(stream) else int(stream.t_lo_ms[-1]) + 1
        driven.rows += engine.process(batch, watermark_ms, released_s=arrivals_s[start:end].tolist())
        latencies[start:end] = clock() - arrivals_s[start:end]
        start = end
    driven.rows += engine.finish()
    driven.latencies_s = latencies
    return driven


def three_types(n: int, seed: int, shares: Sequence[float] = (1 / 3, 1 / 3, 1 / 3)) -> EventBatch:
    """Events of A, B and C at one per ms, x uniform over 1 to 10, k over 0 to 3."""
    random = np.random.default_rng(seed)
    kinds = random.choice(list("ABC"), n, p=list(shares))
    x, k = random.integers(1, 11, n), random.integers(0, 4, n)
    rows = [{"event_id": str(i), "type": str(kinds[i]), "t_lo_ms": i, "x": int(x[i]), "k": int(k[i])} for i in range(n)]
    return EventBatch.from_rows(rows, SCHEMA)


def run_parts(engine: Engine) -> list[KeepsRuns]:
    """The runtimes of an engine that keep runs."""
    return [part for runtime in engine._runtimes.values() if isinstance(part := runtime, KeepsRuns)]


__all__ = ["SCHEMA", "CostModel", "Driven", "SimulatedClock", "controlled", "drive", "run_parts", "three_types",
           "throughput"]  # fmt: skip
