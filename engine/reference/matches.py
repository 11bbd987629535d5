"""The oracle: every match of a complete stream, by the definitions.

Slow on purpose: it searches, it does not index; numbers are exact; confidences are fractions. Sources: SASE+ section 3
(selection strategies, negation), SASE++ section 4 (possible worlds), DESIGN 2 and 3 where those are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.absence import Absence, has_absence
from engine.reference.any_match import Search
from engine.reference.arrangements import Arranger
from engine.reference.conditions import Condition, Keys, conditions_of, is_defined
from engine.reference.contexts import ScopedCondition, scoped
from engine.reference.demands import confidence_of_match, in_time
from engine.reference.existence import share_with_any
from engine.reference.expressions import NO_AGGREGATES, Aggregates, Binding, truth
from engine.reference.found import FoundMatch
from engine.reference.observed import ObservedEvent, observe
from engine.reference.placement import Placement
from engine.reference.places import Bound, Bounds, Kind, Nested, Step, nested_ids
from engine.reference.rows.returned import returned_values
from engine.reference.runs.pattern import PatternRuns
from engine.reference.runs.sequence import runs_matches
from engine.reference.shape import Items, Shape, Slot, is_plain, shape_of, slots_of


@dataclass(frozen=True)
class ReferenceMatch:
    """One match.

    `bindings` has the event ids of every positive variable of the branch in pattern order, in lists by iteration for
    components in repeated groups; `values` what RETURN asks for; `confidence` is 1 among precise events.
    """

    bindings: dict[str, tuple[Nested, ...]]
    confidence: Fraction
    values: dict[str, object]


def reference_matches(
    resolved: ResolvedQuery, batch: EventBatch, aggregates: Aggregates = NO_AGGREGATES
) -> list[ReferenceMatch]:
    """Every match of the complete stream with a confidence above 0, in stream order of last, first, ids.

    HAVING is applied; CONFIDENCE, windows of the query's own, SELECT FIRST, CONSUME, OUTPUT and LIMIT are not (see
    `reference_output`). `aggregates` gives the meaning of user-defined ones. Raises UnsupportedQueryError for what the
    oracle does not evaluate.
    """
    return [
        ReferenceMatch(found.ids, found.confidence, returned_values(resolved, found.binding, aggregates))
        for found in find_matches(resolved, observe(batch, resolved.schema), aggregates)
    ]


def find_matches(
    resolved: ResolvedQuery, events: Sequence[ObservedEvent], aggregates: Aggregates = NO_AGGREGATES
) -> list[FoundMatch]:
    """As `reference_matches` from events in stream order, with the events themselves."""
    query = resolved.query
    events = fitting(query, events)
    shape = shape_of(query.pattern)
    evaluation = _Evaluation(query, Keys(query, resolved.schema), events, shape, conditions_of(query, aggregates))
    ways: dict[object, list[FoundMatch]] = {}
    for branch in shape.branches:
        for found in evaluation.matches(branch):
            if query.having is None or _having_holds(query.having, found.binding, aggregates):
                ways.setdefault(tuple(sorted(found.ids.items())), []).append(found)

    def joined(own: Sequence[FoundMatch]) -> FoundMatch:
        """The most certain way, as certain as it is that the match is one in any of its ways."""
        best = max(own, key=lambda match: match.confidence)
        if len(own) == 1 or best.confidence == 1:
            return best
        return replace(best, confidence=share_with_any(resolved, events, own, aggregates), ways=tuple(own))

    return sorted(map(joined, ways.values()), key=listing_order)


def fitting(query: ast.Query, events: Sequence[ObservedEvent]) -> Sequence[ObservedEvent]:
    """Without the events of the pattern's types whose interval is longer than the window: they take no part."""
    if query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH or not isinstance(query.within_ms, int):
        return events
    named = {component.event_type for component, _ in ast.components(query.pattern)}
    return [e for e in events if e.event_type not in named or e.hi_ms - e.lo_ms <= query.within_ms]


def listing_order(found: FoundMatch) -> tuple[object, ...]:
    """Sort key of matches: the last event in stream order, then the first, then the bindings."""
    ids = tuple((variable, _comparable(ids)) for variable, ids in found.ids.items())
    return (found.sequence[-1].stream_order, found.sequence[0].stream_order, ids)


def _comparable(ids: Nested) -> tuple[object, ...]:
    """Lists before ids, so that any two bindings can be compared."""
    return (1, ids) if isinstance(ids, str) else (0, tuple(map(_comparable, ids)))


def _having_holds(having: ast.Expression, binding: Binding, aggregates: Aggregates) -> bool:
    """Three-valued; a HAVING that names a variable which the match does not have is not true, but for its count."""
    return is_defined(having, binding) and truth(having, binding, 1, aggregates) is True


@dataclass(frozen=True)
class _Evaluation:
    query: ast.Query
    keys: Keys
    events: Sequence[ObservedEvent]
    shape: Shape
    conditions: Sequence[Condition]

    def matches(self, branch: Items) -> Iterator[FoundMatch]:
        """The matches of one branch: candidates, then window and negation by confidence."""
        present = {slot.variable for slot in slots_of(branch)}
        # The bodies of a group, which a branch lists one after the other, need not have them in the pattern's order.
        variables = [c.variable for c, _ in ast.components(self.query.pattern) if c.variable in present]
        negating = [scoped(c, self.shape) for c in self.conditions if c.variables & self.shape.negated]
        for bounds in dict.fromkeys(self._candidates(branch)):
            sequence = in_time(bounds)
            position = self._positions(sequence)
            if position is not None and self._exceeds_count(sequence, position):
                continue
            confidence = confidence_of_match(bounds, self._within_ms, strict_ties=self._strict_ties)
            if confidence and has_absence(branch):
                confidence = self._absence(branch, negating, position).confidence(bounds)
            if confidence:
                ids = {v: nested_ids(v, self.shape.paths[v], bounds, is_list=v in self.shape.lists) for v in variables}
                binding = {v: tuple(bound.event for bound in bounds if bound.variable == v) for v in variables}
                yield FoundMatch(ids, binding, bounds, sequence, confidence, branch)

    def _absence(
        self,
        branch: Items,
        conditions: Sequence[ScopedCondition],
        position: Callable[[ObservedEvent], int] | None,
    ) -> Absence:
        return Absence(
            branch,
            conditions,
            self.events,
            self.keys,
            self._strict_ties,
            self._within_ms,
            self.query.within_events,
            position,
        )

    def _candidates(self, branch: Items) -> Iterator[Bounds]:
        """Events that satisfy keys, conditions and strategy, in an order that some world has."""
        strategy = self.query.strategy
        if strategy is None:
            raise UnsupportedQueryError(
                "the query names no selection strategy", expected="a strategy after WHERE", remedy="name one"
            )
        if strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
            self._refuse_imprecise(strategy.value)
        conditions = [c for c in self.conditions if not c.variables & self.shape.negated]
        if is_plain(branch):
            return self._plain_candidates(branch, strategy, conditions)
        bound = {slot.variable for slot in slots_of(branch)}
        in_groups = [scoped(condition, self.shape, bound) for condition in conditions]
        if any(not event.is_precise for event in self._named_events()):
            return self._imprecise_candidates(branch, in_groups)
        runs = PatternRuns(branch, in_groups, self.keys, strategy, self._strict_ties, self._within_ms)
        return runs.matches(self.events)

    def _plain_candidates(
        self, branch: Items, strategy: ast.Strategy, conditions: Sequence[Condition]
    ) -> Iterator[Bounds]:
        placement = Placement([item for item in branch if isinstance(item, Slot)], conditions)
        if strategy is ast.Strategy.SKIP_TILL_ANY_MATCH:
            search = Search(self.events, self.keys, self._strict_ties, self._within_ms)
            bindings = search.sequences(placement)
        else:
            bindings = runs_matches(self.events, self.keys, placement, strategy, strict_ties=self._strict_ties)
        for binding in bindings:
            yield tuple(
                Bound(item.variable, event, (Step(Kind.PART, k), Step(Kind.EVENT, n)))
                for k, item in enumerate(branch)
                if isinstance(item, Slot)
                for n, event in enumerate(binding[item.variable])
            )

    def _imprecise_candidates(self, branch: Items, conditions: Sequence[ScopedCondition]) -> Iterator[Bounds]:
        for bounds in Arranger(self.events, self.keys, self._strict_ties).arrangements(branch):
            if all(condition.holds(bounds) for condition in conditions):
                yield bounds

    def _named_events(self) -> Iterator[ObservedEvent]:
        named = {component.event_type for component, _ in ast.components(self.query.pattern)}
        return (event for event in self.events if event.event_type in named)

    def _refuse_imprecise(self, what: str, remedy: str = "use skip_till_any_match") -> None:
        """Selection by what comes next needs an order that all worlds share."""
        for event in self._named_events():
            if not event.is_precise:
                raise UnsupportedQueryError(
                    f"{what} is not defined over imprecise events: event {event.event_id} covers "
                    f"[{event.lo_ms}, {event.hi_ms}] ms",
                    expected="events with t_lo = t_hi",
                    remedy=remedy,
                )

    @property
    def _strict_ties(self) -> bool:
        return self.query.ties is ast.Ties.STRICT

    @property
    def _within_ms(self) -> int | None:
        within_ms = self.query.within_ms
        if isinstance(within_ms, ast.Parameter):
            raise UnsupportedQueryError(f"parameter :{within_ms.name} has no value", within_ms.span)
        return within_ms

    def _positions(self, sequence: Sequence[ObservedEvent]) -> Callable[[ObservedEvent], int] | None:
        """For WITHIN n EVENTS: the place of an event among the events of the match's partition, in stream order."""
        if self.query.within_events is None:
            return None
        self._refuse_imprecise("WITHIN n EVENTS", "use a window in time")
        key = self.keys.of(sequence)
        members = [event for event in self.events if self.keys.is_member(event, key)]
        return members.index

    def _exceeds_count(self, sequence: Sequence[ObservedEvent], position: Callable[[ObservedEvent], int]) -> bool:
        """A window of n events holds the first and the last event of the match."""
        assert self.query.within_events is not None
        return position(sequence[-1]) - position(sequence[0]) >= self.query.within_events


__all__ = ["ReferenceMatch", "find_matches", "fitting", "listing_order", "reference_matches"]
