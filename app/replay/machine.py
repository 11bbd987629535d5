"""A machine that is simulated: a clock that goes on by the work that matching does, by a cost model that was measured.

So a replay under load decides the same on any machine: what is dropped, how long events waited, what is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CLUSTERS = 100
"""Like the recorded one, which it watches: a single small one keeps so little that what is kept costs next to nothing,
and dropping it gains nothing. All do the same at the same time; an event of one stands beside what all of them keep."""

COSTS = Path(__file__).with_name("machine.json")
"""Measured by `python -m benchmarks.shedding.machine`."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds: of an event by itself, of an event beside each partial match and kept event, and to look for what is
    least useful among them, for each."""

    event_s: float
    kept_s: float
    dropped_s: float

    @classmethod
    def stored(cls) -> Costs:
        """The committed ones."""
        found: dict[str, Any] = json.loads(COSTS.read_text(encoding="utf-8"))
        return cls(**{name: float(found[name]) for name in ("event_s", "kept_s", "dropped_s")})


@dataclass(frozen=True, slots=True)
class Step:
    """Events of one step: how many, beside how much that was kept, when the first was released, and when it ended."""

    n_events: int
    load: int
    released_s: float
    ended_s: float

    @property
    def latency_s(self) -> float:
        """Of the event that waited longest."""
        return self.ended_s - self.released_s


@dataclass
class SimulatedMachine:
    """An `engine.Works`, and its clock.

    `speed`: the recording's time goes so many times as fast as the machine's; None: the machine waits for nothing, and
    nothing waits for it.
    """

    costs: Costs
    speed: float | None = None
    n_clusters: int = CLUSTERS
    worked_s: float = 0.0
    idle_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    arrivals: list[tuple[float, float]] = field(default_factory=list)
    """When each poll came by the recording's time, seconds since its start, and how long the machine had worked."""
    _arrives_s: float | None = None

    def __call__(self) -> float:
        """Seconds; while events arrive the time of their arrival, which may lie behind what the machine is at."""
        return self.worked_s + self.idle_s if self._arrives_s is None else self._arrives_s

    @contextmanager
    def arrival(self, elapsed_s: float) -> Iterator[None]:
        """What comes in the block came so long after the recording's start; an idle machine waits for it."""
        self.arrivals.append((elapsed_s, self.worked_s))
        if self.speed is None:
            yield
            return
        arrives_s = elapsed_s / self.speed
        self._arrives_s = arrives_s
        try:
            yield
        finally:
            self._arrives_s = None
        self.idle_s += max(0.0, arrives_s - self())

    def evaluated(self, n_events: int, load: int, released_s: float) -> None:
        """See `engine.Works`."""
        kept_s = self.costs.kept_s * self.n_clusters * load
        self.worked_s += self.n_clusters * n_events * (self.costs.event_s + kept_s)
        if n_events:
            self.steps.append(Step(n_events, load, released_s, self()))

    def dropped(self, load: int) -> None:
        """See `engine.Works`."""
        self.worked_s += self.costs.dropped_s * self.n_clusters * load

    @property
    def n_events(self) -> int:
        """Evaluated so far, of all clusters."""
        return self.n_clusters * sum(step.n_events for step in self.steps)

    @property
    def longest_s(self) -> float:
        """The longest latency of any event so far."""
        return max((step.latency_s for step in self.steps), default=0.0)

    def latency_s(self, share: float) -> float:
        """So long did this share of the events wait and take at most; those of a step as long as its first."""
        if not self.steps:
            return 0.0
        latencies = np.array([step.latency_s for step in self.steps])
        return float(
            np.quantile(latencies, share, method="inverted_cdf", weights=np.array([s.n_events for s in self.steps]))
        )

    def longest_without_shedding_s(self, speed: float) -> float:
        """The longest latency that a queue of all this work has, had it come so many times as fast as it happened: of
        a machine that drops nothing and takes polls in their order."""
        ended_s, longest_s = 0.0, 0.0
        works = [*(worked_s for _, worked_s in self.arrivals[1:]), self.worked_s]
        for (elapsed_s, before_s), after_s in zip(self.arrivals, works, strict=True):
            arrives_s = elapsed_s / speed
            ended_s = max(ended_s, arrives_s) + after_s - before_s
            if after_s > before_s:
                longest_s = max(longest_s, ended_s - arrives_s)
        return longest_s


__all__ = ["Costs", "SimulatedMachine", "Step"]
