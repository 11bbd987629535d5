"""What any shedder of partial matches could keep of sequences, found with hindsight: what the engine keeps is to be
seen beside it.

Runs of a sequence whose steps ask each event for itself follow from the stream alone, so that they need no engine:
where each is after every event, what it costs, whether it completes. The machine is that of `simulation`, event by
event.
Sequences have steps of types that differ, and nothing negated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from benchmarks.shedding.windows import Stream
from benchmarks.shedding.workload import EVENT_OFFERS, Pattern
from engine.events import BoolArray, Float64Array

_LEAST_PRICE = 1e-4


class Ceiling(Enum):
    """What is known when runs are dropped."""

    FUTURE = "knows which complete"
    """All: those that do not complete are dropped at once, and of the others those that cost most."""
    STATE = "knows state and time"
    """Query, state, time left, and how often events of each type come: nothing else tells runs apart where events are
    independent of each other. A run is dropped when what it may still give is not worth what it costs, at the one
    price at which the bound just holds."""
    SHARED = "prefix kept once, nothing dropped"
    """Nothing is dropped; runs that have the same first steps are one for all queries."""


@dataclass(frozen=True)
class Run:
    """`moves`: rows at which it took an event, the first one included. `offered`: rows that were offered to it, after
    the first one; the last of one that expired is that at which this is seen."""

    pattern: int
    moves: tuple[int, ...]
    offered: tuple[int, ...]
    completes: bool

    def until(self, row: int) -> Run:
        """The same, dropped before this row."""
        moves, offered = [tuple(at for at in rows if at < row) for rows in (self.moves, self.offered)]
        return Run(self.pattern, moves, offered, self.completes and len(moves) == len(self.moves))


@dataclass(frozen=True)
class Kept:
    """`recall`: of the matches that end in the overloaded half. `latencies_s`: float64 (n,), of all events."""

    recall: float
    latencies_s: Float64Array


@dataclass(frozen=True)
class Machine:
    """`arrivals_s`: float64 (n,), ascending. `offer_s`: what an offer to a run takes, and an event `EVENT_OFFERS` of
    it. From row `half` on runs may be dropped; each event is to be evaluated `bound_s` after it came."""

    arrivals_s: Float64Array
    offer_s: float
    half: int
    bound_s: float

    def latencies_s(self, work: Float64Array) -> Float64Array:
        """work: float64 (n,), offers by event."""
        latencies, clock_s = np.empty(len(work)), 0.0
        for row, (arrival_s, seconds) in enumerate(zip(self.arrivals_s, work * self.offer_s, strict=True)):
            clock_s = max(clock_s, arrival_s) + seconds
            latencies[row] = clock_s - arrival_s
        return latencies

    def holds(self, latencies_s: Float64Array) -> bool:
        """Whether the bound does."""
        return bool(latencies_s.max() <= self.bound_s)


def kept_at_most(ceiling: Ceiling, patterns: Sequence[Pattern], events: Stream, machine: Machine) -> Kept:
    """What such a shedder keeps."""
    if ceiling is Ceiling.SHARED:
        latencies_s = machine.latencies_s(_shared_work(patterns, events))
        return Kept(1.0, latencies_s)
    runs = runs_of(patterns, events)
    if ceiling is Ceiling.FUTURE:
        return _by_future(runs, machine)
    return _by_state(runs, patterns, events, machine)


def runs_of(patterns: Sequence[Pattern], events: Stream) -> list[Run]:
    """All runs under skip till next match, without shedding."""
    return [
        _followed(number, pattern, events, int(start))
        for number, pattern in enumerate(patterns)
        for start in np.flatnonzero(_accepted(pattern, 0, events))
    ]


def work_of(runs: Sequence[Run], n: int) -> Float64Array:
    """Offers by event, float64 (n,), those that it costs itself among them."""
    work = np.full(n, EVENT_OFFERS)
    np.add.at(work, np.array([row for run in runs for row in run.offered], int), 1.0)
    return work


def _accepted(pattern: Pattern, step: int, events: Stream) -> BoolArray:
    asked = pattern.steps[step]
    accepted: BoolArray = (events.kinds == asked.kind) & (events.values >= asked.least)
    return accepted


def _read(pattern: Pattern, events: Stream) -> BoolArray:
    """Events that are offered to runs: those that some step accepts."""
    read: BoolArray = np.any([_accepted(pattern, step, events) for step in range(len(pattern.steps))], axis=0)
    return read


def _followed(number: int, pattern: Pattern, events: Stream, start: int) -> Run:
    moves, offered = [start], []
    for row in start + 1 + np.flatnonzero(_read(pattern, events)[start + 1 :]):
        offered.append(int(row))
        if events.t_ms[row] - events.t_ms[start] > pattern.within_ms:
            break
        step = pattern.steps[len(moves)]
        if events.kinds[row] == step.kind and events.values[row] >= step.least:
            moves.append(int(row))
            if len(moves) == len(pattern.steps):
                return Run(number, tuple(moves), tuple(offered), True)
    return Run(number, tuple(moves), tuple(offered), False)


def _recall(all_runs: Sequence[Run], kept: Sequence[Run], half: int) -> float:
    n_all, n_kept = (sum(run.completes and run.moves[-1] >= half for run in runs) for runs in (all_runs, kept))
    return n_kept / max(1, n_all)


def _by_future(runs: Sequence[Run], machine: Machine) -> Kept:
    """Those that complete cost most first: after a prefix of them is dropped, the bound holds."""
    n = len(machine.arrivals_s)
    dearest = sorted((run for run in runs if run.completes), key=lambda run: -len(run.offered))
    others = [run.until(machine.half) for run in runs if not run.completes]

    def kept(n_dropped: int) -> list[Run]:
        return others + [run.until(machine.half) for run in dearest[:n_dropped]] + dearest[n_dropped:]

    low, high = 0, len(dearest)
    while low < high:
        middle = (low + high) // 2
        if machine.holds(machine.latencies_s(work_of(kept(middle), n))):
            high = middle
        else:
            low = middle + 1
    found = kept(low)
    return Kept(_recall(runs, found, machine.half), machine.latencies_s(work_of(found, n)))


def _by_state(runs: Sequence[Run], patterns: Sequence[Pattern], events: Stream, machine: Machine) -> Kept:
    """Halving the price: the lowest one at which the bound holds."""
    n = len(machine.arrivals_s)

    def kept(price: float) -> list[Run]:
        worth = [worth_keeping(pattern, events, price) for pattern in patterns]
        return [_kept_while(run, worth[run.pattern], patterns[run.pattern], events, machine.half) for run in runs]

    low, high = 0.0, 1.0
    while high - low > _LEAST_PRICE:
        middle = (low + high) / 2
        if machine.holds(machine.latencies_s(work_of(kept(middle), n))):
            high = middle
        else:
            low = middle
    found = kept(high)
    return Kept(_recall(runs, found, machine.half), machine.latencies_s(work_of(found, n)))


def worth_keeping(pattern: Pattern, events: Stream, price: float) -> BoolArray:
    """By events taken and ms left in the window whether a run is worth its costs, bool (n_steps, within_ms + 1); a
    match is worth 1, an offer costs `price`.

    Value iteration where one event comes each ms, of each type as often as in the stream: a run may be dropped at any
    time to come, so that its value is never below 0.
    """
    n_steps = len(pattern.steps)
    chances = [float(_accepted(pattern, step, events).mean()) for step in range(n_steps)]
    cost = price * float(_read(pattern, events).mean())
    value = np.zeros(n_steps + 1)
    value[n_steps] = 1.0
    worth = np.zeros((n_steps, pattern.within_ms + 1), np.bool_)
    for left in range(1, pattern.within_ms + 1):
        before = value.copy()
        for taken in range(1, n_steps):
            goes_on = chances[taken] * before[taken + 1] + (1.0 - chances[taken]) * before[taken] - cost
            value[taken], worth[taken, left] = max(0.0, goes_on), goes_on > 0
    return worth


def _kept_while(run: Run, worth: BoolArray, pattern: Pattern, events: Stream, half: int) -> Run:
    """The run until it is dropped, looked at before each event that it is offered in the overloaded half."""
    taken, moves = 1, set(run.moves)
    ends_ms = int(events.t_ms[run.moves[0]]) + pattern.within_ms
    for row in run.offered:
        left = ends_ms - int(events.t_ms[row]) + 1
        if row >= half and not (left > 0 and worth[taken, min(left, pattern.within_ms)]):
            return run.until(row)
        taken += row in moves
    return run


def _shared_work(patterns: Sequence[Pattern], events: Stream) -> Float64Array:
    """Offers by event, where what has taken the same events is one run for all queries: it is offered an event where
    one of them would be."""
    offers: set[tuple[tuple[int, ...], int]] = set()
    for run in runs_of(patterns, events):
        n_taken = 1
        for row in run.offered:
            offers.add((run.moves[:n_taken], row))
            n_taken += n_taken < len(run.moves) and row == run.moves[n_taken]
    work = np.full(len(events.kinds), EVENT_OFFERS)
    np.add.at(work, np.array([row for _, row in offers], int), 1.0)
    return work


__all__ = ["Ceiling", "Kept", "Machine", "Run", "kept_at_most", "runs_of", "work_of", "worth_keeping"]
