"""The oracle's own check: no search at all, every choice of events for every slot, judged as a whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.conditions import conditions_of
from engine.reference.observed import ObservedEvent, observe

Ids = tuple[tuple[str, tuple[str, ...]], ...]


def brute_force(resolved: ResolvedQuery, batch: EventBatch) -> dict[Ids, Fraction]:
    """Matches of SEQ of (Kleene, negated) components under skip till any match, by worlds of the whole stream."""
    query = resolved.query
    assert isinstance(query.pattern, ast.Sequence)
    parts = [_part(part) for part in query.pattern.parts]
    assert resolved.within_ms is not None
    # What is longer than the window takes no part; all types of the pattern stand in its parts.
    types = {component.event_type for component, _ in parts}
    events = [
        event
        for event in observe(batch, resolved.schema)
        if event.event_type not in types or event.hi_ms - event.lo_ms <= resolved.within_ms
    ]
    found: dict[Ids, Fraction] = {}
    worlds = list(_worlds(events))
    negated = [component.variable for component, is_negated in parts if is_negated]
    positive = [component for component, is_negated in parts if not is_negated]
    conditions = conditions_of(query)
    plain = [c for c in conditions if not c.variables & set(negated)]
    for binding in _bindings(positive, events):
        sequence = [event for component in positive for event in binding[component.variable]]
        if not _same_key(resolved, sequence) or not all(c.holds_for_all(binding) for c in plain):
            continue
        share = Fraction(0)
        for world, p in worlds:
            if _in_order(sequence, world, resolved) and not _forbidden(binding, sequence, world, resolved, events):
                share += p
        if share:
            found[tuple((v, tuple(e.event_id for e in bound)) for v, bound in binding.items())] = share
    return found


def _part(part: ast.Pattern) -> tuple[ast.Component, bool]:
    if isinstance(part, ast.Negation):
        assert isinstance(part.pattern, ast.Component)
        return part.pattern, True
    assert isinstance(part, ast.Component)
    return part, False


def _bindings(
    positive: list[ast.Component], events: list[ObservedEvent]
) -> Iterator[dict[str, tuple[ObservedEvent, ...]]]:
    choices = []
    for component in positive:
        own = [event for event in events if event.event_type == component.event_type]
        sizes = range(1, len(own) + 1) if component.kleene else range(1, 2)
        choices.append([chosen for size in sizes for chosen in itertools.permutations(own, size)])
    for chosen in itertools.product(*choices):
        flat = [event for events_of_slot in chosen for event in events_of_slot]
        if len(set(flat)) == len(flat):
            yield dict(zip((component.variable for component in positive), chosen, strict=True))


def _same_key(resolved: ResolvedQuery, events: list[ObservedEvent]) -> bool:
    for name in resolved.key:
        values = {event.values[name] for event in events if name in resolved.schema.types[event.event_type]}
        if None in values or len(values) > 1:
            return False
    return True


def _worlds(events: list[ObservedEvent]) -> Iterator[tuple[dict[str, int], Fraction]]:
    for points in itertools.product(*(event.times.items() for event in events)):
        share = Fraction(1)
        for _, p in points:
            share *= p
        yield {event.event_id: time_ms for event, (time_ms, _) in zip(events, points, strict=True)}, share


def _before(a: ObservedEvent, b: ObservedEvent, world: dict[str, int], resolved: ResolvedQuery) -> bool:
    if a.lo_ms == a.hi_ms and b.lo_ms == b.hi_ms:
        if resolved.query.ties is ast.Ties.STRICT:
            return a.lo_ms < b.lo_ms
        return (a.lo_ms, a.source_rank, a.source_seq) < (b.lo_ms, b.source_rank, b.source_seq)
    if a.clock_id and a.clock_id == b.clock_id:
        return (a.hi_ms, a.source_seq) < (b.hi_ms, b.source_seq)
    return world[a.event_id] < world[b.event_id]


def _in_order(sequence: list[ObservedEvent], world: dict[str, int], resolved: ResolvedQuery) -> bool:
    assert resolved.within_ms is not None
    if world[sequence[-1].event_id] - world[sequence[0].event_id] > resolved.within_ms:
        return False
    return all(_before(a, b, world, resolved) for a, b in itertools.pairwise(sequence))


def _forbidden(
    binding: dict[str, tuple[ObservedEvent, ...]],
    sequence: list[ObservedEvent],
    world: dict[str, int],
    resolved: ResolvedQuery,
    events: list[ObservedEvent],
) -> bool:
    assert isinstance(resolved.query.pattern, ast.Sequence)
    assert resolved.within_ms is not None
    parts = [_part(part) for part in resolved.query.pattern.parts]
    for number, (component, is_negated) in enumerate(parts):
        if not is_negated:
            continue
        left = [binding[c.variable][-1] for c, negated in parts[:number] if not negated]
        right = [binding[c.variable][0] for c, negated in parts[number:] if not negated]
        for event in events:
            if event.event_type != component.event_type or event in sequence:
                continue
            time_ms = world[event.event_id]
            if left and not _before(left[-1], event, world, resolved):
                continue
            if not left and time_ms < world[sequence[-1].event_id] - resolved.within_ms:
                continue
            if right and not _before(event, right[0], world, resolved):
                continue
            if not right and time_ms > world[sequence[0].event_id] + resolved.within_ms:
                continue
            whole = {**binding, component.variable: (event,)}
            named = [c for c in conditions_of(resolved.query) if component.variable in c.variables]
            if _same_key(resolved, [*sequence, event]) and all(c.holds_for_all(whole) for c in named):
                return True
    return False
