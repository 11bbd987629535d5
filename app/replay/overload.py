"""The demo under overload: what a machine takes is measured first, then the recording comes faster than that.

The machine is simulated (`app.replay.machine`), so that the same is dropped and found whatever machine runs the demo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.alerting.recording.kept import is_shed
from app.errors import AppError
from app.live.assembly import checked_queries, open_configured_store, open_event_log
from app.replay.machine import Costs, SimulatedMachine
from app.settings import Settings
from app.shedding.model import trained_model, write_model
from app.store.api import MAX_ROWS, AlertFilter, Store
from app.store.status import OverloadFigures
from collectors.time_units import DAY_MS

MOST_TIMES = 1_000.0
INTERVALS = 4
"""The bound is the time in which so many polls come, unless the configuration has one: what a poll brings comes at
once, and has to fit into it."""
LEAST_BOUND_MS = 10


@dataclass(frozen=True)
class Capacity:
    """What the machine takes: the recording's seconds that it evaluates in one of its own, with nothing dropped."""

    measured: SimulatedMachine
    recorded_s: float

    @property
    def speed(self) -> float:
        """So many times as fast as it happened."""
        return self.recorded_s / self.measured.worked_s

    @property
    def events_per_s(self) -> float:
        """On average."""
        return self.measured.n_events / self.measured.worked_s


@dataclass(frozen=True)
class Load:
    """The recording, `times` as fast as the machine can take it, under a bound."""

    capacity: Capacity
    times: float
    bound_ms: int

    @classmethod
    def of(cls, capacity: Capacity, times: float, settings: Settings, poll_interval_ms: int) -> Load:
        """The configured bound, or one of `INTERVALS` polls."""
        bound_ms = settings.engine.latency_bound_ms
        if bound_ms is None:
            bound_ms = max(LEAST_BOUND_MS, round(INTERVALS * poll_interval_ms / (times * capacity.speed)))
        return cls(capacity, times, bound_ms)

    @property
    def speed(self) -> float:
        """The recording's seconds in one of the machine's."""
        return self.times * self.capacity.speed

    def machine(self) -> SimulatedMachine:
        """An idle one, at which this load will come."""
        return SimulatedMachine(self.capacity.measured.costs, self.speed)


def idle_machine() -> SimulatedMachine:
    """To measure what it takes."""
    return SimulatedMachine(Costs.stored())


def unbounded(settings: Settings) -> Settings:
    """Work is measured where there is a bound; this one nothing exceeds."""
    return bounded(settings, DAY_MS)


def bounded(settings: Settings, bound_ms: int, model: Path | None = None) -> Settings:
    """With this bound, and what was learned."""
    changes = {"latency_bound_ms": bound_ms, "shedding_model": model}
    return settings.model_copy(update={"engine": settings.engine.model_copy(update=changes)})


def learned_of(settings: Settings) -> Path:
    """A model of what the store of these settings has seen, beside it; the same on any machine: what offers cost here
    is no part of it."""
    path = settings.store.directory / "shedding-model.json"
    with open_configured_store(settings) as store:
        history = open_event_log(settings, store)
        write_model(path, trained_model(settings, checked_queries(settings), history, clock=lambda: 0.0))
    return path


def check_times(times: float) -> None:
    """Raises AppError for a load that means nothing."""
    if not 0 < times <= MOST_TIMES:
        raise AppError(
            f"--overload: found {times:g}; expected how many times what the machine takes, above 0 and at most "
            f"{MOST_TIMES:g}"
        )


def overload_summary(
    load: Load, machine: SimulatedMachine, store: Store, without: Mapping[str, Any], figures: OverloadFigures | None
) -> dict[str, Any]:
    """What `demo-summary.json` has below `overload`; `without`: the summary of the replay that dropped nothing."""
    capacity = load.capacity
    found: OverloadFigures = figures or OverloadFigures()
    return {
        "times": load.times,
        "machine": {**asdict(capacity.measured.costs), "n_clusters": machine.n_clusters},
        "events": machine.n_events,
        "capacity_events_per_s": round(capacity.events_per_s, 1),
        "released_events_per_s": round(load.times * capacity.events_per_s, 1),
        "speed": round(load.speed, 3),
        "bound_ms": load.bound_ms,
        "latency_max_ms": round(1_000 * machine.longest_s, 3),
        "latency_p999_ms": round(1_000 * machine.latency_s(0.999), 3),
        "latency_max_without_shedding_ms": round(1_000 * capacity.measured.longest_without_shedding_s(load.speed), 3),
        "strategy": found.get("strategy", ""),
        "n_steps": found.get("n_steps", 0),
        "n_shed_steps": found.get("n_shed_steps", 0),
        "dropped": {name: dict(lost) for name, lost in found.get("queries", {}).items()},
        "dropped_events": found.get("dropped_events", {}),
        "expected_event_loss": found.get("expected_event_loss", 0.0),
        "exempt": found.get("exempt", []),
        "marked": marked_alerts(store),
        "without_shedding": {name: without[name] for name in ("matches", "alerts", "reports", "ground_truth")},
    }


def marked_alerts(store: Store) -> dict[str, int]:
    """By query: alerts that may lack matches."""
    counts: dict[str, int] = {}
    for alert in store.alerts(AlertFilter(limit=MAX_ROWS)):
        if alert.merged_into is None and is_shed(alert):
            counts[alert.query] = counts.get(alert.query, 0) + 1
    return dict(sorted(counts.items()))


__all__ = [
    "Capacity",
    "Load",
    "bounded",
    "check_times",
    "idle_machine",
    "learned_of",
    "marked_alerts",
    "overload_summary",
    "unbounded",
]
