"""The papers' operator, for their baselines that drop events from windows: BL, E-BL and eSPICE.

A window is opened by each event that begins the pattern and is evaluated apart from all others; so an event may be
dropped from one window and seen in another, which an engine that keeps runs over one stream has no place for. Patterns
are sequences of single events with predicates of their own, one of which may be negated, under skip till next match:
a window has at most one match, the same one that the engine tells.

It costs what the engine's run costs: an event one unit, its look at a window another one; what no step of a pattern
accepts comes to none of its windows. The decision whether an event
is dropped from a window costs `DECISION_OFFERS` of that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.shedding.workload import EVENT_OFFERS, Pattern
from engine.events import EventBatch, Float64Array, Int64Array
from engine.shedding.events.by_type import TypeUtilities
from engine.shedding.events.threshold import Threshold, UtilityDistribution
from engine.shedding.overload.detector import OverloadDetector

DECISION_OFFERS = 0.03
"""About what the papers' shedders take beside the work of a window (E-BL: 3 % to 10 %)."""
N_POSITIONS = 50
_RECENT = 0.1
"""Time constant of what an event takes on average, as a share of the bound."""


@dataclass(frozen=True)
class Stream:
    """Columns: types by number int64 (n,), one attribute float64 (n,), times int64 (n,)."""

    kinds: Int64Array
    values: Float64Array
    t_ms: Int64Array
    ids: tuple[str, ...]

    @classmethod
    def of(cls, events: EventBatch, types: Sequence[str], attribute: str) -> Stream:
        """Of a batch of these types."""
        number = {name: place for place, name in enumerate(types)}
        kinds = np.array([number[kind] for kind in events.table.column("type").to_pylist()])
        values = np.asarray(events.table.column(attribute).to_numpy(), np.float64)
        return cls(kinds, values, events.t_lo_ms, tuple(events.table.column("event_id").to_pylist()))


@dataclass(slots=True)
class _Window:
    """One that is open: where its match has come to."""

    pattern: int
    opened: int
    until_ms: int
    at: int
    chosen: list[int]


@dataclass
class WindowOperator:
    """Evaluates event by event; `drops(kind, position, draw)`, where it is set, says of an event in a window (position:
    which of `N_POSITIONS` parts of the window it is in) whether it is dropped."""

    patterns: tuple[Pattern, ...]
    drops: Callable[[int, int], bool] | None = None
    work: float = 0.0
    n_looks: int = 0
    n_dropped: int = 0
    matches: list[tuple[int, ...]] = field(default_factory=list)
    looked: Callable[[_Window, int, int, int], None] | None = None
    """Is told of each look: the window, the event, its type and its position."""
    _open: list[_Window] = field(default_factory=list)

    def evaluate(self, event: int, kind: int, value: float, t_ms: int) -> None:
        """The next event of the stream."""
        self.work += EVENT_OFFERS
        kept: list[_Window] = []
        accepted = [
            any(kind == step.kind and value >= step.least for step in pattern.steps) for pattern in self.patterns
        ]
        for window in self._open:
            if t_ms > window.until_ms:
                continue
            if not accepted[window.pattern] or self._goes_on(window, event, kind, value, t_ms):
                kept.append(window)
        for number, pattern in enumerate(self.patterns):
            first = pattern.steps[0]
            if kind == first.kind and value >= first.least:
                kept.append(_Window(number, t_ms, t_ms + pattern.within_ms, 1, [event]))
        self._open = kept

    def _goes_on(self, window: _Window, event: int, kind: int, value: float, t_ms: int) -> bool:
        """Whether the window stays open after an event."""
        pattern = self.patterns[window.pattern]
        self.n_looks += 1
        position = min(N_POSITIONS - 1, (t_ms - window.opened) * N_POSITIONS // pattern.within_ms)
        if self.looked is not None:
            self.looked(window, event, kind, position)
        if self.drops is not None:
            self.work += DECISION_OFFERS
            if self.drops(kind, position):
                self.n_dropped += 1
                return True
        self.work += 1.0
        step = pattern.steps[window.at]
        if step.negated:
            if kind == step.kind and value >= step.least:
                return False
            step = pattern.steps[window.at + 1]
        if kind != step.kind or value < step.least:
            return True
        window.chosen.append(event)
        window.at += 2 if pattern.steps[window.at].negated else 1
        if window.at < len(pattern.steps):
            return True
        self.matches.append(tuple(window.chosen))
        return False


class PositionUtilities:
    """eSPICE: the utility of a type at a position of a window is the share of such events that became part of the
    window's match; the least useful are dropped, of those at the threshold as many as are needed."""

    def __init__(self, n_types: int, random: np.random.Generator) -> None:
        self._n = np.zeros((n_types, N_POSITIONS))
        self._contributed = np.zeros((n_types, N_POSITIONS))
        self._utility = np.zeros((n_types, N_POSITIONS))
        self._distribution = UtilityDistribution.of(np.empty(0), np.empty(0))
        self._threshold = Threshold(-np.inf, 0.0)
        self._random = random

    def train(self, patterns: tuple[Pattern, ...], stream: Stream, end: int) -> None:
        """Look at the events before `end` without shedding."""
        looks: dict[int, list[tuple[_Window, int, int]]] = {}

        def note(window: _Window, event: int, kind: int, position: int) -> None:
            looks.setdefault(event, []).append((window, kind, position))

        operator = WindowOperator(patterns, looked=note)
        for event in range(end):
            operator.evaluate(event, int(stream.kinds[event]), float(stream.values[event]), int(stream.t_ms[event]))
        for event, seen in looks.items():
            for window, kind, position in seen:
                self._n[kind, position] += 1
                is_whole = window.at >= len(patterns[window.pattern].steps)
                if is_whole and event in window.chosen:
                    self._contributed[kind, position] += 1
        self._utility = np.where(self._n > 0, self._contributed / np.maximum(self._n, 1), np.inf)
        self._distribution = UtilityDistribution.of(self._utility[self._n > 0], self._n[self._n > 0])

    def ask(self, share: float) -> None:
        """From now on this share is to be dropped."""
        self._threshold = self._distribution.threshold(share)

    def drops(self, kind: int, position: int) -> bool:
        """Whether an event of this type is dropped at this position of a window."""
        utility = self._utility[kind, position]
        if utility == self._threshold.utility:
            return bool(self._random.random() < self._threshold.share)
        return bool(utility < self._threshold.utility)


class TypeSampling:
    """BL and E-BL: a type is worth its repetition in patterns and windows; within a type events are dropped by
    chance."""

    def __init__(
        self, patterns: tuple[Pattern, ...], stream: Stream, n_types: int, random: np.random.Generator
    ) -> None:
        share = np.bincount(stream.kinds, minlength=n_types) / max(1, len(stream.kinds))
        in_patterns = np.zeros(n_types)
        for pattern in patterns:
            for step in pattern.steps:
                in_patterns[step.kind] += 1
        self._utilities = TypeUtilities(in_patterns * share, share)
        self._chance = np.zeros(n_types)
        self._random = random

    def ask(self, share: float) -> None:
        """From now on this share is to be dropped."""
        self._chance = self._utilities.drop_probability(share)

    def drops(self, kind: int, position: int) -> bool:
        """Whether an event of this type is dropped."""
        del position
        return bool(self._random.random() < self._chance[kind])


def evaluated(patterns: tuple[Pattern, ...], stream: Stream) -> WindowOperator:
    """An operator that has seen all of a stream, and dropped nothing."""
    operator = WindowOperator(patterns)
    for event in range(len(stream.kinds)):
        operator.evaluate(event, int(stream.kinds[event]), float(stream.values[event]), int(stream.t_ms[event]))
    return operator


def cost(patterns: tuple[Pattern, ...], stream: Stream) -> float:
    """What an event costs on average with nothing dropped."""
    return evaluated(patterns, stream).work / max(1, len(stream.kinds))


@dataclass
class Driven:
    """What a stream under load came to. `latencies_s` float64 (n,); `n_looks` and `n_dropped` of the overloaded part,
    `overhead`: the share of the work that decisions were."""

    matches: list[tuple[int, ...]]
    latencies_s: Float64Array
    n_looks: int
    n_dropped: int
    overhead: float


def drive(
    patterns: tuple[Pattern, ...],
    stream: Stream,
    shedder: PositionUtilities | TypeSampling,
    arrivals_s: Float64Array,
    offer_s: float,
    detector: OverloadDetector,
) -> Driven:
    """Events arrive at these times, one unit of work takes `offer_s`; the share to be dropped is what the detector asks
    for as it does of dropping events, before each tenth of the bound."""
    operator = WindowOperator(patterns)
    latencies = np.empty(len(arrivals_s))
    clock_s, planned_s, per_event_s = 0.0, 0.0, 0.0
    every_s, interval_s = 0.1 * detector.bound.latency_s, detector.bound.latency_s / 2
    lately: deque[float] = deque()
    n_decisions = 0
    for event, arrived_s in enumerate(arrivals_s.tolist()):
        clock_s = max(clock_s, arrived_s)
        lately.append(arrived_s)
        while arrived_s - lately[0] > detector.bound.latency_s / 2:
            lately.popleft()
        if clock_s >= planned_s:
            planned_s = clock_s + every_s
            elapsed_s = arrived_s - lately[0]
            per_s = (len(lately) - 1) / elapsed_s if elapsed_s > 0 else 0.0
            deciding_s = DECISION_OFFERS * per_event_s
            plan = detector.drop_events(clock_s - arrived_s, per_s, per_event_s, deciding_s, interval_s)
            shedder.ask(plan.drop_share)
            operator.drops = shedder.drops if plan.drop_share > 0 else None
        before, looks = operator.work, operator.n_looks
        operator.evaluate(event, int(stream.kinds[event]), float(stream.values[event]), int(stream.t_ms[event]))
        took_s = offer_s * (operator.work - before)
        # What an event would take with nothing dropped: the share is one of all looks, not of those that are left.
        whole_s = offer_s * (EVENT_OFFERS + operator.n_looks - looks)
        n_decisions += operator.n_looks - looks if operator.drops is not None else 0
        weight = min(1.0, whole_s / (_RECENT * detector.bound.latency_s))
        per_event_s += (weight if per_event_s else 1.0) * (whole_s - per_event_s)
        clock_s += took_s
        latencies[event] = clock_s - arrived_s
    return Driven(
        operator.matches, latencies, operator.n_looks, operator.n_dropped, DECISION_OFFERS * n_decisions / operator.work
    )


__all__ = ["Driven", "PositionUtilities", "Stream", "TypeSampling", "WindowOperator", "cost", "drive", "evaluated"]
