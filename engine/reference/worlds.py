"""Possible worlds: the order of events in one, and the share of worlds in which a sequence is a match.

A world gives every event one millisecond, independently, by its distribution (SASE++ section 4). In it one event is
before another when its time is smaller, with two exceptions (DESIGN 2): two precise events at one millisecond are
ordered as they are read, unless ties are strict; two events of one clock, one of them imprecise, have the order of
(nominal time, source_seq) in every world, whatever times it gives them.
Where clocks have a skew bound a world gives each of them one offset, uniform over the milliseconds up to the bound, and
its events their times by that clock; an event's time is both added up. Between events of one clock the offset changes
nothing. Such an event is never precise to others.
A sequence is a match in a world when each of its events is before the next and last - first <= WITHIN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from engine.reference.observed import ObservedEvent

MAX_LISTED_WORLDS = 4_000
"""Above this many worlds the sum over them is taken step by step instead of world by world."""

World = Mapping[str, int]
"""Event id -> its millisecond."""

Offsets = Mapping[str, int]
"""Clock -> by how much its events are later than it says, in ms."""


def certain_order(first: ObservedEvent, second: ObservedEvent, *, strict_ties: bool) -> bool | None:
    """Whether `first` is before `second` in every world (True), in none (False), or as their times say (None)."""
    by_one_clock = first.clock == second.clock
    if (first.is_precise and second.is_precise) or (
        by_one_clock and first.is_nominally_precise and second.is_nominally_precise
    ):
        if strict_ties:
            return first.lo_ms < second.lo_ms
        return first.stream_order < second.stream_order
    if by_one_clock:
        return (first.hi_ms, first.source_seq) < (second.hi_ms, second.source_seq)
    return None


def is_before(first: ObservedEvent, first_ms: int, second: ObservedEvent, second_ms: int, *, strict_ties: bool) -> bool:
    """Whether `first` is before `second` in a world that gives them these times."""
    certain = certain_order(first, second, strict_ties=strict_ties)
    return first_ms < second_ms if certain is None else certain


def can_be_before(first: ObservedEvent, second: ObservedEvent, *, strict_ties: bool) -> bool:
    """Whether there is a world in which `first` is before `second`."""
    certain = certain_order(first, second, strict_ties=strict_ties)
    return min(first.times) < max(second.times) if certain is None else certain


def offsets_of(events: Sequence[ObservedEvent]) -> Iterator[tuple[Offsets, Fraction]]:
    """All offsets of the clocks of these events, with their probability."""
    bounds = {event.clock: event.skew_ms for event in events if event.skew_ms}
    n_combinations = math.prod(2 * bound + 1 for bound in bounds.values())
    for offsets in itertools.product(*(range(-bound, bound + 1) for bound in bounds.values())):
        yield dict(zip(bounds, offsets, strict=True)), Fraction(1, n_combinations)


def worlds_given(events: Sequence[ObservedEvent], offsets: Offsets) -> Iterator[tuple[World, Fraction]]:
    """Every world of these events in which their clocks have these offsets, with its probability given them."""
    points_of = [
        [(time_ms + offsets[event.clock], share) for time_ms, share in event.nominal.items()]
        if event.skew_ms
        else list(event.times.items())
        for event in events
    ]
    ids = [event.event_id for event in events]
    for points in itertools.product(*points_of):
        yield (
            dict(zip(ids, (time_ms for time_ms, _ in points), strict=True)),
            math.prod((share for _, share in points), start=Fraction(1)),
        )


def worlds_of(events: Sequence[ObservedEvent]) -> Iterator[tuple[World, Fraction]]:
    """Every world of these events with its probability."""
    for offsets, probability in offsets_of(events):
        for world, share in worlds_given(events, offsets):
            yield world, probability * share


def n_worlds(events: Sequence[ObservedEvent]) -> int:
    """How many worlds these events have."""
    bounds = {event.clock: event.skew_ms for event in events if event.skew_ms}
    n_offsets = math.prod(2 * bound + 1 for bound in bounds.values())
    return n_offsets * math.prod(len(event.nominal if event.skew_ms else event.times) for event in events)


def is_match_in(sequence: Sequence[ObservedEvent], world: World, within_ms: int | None, *, strict_ties: bool) -> bool:
    """Whether the sequence is in order and inside the window in this world."""
    times = [world[event.event_id] for event in sequence]
    if within_ms is not None and times[-1] - times[0] > within_ms:
        return False
    return all(
        is_before(sequence[k], times[k], sequence[k + 1], times[k + 1], strict_ties=strict_ties)
        for k in range(len(sequence) - 1)
    )


def confidence_by_worlds(sequence: Sequence[ObservedEvent], within_ms: int | None, *, strict_ties: bool) -> Fraction:
    """The confidence as it is defined: the probabilities of the worlds in which the sequence is a match, added up."""
    return sum(
        (
            share
            for world, share in worlds_of(sequence)
            if is_match_in(sequence, world, within_ms, strict_ties=strict_ties)
        ),
        start=Fraction(0),
    )


def confidence_by_steps(sequence: Sequence[ObservedEvent], within_ms: int | None, *, strict_ties: bool) -> Fraction:
    """The same sum, event by event for each time of the first (the chain rule; no world is listed)."""
    return sum(
        (
            probability * _by_steps([_shifted(event, offsets) for event in sequence], within_ms, strict_ties)
            for offsets, probability in offsets_of(sequence)
        ),
        start=Fraction(0),
    )


def _shifted(event: ObservedEvent, offsets: Offsets) -> ObservedEvent:
    """The event given the offset of its clock; what is certain of its order stays so."""
    if not event.skew_ms:
        return event
    return replace(event, times={time_ms + offsets[event.clock]: share for time_ms, share in event.nominal.items()})


def _by_steps(sequence: Sequence[ObservedEvent], within_ms: int | None, strict_ties: bool) -> Fraction:
    first, last = sequence[0], sequence[-1]
    window_is_certain = within_ms is None or max(last.times) - min(first.times) <= within_ms
    if window_is_certain or len(sequence) == 1:
        return sum(_chain(sequence, first.times, strict_ties=strict_ties).values(), start=Fraction(0))
    assert within_ms is not None
    total = Fraction(0)
    for first_ms, share in first.times.items():
        ends = _chain(sequence, {first_ms: share}, strict_ties=strict_ties)
        total += sum((p for last_ms, p in ends.items() if last_ms - first_ms <= within_ms), start=Fraction(0))
    return total


def confidence_of(sequence: Sequence[ObservedEvent], within_ms: int | None, *, strict_ties: bool) -> Fraction:
    """The confidence of an ordered sequence of distinct events."""
    by = confidence_by_worlds if n_worlds(sequence) <= MAX_LISTED_WORLDS else confidence_by_steps
    return by(sequence, within_ms, strict_ties=strict_ties)


def _chain(
    sequence: Sequence[ObservedEvent], start: Mapping[int, Fraction], *, strict_ties: bool
) -> dict[int, Fraction]:
    """Time t -> P(every event is before the next, and the last one is at t), the first distributed as `start`."""
    reached = dict(start)
    for previous, event in itertools.pairwise(sequence):
        certain = certain_order(previous, event, strict_ties=strict_ties)
        if certain is not None:
            total = sum(reached.values(), start=Fraction(0)) if certain else Fraction(0)
            reached = {time_ms: share * total for time_ms, share in event.times.items()}
            continue
        earlier = sorted(reached.items(), reverse=True)
        total = Fraction(0)
        following: dict[int, Fraction] = {}
        for time_ms in sorted(event.times):
            while earlier and earlier[-1][0] < time_ms:
                total += earlier.pop()[1]
            following[time_ms] = event.times[time_ms] * total
        reached = following
    return reached


__all__ = [
    "MAX_LISTED_WORLDS",
    "Offsets",
    "World",
    "can_be_before",
    "certain_order",
    "confidence_by_steps",
    "confidence_by_worlds",
    "confidence_of",
    "is_before",
    "is_match_in",
    "n_worlds",
    "offsets_of",
    "worlds_given",
    "worlds_of",
]
