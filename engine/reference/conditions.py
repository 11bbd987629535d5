"""The WHERE clause against bound events: which instances a conjunct has, and when each can be decided.

`b[i]` stands for every event of b for which all terms of the conjunct exist: `b[i-1]` and `b[..i-1]` from i = 2 on. A
conjunct on attributes of b alone means i > 1 when another conjunct constrains `b[1]` alone: SASE+'s begin and take
predicates (DESIGN 3); one with an aggregate relates its events to a list, and asks all of them. Under repeated groups a
conjunct holds in every iteration of its context (see `contexts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.events import EventSchema
from engine.language import ast
from engine.reference.expressions import NO_AGGREGATES, Aggregates, Binding, truth
from engine.reference.observed import ObservedEvent

Reference = ast.Attribute | ast.Aggregate

_ITERATED = (ast.Index.CURRENT, ast.Index.PREVIOUS, ast.Range.BEFORE_CURRENT)
_FROM_SECOND = (ast.Index.PREVIOUS, ast.Range.BEFORE_CURRENT)
_WHOLE = (ast.Index.LAST, ast.Range.ALL, ast.Range.BEFORE_LAST)


@dataclass(frozen=True)
class Condition:
    """A conjunct of WHERE: `holds(binding, i)`, for i from `first_i` on when it iterates over variables.

    `whole` are the variables of which it needs the complete list, `plain` those that it names without an index.
    """

    expression: ast.Expression
    variables: frozenset[str]
    iterated: frozenset[str]
    whole: frozenset[str]
    plain: frozenset[str]
    first_i: int
    holds: Callable[[Binding, int], bool]

    def instances(self, binding: Binding) -> range:
        """The values of i for which all terms exist under a complete binding."""
        if not self.iterated:
            return range(1, 2)
        return range(self.first_i, min(len(binding[variable]) for variable in self.iterated) + 1)

    def holds_for_all(self, binding: Binding) -> bool:
        """Whether every instance is true (unknown is not) under a complete binding."""
        return all(self.holds(binding, i) for i in self.instances(binding))

    def applies_without(self, absent: frozenset[str]) -> bool:
        """Whether it says something about a match without these variables: they are only counted, as none."""
        return all(_is_count(node) for node in references(self.expression) if node.variable in absent)


def references(expression: ast.Expression) -> list[Reference]:
    """Every attribute and aggregate in an expression."""
    return [node for node in ast.walk(expression) if isinstance(node, ast.Attribute | ast.Aggregate)]


def is_defined(expression: ast.Expression, binding: Binding) -> bool:
    """Whether all terms of an expression about a whole match exist; the count of an absent variable does, as 0."""
    return all(binding.get(node.variable) or _is_count(node) for node in references(expression))


def conditions_of(query: ast.Query, aggregates: Aggregates = NO_AGGREGATES) -> list[Condition]:
    """All conjuncts of WHERE, with the `[v.x]` equivalences that bind one variable's own events together."""
    conjuncts = [part for predicate in query.predicates for part in _conjuncts(predicate)]
    begins = {variable for conjunct in conjuncts if (variable := _begin_only(conjunct)) is not None}
    conditions = [_condition(conjunct, begins, aggregates) for conjunct in conjuncts]
    limited = [_same_value(item) for item in query.equivalences if item.variable is not None]
    return conditions + limited


def _is_count(node: Reference) -> bool:
    return isinstance(node, ast.Aggregate) and node.function == "count" and node.range is ast.Range.ALL


def _conjuncts(expression: ast.Expression) -> Iterator[ast.Expression]:
    if isinstance(expression, ast.AllOf):
        for operand in expression.operands:
            yield from _conjuncts(operand)
    else:
        yield expression


def _place(reference: Reference) -> ast.Index | ast.Range:
    return reference.index if isinstance(reference, ast.Attribute) else reference.range


def _begin_only(conjunct: ast.Expression) -> str | None:
    """The variable b when a conjunct constrains `b[1]` alone."""
    found = references(conjunct)
    variables = {reference.variable for reference in found}
    if len(variables) == 1 and all(_place(reference) is ast.Index.FIRST for reference in found):
        return variables.pop()
    return None


def _condition(conjunct: ast.Expression, begins: set[str], aggregates: Aggregates) -> Condition:
    found = references(conjunct)
    variables = frozenset(reference.variable for reference in found)
    first_i = 2 if any(_place(reference) in _FROM_SECOND for reference in found) else 1
    is_take = any(_place(reference) is ast.Index.CURRENT for reference in found) and not any(
        isinstance(reference, ast.Aggregate) for reference in found
    )
    if is_take and len(variables) == 1 and variables <= begins:
        first_i = 2
    return Condition(
        conjunct,
        variables,
        frozenset(reference.variable for reference in found if _place(reference) in _ITERATED),
        frozenset(reference.variable for reference in found if _place(reference) in _WHOLE),
        frozenset(reference.variable for reference in found if _place(reference) is ast.Index.SINGLE),
        first_i,
        lambda binding, i: truth(conjunct, binding, i, aggregates) is True,
    )


def _same_value(equivalence: ast.Equivalence) -> Condition:
    """`[v.x]`: every event of v has the x of its first one, itself included: one without a value equals none."""
    assert equivalence.variable is not None
    variable, name = equivalence.variable, equivalence.attribute
    current = ast.Attribute(variable, ast.Index.CURRENT, name)
    first = ast.Attribute(variable, ast.Index.FIRST, name)
    equal = ast.Comparison("=", current, first)
    only, none = frozenset({variable}), frozenset[str]()
    return Condition(equal, only, only, none, none, 1, lambda binding, i: truth(equal, binding, i) is True)


class Keys:
    """The `[x]` equivalences: equal x among all bound components whose type has x."""

    def __init__(self, query: ast.Query, schema: EventSchema) -> None:
        self.attributes = tuple(item.attribute for item in query.equivalences if item.variable is None)
        self._types = {name: schema.types_with(name) for name in self.attributes}

    def agree(self, events: Sequence[ObservedEvent]) -> bool:
        """Whether these events can be in one match: one known value for each attribute, among the types having it."""
        return all(self._agree_on(name, events) for name in self.attributes)

    def _agree_on(self, name: str, events: Sequence[ObservedEvent]) -> bool:
        values = [event.values.get(name) for event in events if event.event_type in self._types[name]]
        return None not in values and len(set(values)) <= 1

    def of(self, events: Sequence[ObservedEvent]) -> dict[str, ObservedEvent]:
        """Attribute -> an event that has it, for the attributes that these events have."""
        owners: dict[str, ObservedEvent] = {}
        for name in self.attributes:
            for event in events:
                if event.event_type in self._types[name]:
                    owners.setdefault(name, event)
        return owners

    def constrained(self, event_types: frozenset[str]) -> tuple[str, ...]:
        """The attributes that at least one of these types has."""
        return tuple(name for name in self.attributes if self._types[name] & event_types)

    def is_member(self, event: ObservedEvent, key: Mapping[str, ObservedEvent]) -> bool:
        """Whether an event belongs to the partition of `key`: keyed with its values, or broadcast."""
        return all(self._agree_on(name, (event, other)) for name, other in key.items())


__all__ = ["Condition", "Keys", "Reference", "conditions_of", "is_defined", "references"]
