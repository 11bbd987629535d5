"""States of a run and its edges, read off the pattern: how far each part of it has come (SASE+ section 3.2, step 3).

A state of a sequence stands in one part; one of AND has a state per operand; one of a repeated group has the state of
its current iteration. An edge binds one event at a place and leads to the next state. It loops when it takes another
event of a Kleene component or begins another iteration of a group; every other edge begins a component.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from engine.reference.places import Kind, Place, Step
from engine.reference.shape import Absent, Group, Item, Items, Shuffle, Slot, slots_of


@dataclass(frozen=True)
class InSlot:
    """A component has `n_events` events."""

    slot: Slot
    n_events: int


@dataclass(frozen=True)
class InSequence:
    """The sequence has come to part k; the parts before it are left."""

    items: Items
    k: int
    state: State


@dataclass(frozen=True)
class InShuffle:
    """AND: a state per operand; None where it has not begun."""

    shuffle: Shuffle
    states: tuple[InSequence | None, ...]


@dataclass(frozen=True)
class InGroup:
    """A repeated group is in this iteration (from 0) of one of its bodies."""

    group: Group
    iteration: int
    body: int
    state: InSequence


State = InSlot | InSequence | InShuffle | InGroup


@dataclass(frozen=True)
class Edge:
    """Binds an event of the slot's type at `place` and leads to `state`."""

    slot: Slot
    place: Place
    state: State


def first_edges(items: Items, place: Place = ()) -> Iterator[Edge]:
    """The edges that begin a sequence."""
    k = _next_part(items, 0)
    assert k is not None
    for edge in _first_edges_of_item(items[k], (*place, Step(Kind.PART, k))):
        yield replace(edge, state=InSequence(items, k, edge.state))


def _next_part(items: Items, k: int) -> int | None:
    """The first positive part from k on."""
    return next((n for n in range(k, len(items)) if not isinstance(items[n], Absent)), None)


def _first_edges_of_item(item: Item, place: Place) -> Iterator[Edge]:
    match item:
        case Slot():
            yield Edge(item, (*place, Step(Kind.EVENT, 0)), InSlot(item, 1))
        case Shuffle(operands=operands):
            yield from edges(InShuffle(item, (None,) * len(operands)), place)
        case Group():
            yield from _iteration_edges(item, 0, place)


def _iteration_edges(group: Group, iteration: int, place: Place) -> Iterator[Edge]:
    for number, body in enumerate(group.bodies):
        for edge in first_edges(body, (*place, Step(Kind.ITERATION, iteration, group.number, number))):
            assert isinstance(edge.state, InSequence)
            yield replace(edge, state=InGroup(group, iteration, number, edge.state))


def edges(state: State, place: Place = ()) -> Iterator[Edge]:
    """All edges of a state that stands at `place`."""
    match state:
        case InSlot(slot=slot, n_events=n_events):
            if not slot.is_single and slot.allows(n_events + 1):
                yield Edge(slot, (*place, Step(Kind.EVENT, n_events)), InSlot(slot, n_events + 1))
        case InSequence(items=items, k=k, state=inner):
            for edge in edges(inner, (*place, Step(Kind.PART, k))):
                yield replace(edge, state=InSequence(items, k, edge.state))
            yield from _leaving_edges(state, place)
        case InShuffle(shuffle=shuffle, states=states):
            for number, operand in enumerate(states):
                own = (*place, Step(Kind.OPERAND, number))
                found = first_edges(shuffle.operands[number], own) if operand is None else edges(operand, own)
                for edge in found:
                    assert isinstance(edge.state, InSequence)
                    yield replace(edge, state=InShuffle(shuffle, _replaced(states, number, edge.state)))
        case InGroup(group=group, iteration=iteration, body=body, state=inner):
            for edge in edges(inner, _inside(state, place)):
                assert isinstance(edge.state, InSequence)
                yield replace(edge, state=InGroup(group, iteration, body, edge.state))
            yield from _looping_edges(state, place)


def _replaced(states: tuple[InSequence | None, ...], number: int, state: InSequence) -> tuple[InSequence | None, ...]:
    return (*states[:number], state, *states[number + 1 :])


def _inside(state: InGroup, place: Place) -> Place:
    return (*place, Step(Kind.ITERATION, state.iteration, state.group.number, state.body))


def _leaving_edges(state: InSequence, place: Place) -> Iterator[Edge]:
    """The edges that begin the next part of a sequence, once this one may end."""
    following = _next_part(state.items, state.k + 1)
    if following is not None and may_end(state.state):
        for edge in _first_edges_of_item(state.items[following], (*place, Step(Kind.PART, following))):
            yield replace(edge, state=InSequence(state.items, following, edge.state))


def _looping_edges(state: InGroup, place: Place) -> Iterator[Edge]:
    """The edges that begin another iteration, once this one may end."""
    if may_end(state.state) and state.group.allows(state.iteration + 2):
        yield from _iteration_edges(state.group, state.iteration + 1, place)


def may_end(state: State) -> bool:
    """Whether nothing is missing: the part may be left here, the whole pattern be accepted."""
    match state:
        case InSlot(slot=slot, n_events=n_events):
            return n_events >= slot.at_least
        case InSequence(items=items, k=k, state=inner):
            return _next_part(items, k + 1) is None and may_end(inner)
        case InShuffle(states=states):
            return all(operand is not None and may_end(operand) for operand in states)
        case InGroup(group=group, iteration=iteration, state=inner):
            return iteration + 1 >= group.at_least and may_end(inner)


def is_finished(state: State) -> bool:
    """Whether nothing is missing and nothing in it loops."""
    match state:
        case InSlot(slot=slot):
            return slot.is_single
        case InSequence(items=items, k=k, state=inner):
            return _next_part(items, k + 1) is None and is_finished(inner)
        case InShuffle(states=states):
            return all(operand is not None and is_finished(operand) for operand in states)
        case InGroup():
            return False


Taken = Collection[tuple[Place, Slot]]
"""Edges whose formula holds for an event, by place and component."""


def may_ignore(state: State, taken: Taken, place: Place = ()) -> bool:
    """Whether a state may ignore an event under skip till next match.

    A looping state ignores what none of its loop edges takes, another one what it cannot begin; what is finished
    ignores everything; AND ignores what every operand may.
    """
    match state:
        case InSlot():
            return not _any_of(edges(state, place), taken)
        case InSequence(k=k, state=inner):
            if is_finished(inner):
                return not _any_of(_leaving_edges(state, place), taken)
            return may_ignore(inner, taken, (*place, Step(Kind.PART, k)))
        case InShuffle(shuffle=shuffle, states=states):
            for number, operand in enumerate(states):
                own = (*place, Step(Kind.OPERAND, number))
                if operand is None and _any_of(first_edges(shuffle.operands[number], own), taken):
                    return False
                if operand is not None and not may_ignore(operand, taken, own):
                    return False
            return True
        case InGroup(state=inner):
            return may_ignore(inner, taken, _inside(state, place)) and not _any_of(_looping_edges(state, place), taken)


def _any_of(some: Iterator[Edge], taken: Taken) -> bool:
    return any((edge.place, edge.slot) in taken for edge in some)


def open_lists(state: State, iterations: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The lists that may still grow: a variable, and the iterations of its outermost groups that the list is within.

    A loop may go on until it is left, also when it has as many events or iterations as it may have.
    """
    match state:
        case InSlot(slot=slot):
            if not slot.is_single:
                yield from _open((slot,), iterations)
        case InSequence(items=items, k=k, state=inner):
            yield from open_lists(inner, iterations)
            yield from _open(slots_of(items[k + 1 :]), iterations)
        case InShuffle(shuffle=shuffle, states=states):
            for number, operand in enumerate(states):
                if operand is None:
                    yield from _open(slots_of(shuffle.operands[number]), iterations)
                else:
                    yield from open_lists(operand, iterations)
        case InGroup(group=group, iteration=iteration, state=inner):
            yield from open_lists(inner, (*iterations, iteration))
            yield from _open(slots_of((group,)), iterations)


def _open(
    slots: Iterator[Slot] | tuple[Slot, ...], iterations: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for slot in slots:
        for n in range(len(iterations) + 1):
            yield slot.variable, iterations[:n]


__all__ = ["Edge", "InSequence", "State", "edges", "first_edges", "is_finished", "may_end", "may_ignore", "open_lists"]
