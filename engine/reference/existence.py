"""P(at least one of several matches): the share of worlds in which one of them is a match (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.absence import Absence
from engine.reference.conditions import Keys, conditions_of
from engine.reference.contexts import scoped
from engine.reference.demands import check_worlds
from engine.reference.expressions import NO_AGGREGATES, Aggregates
from engine.reference.found import FoundMatch
from engine.reference.observed import ObservedEvent
from engine.reference.shape import shape_of
from engine.reference.worlds import World, n_worlds, worlds_of


def share_with_any(
    resolved: ResolvedQuery,
    events: Sequence[ObservedEvent],
    found: Sequence[FoundMatch],
    aggregates: Aggregates = NO_AGGREGATES,
) -> Fraction:
    """P(at least one of the matches that `find_matches` found in these events happened).

    Raises UnsupportedQueryError when the events that decide about them have too many worlds to list.
    """
    query = resolved.query
    shape = shape_of(query.pattern)
    negating = [scoped(c, shape) for c in conditions_of(query, aggregates) if c.variables & shape.negated]
    keys, strict_ties = Keys(query, resolved.schema), query.ties is ast.Ties.STRICT
    deciding: dict[str, ObservedEvent] = {}
    tests: list[Callable[[World], bool]] = []
    for match in (way for each in found for way in each.ways or (each,)):
        absence = Absence(match.branch, negating, events, keys, strict_ties, resolved.within_ms, None, None)
        own, test = absence.test_of(match.bounds)
        deciding |= {event.event_id: event for event in own}
        tests.append(test)
    check_worlds(n_worlds(list(deciding.values())), "the events that decide about several matches")
    return sum(
        (share for world, share in worlds_of(list(deciding.values())) if any(test(world) for test in tests)),
        start=Fraction(0),
    )


__all__ = ["share_with_any"]
