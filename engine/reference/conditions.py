"""The WHERE clause against bound events: which instances a conjunct has, and when each can be decided.

`b[i]` stands for every event of b for which all terms of the conjunct exist: `b[i-1]` and `b[..i-1]` from i = 2 on. A
conjunct on b's own attributes alone means i > 1 when another conjunct constrains `b[1]` alone: SASE+'s begin and take
predicates (DESIGN 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.events import EventSchema
from engine.language import ast
from engine.reference.expressions import Binding, truth
from engine.reference.observed import ObservedEvent
from engine.reference.shape import PlainPattern, Slot

_ITERATED = (ast.Index.CURRENT, ast.Index.PREVIOUS, ast.Range.BEFORE_CURRENT)
_FROM_SECOND = (ast.Index.PREVIOUS, ast.Range.BEFORE_CURRENT)
_WHOLE = (ast.Index.LAST, ast.Range.ALL, ast.Range.BEFORE_LAST)


@dataclass(frozen=True)
class Condition:
    """A conjunct of WHERE: `holds(binding, i)`, for i from `first_i` on when it iterates over variables."""

    expression: ast.Expression
    variables: frozenset[str]
    iterated: frozenset[str]
    whole: frozenset[str]
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


def references(expression: ast.Expression) -> list[ast.Attribute | ast.Aggregate]:
    """Every attribute and aggregate in an expression."""
    return [node for node in ast.walk(expression) if isinstance(node, ast.Attribute | ast.Aggregate)]


def conditions_of(query: ast.Query) -> list[Condition]:
    """All conjuncts of WHERE, with the `[v.x]` equivalences that bind one variable's own events together."""
    conjuncts = [part for predicate in query.predicates for part in _conjuncts(predicate)]
    begins = {variable for conjunct in conjuncts if (variable := _begin_only(conjunct)) is not None}
    conditions = [_condition(conjunct, begins) for conjunct in conjuncts]
    limited = [_same_value(item) for item in query.equivalences if item.variable is not None]
    return conditions + limited


def _conjuncts(expression: ast.Expression) -> Iterator[ast.Expression]:
    if isinstance(expression, ast.AllOf):
        for operand in expression.operands:
            yield from _conjuncts(operand)
    else:
        yield expression


def _place(reference: ast.Attribute | ast.Aggregate) -> ast.Index | ast.Range:
    return reference.index if isinstance(reference, ast.Attribute) else reference.range


def _begin_only(conjunct: ast.Expression) -> str | None:
    """The variable b when a conjunct constrains `b[1]` alone."""
    found = references(conjunct)
    variables = {reference.variable for reference in found}
    if len(variables) == 1 and all(_place(reference) is ast.Index.FIRST for reference in found):
        return variables.pop()
    return None


def _condition(conjunct: ast.Expression, begins: set[str]) -> Condition:
    found = references(conjunct)
    variables = frozenset(reference.variable for reference in found)
    first_i = 2 if any(_place(reference) in _FROM_SECOND for reference in found) else 1
    is_own = len(variables) == 1 and any(_place(reference) is ast.Index.CURRENT for reference in found)
    if is_own and variables <= begins:
        first_i = 2
    return Condition(
        conjunct,
        variables,
        frozenset(reference.variable for reference in found if _place(reference) in _ITERATED),
        frozenset(reference.variable for reference in found if _place(reference) in _WHOLE),
        first_i,
        lambda binding, i: truth(conjunct, binding, i) is True,
    )


def _same_value(equivalence: ast.Equivalence) -> Condition:
    """`[v.x]`: every event of v has the x of its first one, itself included: one without a value equals none."""
    assert equivalence.variable is not None
    variable, name = equivalence.variable, equivalence.attribute
    current = ast.Attribute(variable, ast.Index.CURRENT, name)
    first = ast.Attribute(variable, ast.Index.FIRST, name)
    equal = ast.Comparison("=", current, first)
    only = frozenset({variable})
    return Condition(equal, only, only, frozenset(), 1, lambda binding, i: truth(equal, binding, i) is True)


class Placement:
    """Conditions by the step at which they can first be decided (SASE+ section 3.2, step 2).

    A conjunct belongs to its last component in the pattern: to the event of a single one (`begin`), to each event
    b[i] of a Kleene one when it iterates over it or names b[1], and to the completed b (`proceed`) when it names b's
    last event or an aggregate over all of b.
    """

    def __init__(self, pattern: PlainPattern, conditions: Sequence[Condition]) -> None:
        self.slots = pattern.slots
        self._at_event: dict[int, list[Condition]] = {k: [] for k in range(len(pattern.slots))}
        self._at_proceed: dict[int, list[Condition]] = {k: [] for k in range(len(pattern.slots))}
        number = {slot.variable: k for k, slot in enumerate(pattern.slots)}
        for condition in conditions:
            if not condition.variables <= number.keys():
                continue  # it names a negated variable, or one of an alternative that is not taken here
            last = max((number[variable] for variable in condition.variables), default=0)
            at_proceed = self.slots[last].variable in condition.whole
            (self._at_proceed if at_proceed else self._at_event)[last].append(condition)

    def accepts_event(self, k: int, binding: Binding) -> bool:
        """Whether what slot k's newest event decides is true; it is in `binding` already."""
        variable = self.slots[k].variable
        i = len(binding[variable])
        for condition in self._at_event[k]:
            if self.slots[k].is_single and variable not in condition.iterated:
                if not condition.holds_for_all(binding):
                    return False
            elif variable in condition.iterated:
                if i in condition.instances(binding) and not condition.holds(binding, i):
                    return False
            elif i == 1 and not condition.holds_for_all(binding):
                return False
        return True

    def may_proceed(self, k: int, binding: Binding) -> bool:
        """Whether slot k may end here: it has events enough, and what its completion decides is true."""
        slot = self.slots[k]
        n_events = len(binding[slot.variable])
        if n_events < slot.at_least or not slot.allows(n_events):
            return False
        return all(condition.holds_for_all(binding) for condition in self._at_proceed[k])


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

    def is_member(self, event: ObservedEvent, key: Mapping[str, ObservedEvent]) -> bool:
        """Whether an event belongs to the partition of `key`: keyed with its values, or broadcast."""
        return all(self._agree_on(name, (event, other)) for name, other in key.items())


def bind(binding: Binding, slot: Slot, event: ObservedEvent) -> dict[str, Sequence[ObservedEvent]]:
    """The binding with one more event for the slot's variable."""
    return {**binding, slot.variable: (*binding.get(slot.variable, ()), event)}


__all__ = ["Condition", "Keys", "Placement", "bind", "conditions_of", "references"]
