"""Where an event stands in a match, and the order that the pattern demands of two of them.

A place is the way from the pattern's root down to one event: which part of a sequence, which iteration of a group,
which operand of an AND, which event of a Kleene component. Two places part at one step: parts, iterations and events
are ordered by their numbers, operands of an AND are not ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from engine.reference.observed import ObservedEvent


class Kind(Enum):
    """What a step chooses among."""

    PART = "part of a sequence"
    OPERAND = "operand of AND"
    ITERATION = "iteration of a group"
    EVENT = "event of a component"


class Step(NamedTuple):
    """One step; for an iteration `group` is the group's number and `body` the one that the iteration has."""

    kind: Kind
    number: int
    group: int = -1
    body: int = 0


Place = tuple[Step, ...]

Nested: TypeAlias = "str | tuple[Nested, ...]"
"""An event id, or a list of such by iteration."""


@dataclass(frozen=True)
class Bound:
    """An event that a match has at a place."""

    variable: str
    event: ObservedEvent
    place: Place

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iteration of each group around it, outermost first."""
        return tuple(step.number for step in self.place if step.kind is Kind.ITERATION)

    @property
    def groups(self) -> tuple[int, ...]:
        """The numbers of the groups around it, outermost first."""
        return tuple(step.group for step in self.place if step.kind is Kind.ITERATION)


Bounds = tuple[Bound, ...]


def precedes(first: Place, second: Place) -> bool | None:
    """Whether the pattern demands the first place before the second (False: after; None: no order)."""
    for one, other in zip(first, second, strict=False):
        if one != other:
            return None if one.kind is Kind.OPERAND else one.number < other.number
    return None


def latest_before(place: Place, bounds: Sequence[Bound]) -> list[Bound]:
    """Of the events that must be before a place the latest: those that no other of them must follow.

    `bounds` stand in an order that the pattern allows.
    """
    latest: list[Bound] = []
    for bound in reversed(bounds):
        if precedes(bound.place, place) and not any(precedes(bound.place, later.place) for later in latest):
            latest.append(bound)
    return latest


def earliest_after(place: Place, bounds: Sequence[Bound]) -> list[Bound]:
    """Of the events that must be after a place the earliest; `bounds` as for `latest_before`."""
    earliest: list[Bound] = []
    for bound in bounds:
        if precedes(place, bound.place) and not any(precedes(other.place, bound.place) for other in earliest):
            earliest.append(bound)
    return earliest


def demanded_pairs(bounds: Sequence[Bound]) -> list[tuple[ObservedEvent, ObservedEvent]]:
    """The pairs of neighbours in the pattern's order: in each the first event must be before the second."""
    return [(before.event, bound.event) for bound in bounds for before in latest_before(bound.place, bounds)]


def first_events(bounds: Sequence[Bound]) -> list[ObservedEvent]:
    """The events that none must precede."""
    return [bound.event for bound in bounds if not latest_before(bound.place, bounds)]


def last_events(bounds: Sequence[Bound]) -> list[ObservedEvent]:
    """The events that none must follow."""
    return [bound.event for bound in bounds if not earliest_after(bound.place, bounds)]


def nested_ids(variable: str, path: Sequence[int], bounds: Sequence[Bound], *, is_list: bool) -> tuple[Nested, ...]:
    """The binding of a variable: its event ids, in lists by iteration of the groups around it.

    A single component is one entry of its innermost group's list, a Kleene component (`is_list`) a list in each
    iteration; an iteration without the variable has an empty list.
    """
    own = [bound for bound in bounds if bound.variable == variable]
    if not path:
        return tuple(bound.event.event_id for bound in own)
    entries: list[Nested] = []
    for number in range(n_iterations(path[0], bounds)):
        inside = [bound for bound in bounds if _iteration(path[0], bound) == number]
        entry = nested_ids(variable, path[1:], inside, is_list=is_list)
        is_innermost_single = len(path) == 1 and not is_list and len(entry) == 1
        entries.append(entry[0] if is_innermost_single else entry)
    return tuple(entries)


def _iteration(group: int, bound: Bound) -> int | None:
    return next((s.number for s in bound.place if s.kind is Kind.ITERATION and s.group == group), None)


def n_iterations(group: int, bounds: Sequence[Bound]) -> int:
    """How many iterations of a group these events have; every iteration has an event."""
    return 1 + max((number for bound in bounds if (number := _iteration(group, bound)) is not None), default=-1)


__all__ = [
    "Bound",
    "Bounds",
    "Kind",
    "Nested",
    "Place",
    "Step",
    "demanded_pairs",
    "earliest_after",
    "first_events",
    "last_events",
    "latest_before",
    "n_iterations",
    "nested_ids",
    "precedes",
]
