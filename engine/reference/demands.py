"""What a match demands of a world: the order of neighbours in the pattern, and its window.

In a sequence every event has one neighbour before it. Operands of AND are not ordered: what follows an AND comes after
the last events of all its operands, and a match that begins or ends with one has several first or last events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from engine.errors import UnsupportedQueryError
from engine.reference.observed import ObservedEvent
from engine.reference.places import Bound, Kind, demanded_pairs, first_events, last_events
from engine.reference.worlds import World, confidence_of, is_before, n_worlds, worlds_of

MAX_WORLDS = 400_000
"""More worlds of one match than this are refused, not approximated."""


@dataclass(frozen=True)
class Demand:
    """`pairs`: in each the first event must be before the second; `first` and `last` bound the window."""

    pairs: Sequence[tuple[ObservedEvent, ObservedEvent]]
    first: Sequence[ObservedEvent]
    last: Sequence[ObservedEvent]

    @classmethod
    def of(cls, bounds: Sequence[Bound]) -> Demand:
        """The demand of a match, `bounds` in an order that the pattern allows."""
        if is_sequence(bounds):
            events = [bound.event for bound in bounds]
            return cls(list(pairwise(events)), events[:1], events[-1:])
        return cls(demanded_pairs(bounds), first_events(bounds), last_events(bounds))

    def first_ms(self, world: World) -> int:
        """When the match begins in a world."""
        return min(world[event.event_id] for event in self.first)

    def last_ms(self, world: World) -> int:
        """When the match ends in a world."""
        return max(world[event.event_id] for event in self.last)

    def is_met(self, world: World, within_ms: int | None, *, strict_ties: bool) -> bool:
        """Whether the events are in order and inside the window in this world."""
        if within_ms is not None and self.last_ms(world) - self.first_ms(world) > within_ms:
            return False
        return all(
            is_before(before, world[before.event_id], after, world[after.event_id], strict_ties=strict_ties)
            for before, after in self.pairs
        )


def is_sequence(bounds: Sequence[Bound]) -> bool:
    """Whether the pattern orders all of these events: no operand of AND is among their places."""
    return not any(step.kind is Kind.OPERAND for bound in bounds for step in bound.place)


def in_time(bounds: Sequence[Bound]) -> tuple[ObservedEvent, ...]:
    """The events of a match in order; under AND by the stream, the one that may end last at the end."""
    events = [bound.event for bound in bounds]
    if is_sequence(bounds):
        return tuple(events)
    events.sort(key=lambda event: event.stream_order)
    last = max(last_events(bounds), key=lambda event: (event.hi_ms, event.stream_order))
    return (*(event for event in events if event is not last), last)


def confidence_of_match(bounds: Sequence[Bound], within_ms: int | None, *, strict_ties: bool) -> Fraction:
    """The share of worlds in which the match's demand is met."""
    events = [bound.event for bound in bounds]
    if is_sequence(bounds):
        return confidence_of(events, within_ms, strict_ties=strict_ties)
    check_worlds(n_worlds(events), "the events of one match")
    demand = Demand.of(bounds)
    return sum(
        (share for world, share in worlds_of(events) if demand.is_met(world, within_ms, strict_ties=strict_ties)),
        start=Fraction(0),
    )


def confidence_of_any(matches: Sequence[Sequence[Bound]], within_ms: int | None, *, strict_ties: bool) -> Fraction:
    """The share of worlds in which at least one of several matches of the same events is one."""
    events = [bound.event for bound in matches[0]]
    check_worlds(n_worlds(events), "the events of matches that are merged")
    demands = [Demand.of(bounds) for bounds in matches]
    return sum(
        (
            share
            for world, share in worlds_of(events)
            if any(demand.is_met(world, within_ms, strict_ties=strict_ties) for demand in demands)
        ),
        start=Fraction(0),
    )


def check_worlds(n_listed: int, what: str) -> None:
    """Raises UnsupportedQueryError when there are too many worlds to list."""
    if n_listed > MAX_WORLDS:
        raise UnsupportedQueryError(
            f"{what} have {n_listed} worlds",
            expected=f"at most {MAX_WORLDS} for the oracle",
            remedy="use another runtime, or shorter intervals",
        )


__all__ = ["MAX_WORLDS", "Demand", "check_worlds", "confidence_of_any", "confidence_of_match", "in_time", "is_sequence"]
