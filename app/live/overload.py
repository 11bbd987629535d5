"""The latency bound of the live engine: since when events could have been evaluated, what a step may take in, and what
was dropped, for the log, the store and the pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import structlog

import engine
from app.shedding.losses import NOTHING, Lost, OverloadOf, lost_by, overload_of, whole_ms
from app.store.writing.problems import NewProblem
from engine.events import Int64Array

log = structlog.get_logger(__name__)

SOURCE = "engine"
STEP_SHARE = 0.5
"""A step of the pipeline takes in what should be evaluated within such a share of the bound: its events are looked at,
and their alerts stored, before the next come."""
_MOST_LEVELS = 10_000
TOLD_EVERY_S = 60.0
"""The log says what was dropped, or that the bound cannot be met, so often at most: overload comes and goes."""


class ReleaseTimes:
    """When the watermark came to which time of the stream, on a clock that nobody sets.

    What waits for the watermark waits for no machine; from then on it does.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._levels_ms: deque[int] = deque(maxlen=_MOST_LEVELS)
        self._passed_s: deque[float] = deque(maxlen=_MOST_LEVELS)

    def passed(self, watermark_ms: int, at_s: float | None = None) -> None:
        """The watermark stands there, by what came at this time (None: now); nothing new where it stood before."""
        at_s = self.clock() if at_s is None else at_s
        if not self._levels_ms or watermark_ms > self._levels_ms[-1]:
            self._levels_ms.append(watermark_ms)
            self._passed_s.append(max(at_s, self._passed_s[-1]) if self._passed_s else at_s)

    def of(self, t_lo_ms: Int64Array) -> Sequence[float]:
        """When events of these times, ascending, were released; now for those that the watermark has not passed."""
        places = np.searchsorted(np.array(self._levels_ms, np.int64), t_lo_ms, side="right")
        times: list[float] = np.append(np.array(self._passed_s, np.float64), self.clock())[places].tolist()
        return times

    def go_back(self) -> None:
        """The watermark was ahead of time: what is released from now on is released anew."""
        self._levels_ms.clear()
        self._passed_s.clear()


@dataclass
class LatencyBound:
    """Holds `engine.latency_bound` over the steps of one live path."""

    latency_ms: int
    times: ReleaseTimes
    works: engine.Works | None = None
    """Is told what the engine does, where the clock of `times` is simulated."""
    model: engine.SheddingModel | None = None
    """What was learned from a history."""
    _told: dict[str, Lost] = field(default_factory=dict)
    """By query: what was dropped when the log was told last."""
    _told_s: dict[str, float] = field(default_factory=dict)
    """By query: when that was."""
    _told_events: Mapping[str, int] = field(default_factory=dict)
    """By type: events that were dropped when the log was told last."""
    _told_events_s: float | None = None
    _warned_s: float | None = None
    """When the log was told that the bound cannot be met."""

    @property
    def control(self) -> OverloadOf:
        """For `engine.Engine`."""
        return engine.latency_bound(self.latency_ms / 1000, self.times.clock, self.times.of, self.works, self.model)

    def most_events(self, matcher: object, most: int) -> int:
        """That the next step takes in."""
        control = overload_of(matcher)
        if control is None:
            return most
        seconds = STEP_SHARE * self.latency_ms / 1000
        return max(control.detector.affordable(seconds, control.shedder.load, most), control.least_events)

    def begin(self, matcher: object) -> None:
        """What this matcher has dropped before was told then."""
        self._told, self._told_events = lost_by(matcher), {}

    def tell(self, matcher: object) -> list[NewProblem]:
        """After a step: tell the log what was dropped of each query, at once and then every so often. Returns the same
        as problems, one for each query of which something was dropped."""
        control = overload_of(matcher)
        if control is None:
            return []
        now_s = self.times.clock()
        self._tell_whether_achievable(control, now_s)
        problems = self._tell_events(control, now_s)
        for name, lost in lost_by(matcher).items():
            since = lost.since(self._told.get(name, NOTHING))
            if since.n_dropped > 0 and now_s - self._told_s.get(name, -TOLD_EVERY_S) >= TOLD_EVERY_S:
                problems.append(self._tell(name, since, control.statistics.latency_s))
                self._told[name], self._told_s[name] = lost, now_s
        return problems

    def _tell(self, query: str, since: Lost, latency_s: float) -> NewProblem:
        log.warning(
            "load is shed to hold engine.latency_bound",
            query=query,
            dropped_partial_matches=round(since.n_partial_matches),
            expected_matches=round(since.expected_matches, 1),
            without_estimate=round(since.n_unvalued),
            dropped_events=since.n_events,
            latency_ms=round(1000 * latency_s),
            bound_ms=self.latency_ms,
        )
        return NewProblem(SOURCE, f"query {query}", "load_shed", since.told(self.latency_ms))

    def _tell_events(self, control: engine.OverloadControl, now_s: float) -> list[NewProblem]:
        """Events that were dropped before any query had them."""
        dropped = {} if control.events is None else control.events.dropped
        told = self._told_events
        if any(n > dropped.get(name, 0) for name, n in told.items()):  # another matcher, which began anew
            told = {}
        since = {name: n - told.get(name, 0) for name, n in dropped.items()}
        if not any(since.values()) or (
            self._told_events_s is not None and now_s - self._told_events_s < TOLD_EVERY_S
        ):  # fmt: skip
            return []
        self._told_events, self._told_events_s = dropped, now_s
        named = ", ".join(f"{name} {n:,}" for name, n in sorted(since.items(), key=lambda each: -each[1]) if n)
        log.warning("events are dropped to hold engine.latency_bound", dropped=named, bound_ms=self.latency_ms)
        expected = 0.0 if control.events is None else control.events.expected_loss
        message = (
            f"{sum(since.values()):,} events ({named}) dropped before any query had them, to hold "
            f"engine.latency_bound ({self.latency_ms} ms): events like all that were dropped so far contributed to "
            f"about {expected:,.1f} matches, which may be missing"
        )
        return [NewProblem(SOURCE, "events", "load_shed", message)]

    def _tell_whether_achievable(self, control: engine.OverloadControl, now_s: float) -> None:
        achievable_s = control.statistics.achievable_s
        if achievable_s is not None and (self._warned_s is None or now_s - self._warned_s >= TOLD_EVERY_S):
            log.warning(
                "engine.latency_bound cannot be met with everything dropped that can be",
                bound_ms=self.latency_ms,
                achievable_ms=whole_ms(1000 * achievable_s),
                exempt=sorted(control.shedder.exempt),
            )
            self._warned_s = now_s


__all__ = [
    "LatencyBound",
    "ReleaseTimes",
]
