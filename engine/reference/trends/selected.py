"""Which sequences of events are trends under the other selection strategies: those that runs select (SASE+ section 3.2,
step 3), as those of matches do, with what a trend query asks of single events and of neighbours.

A pattern is a union of branches, as for matches. In each partition every event that can begin one starts a run. Negated
parts say which of the sequences are trends, not which events a run may skip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

from engine.events import EventSchema
from engine.language import ast
from engine.reference.observed import ObservedEvent
from engine.reference.runs.states import Edge, State, edges, first_edges, is_finished, may_end, may_ignore
from engine.reference.shape import Items, shape_of

Read = tuple[ObservedEvent, str]
"""An event, and the variable that reads it."""

Named = tuple[tuple[str, str], ...]
"""Ids of events in order, each with the variable that reads it."""

Component = tuple[str, frozenset[str]]
"""An attribute, and the variables whose events agree in it."""

Partition = Mapping[Component, object]


class Asked(Protocol):
    """What a trend query asks of events."""

    components: tuple[Component, ...]

    def is_vertex(self, event: ObservedEvent, variable: str) -> bool:
        """Whether a variable may read an event by itself."""

    def are_adjacent(self, one: Read, other: Read) -> bool:
        """Whether two events may be neighbours by what is asked of them."""

    def is_before(self, one: ObservedEvent, other: ObservedEvent) -> bool:
        """Whether one comes before the other in time, or in the stream where ties are told apart."""


def selected(
    pattern: ast.Pattern, strategy: ast.Strategy, schema: EventSchema, asked: Asked, events: Sequence[ObservedEvent]
) -> frozenset[Named]:
    """The sequences that accepting runs have selected among all events of a stream, in its order."""
    branches = shape_of(_positive(pattern)).branches
    found: set[Named] = set()
    for partition in _partitions(asked.components, schema, events):
        runs = _Runs(strategy, schema, asked, partition)
        for branch in branches:
            for start in range(len(events)):
                found.update(map(named, runs.accepted_from(branch, events[start], events[start + 1 :])))
    return frozenset(found)


def named(reading: Sequence[Read]) -> Named:
    """The events by their ids."""
    return tuple((event.event_id, variable) for event, variable in reading)


def _positive(pattern: ast.Pattern) -> ast.Pattern:
    match pattern:
        case ast.Sequence(parts=parts):
            kept = tuple(_positive(part) for part in parts if not isinstance(part, ast.Negation))
            return replace(pattern, parts=kept)
        case ast.Alternative(parts=parts):
            return replace(pattern, parts=tuple(map(_positive, parts)))
        case ast.Repeat(pattern=inner):
            return replace(pattern, pattern=_positive(inner))
        case _:
            return pattern


def _partitions(
    components: Sequence[Component], schema: EventSchema, events: Sequence[ObservedEvent]
) -> Iterator[Partition]:
    """Every choice of known values."""
    choices = [
        dict.fromkeys(
            event.values[name]
            for event in events
            if name in schema.types[event.event_type] and event.values.get(name) is not None
        )
        for name, _ in components
    ]
    for values in product(*choices):
        yield dict(zip(components, values, strict=True))


@dataclass(frozen=True)
class _Run:
    selected: tuple[Read, ...]
    state: State


@dataclass(frozen=True)
class _Runs:
    strategy: ast.Strategy
    schema: EventSchema
    asked: Asked
    partition: Partition

    def accepted_from(
        self, branch: Items, first: ObservedEvent, following: Sequence[ObservedEvent]
    ) -> Iterator[tuple[Read, ...]]:
        """What the runs that begin with an event select."""
        runs = [run for _, run in self._followed(list(first_edges(branch)), (), first)]
        yield from (run.selected for run in runs if may_end(run.state))
        for event in following:
            going, begun = list[_Run](), list[_Run]()
            for run in runs:
                if is_finished(run.state):
                    continue
                followed = self._followed(list(edges(run.state)), run.selected, event)
                begun += [new for _, new in followed]
                if self._ignores(run, event, [edge for edge, _ in followed]):
                    going.append(run)
            yield from (run.selected for run in begun if may_end(run.state))
            runs = [*going, *begun]
            if not runs:
                return

    def _followed(
        self, possible: Sequence[Edge], before: tuple[Read, ...], event: ObservedEvent
    ) -> list[tuple[Edge, _Run]]:
        return [
            (edge, _Run((*before, (event, edge.slot.variable)), edge.state))
            for edge in possible
            if self._fits(before, event, edge.slot.variable)
        ]

    def _fits(self, before: tuple[Read, ...], event: ObservedEvent, variable: str) -> bool:
        if not self.asked.is_vertex(event, variable):
            return False
        own = (value for (name, holders), value in self.partition.items() if variable in holders)
        names = (name for name, holders in self.partition if variable in holders)
        if any(event.values.get(name) != value for name, value in zip(names, own, strict=True)):
            return False
        if not before:
            return True
        return self.asked.is_before(before[-1][0], event) and self.asked.are_adjacent(before[-1], (event, variable))

    def _ignores(self, run: _Run, event: ObservedEvent, followed: Sequence[Edge]) -> bool:
        match self.strategy:
            case ast.Strategy.SKIP_TILL_NEXT_MATCH:
                return may_ignore(run.state, {(edge.place, edge.slot) for edge in followed})
            case ast.Strategy.PARTITION_CONTIGUITY:
                return not self._is_member(event)
            case _:
                return False

    def _is_member(self, event: ObservedEvent) -> bool:
        """Whether an event is in the partition: by its type, whether the pattern names that or not."""
        has = self.schema.types[event.event_type]
        return all(event.values.get(name) == value for (name, _), value in self.partition.items() if name in has)


__all__ = ["Asked", "Component", "Named", "Read", "named", "selected"]
