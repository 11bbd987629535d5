"""Negation as a nested query: a match stands in a world when no match of a negated part is in its place (SASE+ 3.1).

At the start the place is [last - WITHIN, first), in the middle from after the end of the left neighbour to before the
start of the right one, at the end (last, first + WITHIN]. With imprecise events the confidence is the share of worlds
in which the match is one and all negated parts are absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.errors import UnsupportedQueryError
from engine.reference.any_match import Search
from engine.reference.conditions import Condition, Placement
from engine.reference.expressions import Binding
from engine.reference.observed import ObservedEvent
from engine.reference.shape import NegatedPart, PlainPattern
from engine.reference.worlds import World, is_before, is_match_in, n_worlds, worlds_of

MAX_WORLDS = 400_000
"""More worlds of a match and what is negated around it than this are refused, not approximated."""


@dataclass(frozen=True)
class Intruder:
    """A sequence of events that matches a negated part and could stand in its place."""

    part: NegatedPart
    sequence: tuple[ObservedEvent, ...]


@dataclass(frozen=True)
class Absence:
    """The negated parts of one plain pattern over one stream.

    `position` numbers the events of a match's partition for WITHIN n EVENTS (None for a window of time).
    """

    pattern: PlainPattern
    conditions: Sequence[Condition]
    search: Search
    within_events: int | None
    position: Callable[[ObservedEvent], int] | None

    def confidence(self, binding: Binding, sequence: Sequence[ObservedEvent]) -> Fraction:
        """P(the sequence is a match and every negated part is absent from its place)."""
        intruders = list(self._intruders(binding, sequence))
        others = list({event.event_id: event for intruder in intruders for event in intruder.sequence}.values())
        independent = all(len(intruder.sequence) == 1 for intruder in intruders)
        n_listed = n_worlds(sequence) * (sum(map(n_worlds, ([e] for e in others))) if independent else n_worlds(others))
        if n_listed > MAX_WORLDS:
            raise UnsupportedQueryError(
                f"the absence of a negated part around one match has {n_listed} worlds",
                expected=f"at most {MAX_WORLDS} for the oracle",
                remedy="use another runtime, or shorter intervals",
            )
        total = Fraction(0)
        for world, share in worlds_of(sequence):
            if is_match_in(sequence, world, self.search.within_ms, strict_ties=self.search.strict_ties):
                absent = self._absent_one_by_one if independent else self._absent_jointly
                total += share * absent(intruders, others, binding, sequence, world)
        return total

    def _absent_one_by_one(
        self,
        intruders: Sequence[Intruder],
        others: Sequence[ObservedEvent],
        binding: Binding,
        sequence: Sequence[ObservedEvent],
        world: World,
    ) -> Fraction:
        """Single negated events are independent of each other once the match's times are given."""
        shares = []
        for other in others:
            own = [intruder for intruder in intruders if intruder.sequence[0] is other]
            shares.append(self._absent_jointly(own, [other], binding, sequence, world))
        return math.prod(shares, start=Fraction(1))

    def _absent_jointly(
        self,
        intruders: Sequence[Intruder],
        others: Sequence[ObservedEvent],
        binding: Binding,
        sequence: Sequence[ObservedEvent],
        world: World,
    ) -> Fraction:
        total = Fraction(0)
        for other_world, share in worlds_of(others):
            merged = {**world, **other_world}
            if not any(self._is_in_place(intruder, binding, sequence, merged) for intruder in intruders):
                total += share
        return total

    def _intruders(self, binding: Binding, sequence: Sequence[ObservedEvent]) -> Iterator[Intruder]:
        names = frozenset(binding)
        for part in self.pattern.negated:
            own = frozenset(slot.variable for slot in part.slots)
            conditions = [c for c in self.conditions if c.variables & own and c.variables <= own | names]
            events = [e for e in self.search.events if e not in sequence and self.search.keys.agree((*sequence, e))]
            search = Search(events, self.search.keys, self.search.strict_ties, None)
            inner = Placement(PlainPattern(part.slots), [c for c in conditions if c.variables <= own])
            for found in search.sequences(inner):
                together = {**binding, **found}
                intruding = tuple(event for slot in part.slots for event in found[slot.variable])
                if self.search.keys.agree((*sequence, *intruding)) and all(
                    condition.holds_for_all(together) for condition in conditions
                ):
                    yield Intruder(part, intruding)

    def _is_in_place(
        self, intruder: Intruder, binding: Binding, sequence: Sequence[ObservedEvent], world: World
    ) -> bool:
        if not is_match_in(intruder.sequence, world, None, strict_ties=self.search.strict_ties):
            return False
        first, last = intruder.sequence[0], intruder.sequence[-1]
        return self._is_after_left(first, intruder.part, binding, sequence, world) and self._is_before_right(
            last, intruder.part, binding, sequence, world
        )

    def _is_after_left(
        self,
        event: ObservedEvent,
        part: NegatedPart,
        binding: Binding,
        sequence: Sequence[ObservedEvent],
        world: World,
    ) -> bool:
        if part.before > 0:
            left = binding[self.pattern.slots[part.before - 1].variable][-1]
            return self._before(left, event, world)
        if self.position is not None and self.within_events is not None:
            return self.position(event) > self.position(sequence[-1]) - self.within_events
        within_ms = self.search.within_ms
        return within_ms is None or world[event.event_id] >= world[sequence[-1].event_id] - within_ms

    def _is_before_right(
        self,
        event: ObservedEvent,
        part: NegatedPart,
        binding: Binding,
        sequence: Sequence[ObservedEvent],
        world: World,
    ) -> bool:
        if part.before < len(self.pattern.slots):
            right = binding[self.pattern.slots[part.before].variable][0]
            return self._before(event, right, world)
        if self.position is not None and self.within_events is not None:
            return self.position(event) < self.position(sequence[0]) + self.within_events
        within_ms = self.search.within_ms
        return within_ms is None or world[event.event_id] <= world[sequence[0].event_id] + within_ms

    def _before(self, first: ObservedEvent, second: ObservedEvent, world: World) -> bool:
        return is_before(
            first, world[first.event_id], second, world[second.event_id], strict_ties=self.search.strict_ties
        )


__all__ = ["Absence", "Intruder"]
