"""Negation as a nested query: a match stands in a world when no match of a negated part is in its place (SASE+ 3.1).

The place is between the latest events that precede it in the pattern and the earliest that follow it; at the start of
the pattern it begins at last - WITHIN, at the end it ends at first + WITHIN, both inclusive. In a repeated group every
iteration has one. With imprecise events the confidence is the share of worlds in which the match is one and all negated
parts are absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.reference.arrangements import Arranger
from engine.reference.conditions import Keys
from engine.reference.contexts import ScopedCondition
from engine.reference.demands import Demand, check_worlds, in_time
from engine.reference.observed import ObservedEvent
from engine.reference.places import Bound, Bounds, Kind, Place, Step, earliest_after, latest_before
from engine.reference.shape import Absent, Group, Items, Shuffle, slots_of
from engine.reference.worlds import Offsets, World, is_before, n_worlds, offsets_of, worlds_given


@dataclass(frozen=True)
class Gap:
    """Where a negated part may not match: between `left` and `right`; an empty side is bounded by the window."""

    left: Sequence[ObservedEvent]
    right: Sequence[ObservedEvent]


@dataclass(frozen=True)
class Intruder:
    """Events that match a negated part and could stand in its place."""

    gap: Gap
    demand: Demand
    events: tuple[ObservedEvent, ...]


def has_absence(items: Items) -> bool:
    """Whether a branch has a negated part."""
    return any(
        isinstance(item, Absent)
        or (isinstance(item, Shuffle) and any(map(has_absence, item.operands)))
        or (isinstance(item, Group) and any(map(has_absence, item.bodies)))
        for item in items
    )


@dataclass(frozen=True)
class Absence:
    """The negated parts of one branch over one stream; `conditions` are those that name negated variables.

    `position` numbers the events of a match's partition for WITHIN n EVENTS (None for a window of time).
    """

    branch: Items
    conditions: Sequence[ScopedCondition]
    events: Sequence[ObservedEvent]
    keys: Keys
    strict_ties: bool
    within_ms: int | None
    within_events: int | None
    position: Callable[[ObservedEvent], int] | None

    def confidence(self, bounds: Bounds) -> Fraction:
        """P(the events are a match and every negated part is absent from its place)."""
        sequence, demand = in_time(bounds), Demand.of(bounds)
        intruders = list(self._intruders(bounds))
        others = list({event.event_id: event for intruder in intruders for event in intruder.events}.values())
        independent = all(len(intruder.events) == 1 for intruder in intruders)
        n_listed = n_worlds(sequence) * (sum(map(n_worlds, ([e] for e in others))) if independent else n_worlds(others))
        check_worlds(n_listed, "a match and what is negated around it")
        absent = self._absent_one_by_one if independent else self._absent_jointly
        total = Fraction(0)
        for offsets, probability in offsets_of([*sequence, *others]):
            for world, share in worlds_given(sequence, offsets):
                if demand.is_met(world, self.within_ms, strict_ties=self.strict_ties):
                    total += probability * share * absent(intruders, others, sequence, demand, world, offsets)
        return total

    def test_of(self, bounds: Bounds) -> tuple[list[ObservedEvent], Callable[[World], bool]]:
        """The events that decide about a match, and whether it is one in a world that gives them their times."""
        sequence, demand = in_time(bounds), Demand.of(bounds)
        intruders = list(self._intruders(bounds))

        def stands(world: World) -> bool:
            if not demand.is_met(world, self.within_ms, strict_ties=self.strict_ties):
                return False
            return not any(self._is_in_place(intruder, sequence, demand, world) for intruder in intruders)

        return [*sequence, *(event for intruder in intruders for event in intruder.events)], stands

    def _absent_one_by_one(
        self,
        intruders: Sequence[Intruder],
        others: Sequence[ObservedEvent],
        sequence: Sequence[ObservedEvent],
        demand: Demand,
        world: World,
        offsets: Offsets,
    ) -> Fraction:
        """Single negated events are independent of each other once the match's times and all offsets are given."""
        shares = []
        for other in others:
            own = [intruder for intruder in intruders if intruder.events[0] is other]
            shares.append(self._absent_jointly(own, [other], sequence, demand, world, offsets))
        return math.prod(shares, start=Fraction(1))

    def _absent_jointly(
        self,
        intruders: Sequence[Intruder],
        others: Sequence[ObservedEvent],
        sequence: Sequence[ObservedEvent],
        demand: Demand,
        world: World,
        offsets: Offsets,
    ) -> Fraction:
        total = Fraction(0)
        for other_world, share in worlds_given(others, offsets):
            merged = {**world, **other_world}
            if not any(self._is_in_place(intruder, sequence, demand, merged) for intruder in intruders):
                total += share
        return total

    def _intruders(self, bounds: Bounds) -> Iterator[Intruder]:
        matched = [bound.event for bound in bounds]
        arranger = Arranger(
            [event for event in self.events if event not in matched], self.keys, self.strict_ties, matched
        )
        for absent, place in _absences(self.branch, (), bounds):
            left = [bound.event for bound in latest_before(place, bounds)]
            right = [bound.event for bound in earliest_after(place, bounds)]
            for alternative in absent.alternatives:
                own = {slot.variable for slot in slots_of(alternative)}
                conditions = [c for c in self.conditions if c.condition.variables & own]
                for found in arranger.arrangements(alternative, place):
                    if all(condition.holds((*bounds, *found)) for condition in conditions):
                        events = tuple(bound.event for bound in found)
                        yield Intruder(Gap(left, right), Demand.of(_inside(found, place)), events)

    def _is_in_place(self, intruder: Intruder, sequence: Sequence[ObservedEvent], demand: Demand, world: World) -> bool:
        if not intruder.demand.is_met(world, None, strict_ties=self.strict_ties):
            return False
        return all(
            self._is_after_left(event, intruder.gap, sequence, demand, world) for event in intruder.demand.first
        ) and all(self._is_before_right(event, intruder.gap, sequence, demand, world) for event in intruder.demand.last)

    def _is_after_left(
        self, event: ObservedEvent, gap: Gap, sequence: Sequence[ObservedEvent], demand: Demand, world: World
    ) -> bool:
        if gap.left:
            return all(self._before(left, event, world) for left in gap.left)
        if self.position is not None and self.within_events is not None:
            return self.position(event) > self.position(sequence[-1]) - self.within_events
        return self.within_ms is None or world[event.event_id] >= demand.last_ms(world) - self.within_ms

    def _is_before_right(
        self, event: ObservedEvent, gap: Gap, sequence: Sequence[ObservedEvent], demand: Demand, world: World
    ) -> bool:
        if gap.right:
            return all(self._before(event, right, world) for right in gap.right)
        if self.position is not None and self.within_events is not None:
            return self.position(event) < self.position(sequence[0]) + self.within_events
        return self.within_ms is None or world[event.event_id] <= demand.first_ms(world) + self.within_ms

    def _before(self, first: ObservedEvent, second: ObservedEvent, world: World) -> bool:
        return is_before(first, world[first.event_id], second, world[second.event_id], strict_ties=self.strict_ties)


def _inside(found: Bounds, place: Place) -> Bounds:
    """The places of a negated part's events within it: an AND around the part is none of its own."""
    return tuple(Bound(bound.variable, bound.event, bound.place[len(place) :]) for bound in found)


def _absences(items: Items, place: Place, bounds: Bounds) -> Iterator[tuple[Absent, Place]]:
    """The negated parts of a match with their places: in a group one for each iteration whose body has it."""
    for k, item in enumerate(items):
        own = (*place, Step(Kind.PART, k))
        match item:
            case Absent():
                yield item, own
            case Shuffle(operands=operands):
                for number, operand in enumerate(operands):
                    yield from _absences(operand, (*own, Step(Kind.OPERAND, number)), bounds)
            case Group(bodies=bodies):
                iterations = dict.fromkeys(bound.place[len(own)] for bound in bounds if bound.place[: len(own)] == own)
                for step in iterations:
                    yield from _absences(bodies[step.body], (*own, step), bounds)


__all__ = ["Absence", "Gap", "Intruder", "has_absence"]
