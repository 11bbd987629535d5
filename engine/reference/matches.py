"""The oracle: every match of a complete stream, by the definitions.

Slow on purpose: it searches, it does not index; numbers are exact; confidences are fractions. Sources: SASE+ section 3
(selection strategies, negation), SASE++ section 4 (possible worlds), DESIGN 2 and 3 where those are silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.absence import Absence
from engine.reference.any_match import Search, events_of
from engine.reference.conditions import Keys, Placement, conditions_of, references
from engine.reference.expressions import Binding, truth
from engine.reference.observed import ObservedEvent, observe
from engine.reference.returned import returned_values
from engine.reference.runs import runs_matches
from engine.reference.shape import PlainPattern, plain_patterns
from engine.reference.worlds import confidence_of


@dataclass(frozen=True)
class ReferenceMatch:
    """One match.

    `bindings` has the event ids of every positive variable in pattern order; `values` what RETURN asks for;
    `confidence` is 1 among precise events.
    """

    bindings: dict[str, tuple[str, ...]]
    confidence: Fraction
    values: dict[str, object]


@dataclass(frozen=True)
class FoundMatch:
    """A match with its events: `sequence` is all of them in pattern order, hence in the order of the match."""

    binding: Binding
    sequence: tuple[ObservedEvent, ...]
    confidence: Fraction

    @property
    def ids(self) -> dict[str, tuple[str, ...]]:
        """Event ids by variable."""
        return {variable: tuple(event.event_id for event in events) for variable, events in self.binding.items()}


def reference_matches(resolved: ResolvedQuery, batch: EventBatch) -> list[ReferenceMatch]:
    """Every match of the complete stream with a confidence above 0, in stream order of last, first, ids.

    HAVING is applied; CONFIDENCE, OUTPUT and LIMIT are not (see `reference_output`). Raises UnsupportedQueryError for
    what the oracle does not evaluate.
    """
    return [
        ReferenceMatch(found.ids, found.confidence, returned_values(resolved, found.binding))
        for found in find_matches(resolved, batch)
    ]


def find_matches(resolved: ResolvedQuery, batch: EventBatch) -> list[FoundMatch]:
    """As `reference_matches`, with the events themselves."""
    query = resolved.query
    _refuse_clauses(query)
    events = observe(batch, resolved.schema)
    evaluation = _Evaluation(query, Keys(query, resolved.schema), events)
    unique: dict[tuple[tuple[str, tuple[str, ...]], ...], FoundMatch] = {}
    for pattern in plain_patterns(query.pattern):
        for found in evaluation.matches(pattern):
            if query.having is None or _having_holds(query.having, found.binding):
                unique.setdefault(tuple(sorted(found.ids.items())), found)
    return sorted(unique.values(), key=listing_order)


def _refuse_clauses(query: ast.Query) -> None:
    for keyword, present in (
        ("SLIDE", query.slide_ms is not None),
        ("OPEN ON", query.open_on is not None),
        ("SELECT FIRST", query.select_first),
        ("CONSUME", bool(query.consume)),
    ):
        if present:
            raise UnsupportedQueryError(f"the oracle does not evaluate {keyword}", query.clause_span(keyword))


def listing_order(found: FoundMatch) -> tuple[object, ...]:
    """Sort key of matches: the last event in stream order, then the first, then the bindings."""
    return (found.sequence[-1].stream_order, found.sequence[0].stream_order, tuple(found.ids.items()))


def _having_holds(having: ast.Expression, binding: Binding) -> bool:
    """Three-valued; a HAVING that names a variable which the match does not have is not true."""
    if any(reference.variable not in binding for reference in references(having)):
        return False
    return truth(having, binding, 1) is True


@dataclass(frozen=True)
class _Evaluation:
    query: ast.Query
    keys: Keys
    events: Sequence[ObservedEvent]

    def matches(self, pattern: PlainPattern) -> Iterator[FoundMatch]:
        """The matches of one plain pattern: candidates, then window and negation by confidence."""
        conditions = conditions_of(self.query)
        search = Search(self.events, self.keys, self._strict_ties, self._within_ms)
        for binding in self._candidates(Placement(pattern, conditions), search):
            sequence = events_of(binding, pattern.slots)
            position = self._positions(sequence)
            if position is not None and self._exceeds_count(sequence, position):
                continue
            confidence = confidence_of(sequence, search.within_ms, strict_ties=search.strict_ties)
            if confidence and pattern.negated:
                absence = Absence(pattern, conditions, search, self.query.within_events, position)
                confidence = absence.confidence(binding, sequence)
            if confidence:
                yield FoundMatch(
                    {slot.variable: binding[slot.variable] for slot in pattern.slots}, sequence, confidence
                )

    def _candidates(self, placement: Placement, search: Search) -> Iterator[Binding]:
        strategy = self.query.strategy
        if strategy is ast.Strategy.SKIP_TILL_ANY_MATCH:
            return search.sequences(placement)
        if strategy is None:
            raise UnsupportedQueryError(
                "the query names no selection strategy", expected="a strategy after WHERE", remedy="name one"
            )
        self._refuse_imprecise(strategy.value)
        return runs_matches(self.events, self.keys, placement, strategy, strict_ties=self._strict_ties)

    def _refuse_imprecise(self, what: str) -> None:
        """Selection by what comes next needs an order that all worlds share."""
        named = {component.event_type for component, _ in ast.components(self.query.pattern)}
        for event in self.events:
            if event.event_type in named and not event.is_precise:
                raise UnsupportedQueryError(
                    f"{what} is not defined over imprecise events: event {event.event_id} covers "
                    f"[{event.lo_ms}, {event.hi_ms}] ms",
                    expected="events with t_lo = t_hi",
                    remedy="use skip_till_any_match",
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
        self._refuse_imprecise("WITHIN n EVENTS")
        key = self.keys.of(sequence)
        members = [event for event in self.events if self.keys.is_member(event, key)]
        return members.index

    def _exceeds_count(self, sequence: Sequence[ObservedEvent], position: Callable[[ObservedEvent], int]) -> bool:
        """A window of n events holds the first and the last event of the match."""
        assert self.query.within_events is not None
        return position(sequence[-1]) - position(sequence[0]) >= self.query.within_events


__all__ = ["FoundMatch", "ReferenceMatch", "find_matches", "listing_order", "reference_matches"]
