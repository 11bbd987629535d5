"""Variables of a pattern: what each stands for, and the repeated groups around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.errors import QueryTypeError, Span
from engine.events import EventSchema
from engine.language.ast import Alternative, AnyOf, Component, Conjunction, Negation, Pattern, Repeat
from engine.language.source import did_you_mean


@dataclass(frozen=True)
class Checked:
    """The text that errors quote, and its name."""

    text: str | None
    name: str

    def error(
        self, span: Span | None, message: str, expected: str | None = None, remedy: str | None = None
    ) -> QueryTypeError:
        """The error at `span`."""
        return QueryTypeError(message, span, expected, remedy, self.text, self.name)


@dataclass(frozen=True)
class Variable:
    """What a variable of the pattern stands for.

    `kleene`: a list of events when seen from outside (a Kleene component, or a component inside a repeated group).
    `negated`: it stands below a negation and is bound in no match. `closure`: the component is a Kleene component by
    itself, of `at_least` to `at_most` (None: unbounded) events; one event otherwise. `path`: numbers of the repeated
    groups around it, outermost first; groups are numbered from 0 in textual order. `negation`: the number of the
    negated pattern that it stands in, these in textual order, too.
    """

    name: str
    event_type: str
    kleene: bool
    negated: bool
    span: Span | None = None
    closure: bool = False
    at_least: int = 1
    at_most: int | None = 1
    path: tuple[int, ...] = ()
    negation: int | None = None

    @property
    def list_path(self) -> tuple[int, ...]:
        """The groups inside which it is a list: a single component in a group is a list over that group's iterations,
        a Kleene component one in each of them."""
        return self.path if self.closure else self.path[:-1]


Scope = Mapping[str, Variable]
"""Variables by name, in textual order."""


def pattern_scope(pattern: Pattern, schema: EventSchema, checked: Checked, *, of_trends: bool = False) -> Scope:
    """The variables of `pattern`; raises QueryTypeError for unknown types and a variable of two components.

    `of_trends`: the parts of an outermost AND may share one: aggregates add over both trends of a pair then.
    """
    builder = _ScopeBuilder(schema, checked)
    return (
        builder.pairs(pattern) if of_trends and isinstance(pattern, Conjunction) else builder.scope(pattern, _OUTSIDE)
    )


@dataclass(frozen=True)
class _Place:
    """Where a pattern stands; `bounds` are those of a repetition right around it."""

    path: tuple[int, ...] = ()
    negation: int | None = None
    bounds: tuple[int, int | None] = (1, 1)


_OUTSIDE = _Place()


class _ScopeBuilder:
    """Collects the variables of a pattern, numbering the repeated groups on the way."""

    def __init__(self, schema: EventSchema, checked: Checked) -> None:
        self.schema = schema
        self.checked = checked
        self.n_groups = 0
        self.n_negations = 0

    def scope(self, pattern: Pattern, place: _Place) -> Scope:
        """The variables of `pattern`; raises QueryTypeError for unknown types and variables of two meanings."""
        match pattern:
            case Component():
                return {pattern.variable: self._variable(pattern, place)}
            case Negation(pattern=inner):
                number = self.n_negations
                self.n_negations += 1
                return self.scope(inner, replace(place, negation=number))
            case Repeat(pattern=inner, at_most=1):
                return self.scope(inner, place)
            case Repeat(pattern=Component(kleene=False) as inner, at_least=at_least, at_most=at_most):
                return self.scope(inner, replace(place, bounds=(at_least, at_most)))
            case Repeat(pattern=inner):
                number = self.n_groups
                self.n_groups += 1
                return self.scope(inner, replace(place, path=(*place.path, number)))
            case AnyOf(count=count, parts=parts) if count > len(parts):
                raise self.checked.error(
                    pattern.span, f"ANY({count}, ...) of {len(parts)} components", f"at most {len(parts)}"
                )
            case _:
                scope: dict[str, Variable] = {}
                for part in pattern.parts:
                    for variable in self.scope(part, place).values():
                        self._merge(scope, variable, exclusive=isinstance(pattern, Alternative))
                return scope

    def pairs(self, pattern: Conjunction) -> Scope:
        """The variables of the parts of an AND, of each of which a pair has a trend."""
        scope: dict[str, Variable] = {}
        for part in pattern.parts:
            for variable in self.scope(part, _OUTSIDE).values():
                first = scope.setdefault(variable.name, variable)
                if first is not variable and (
                    first.event_type != variable.event_type or first.negated or variable.negated
                ):
                    raise self.checked.error(
                        variable.span,
                        f"the variable {variable.name} stands for different things in the parts of an AND",
                        f"events of {first.event_type} in each of them, and no negated ones",
                        f"name one of them differently, as in {variable.event_type} {variable.name}2",
                    )
        return scope

    def _merge(self, scope: dict[str, Variable], variable: Variable, *, exclusive: bool) -> None:
        """Add a variable; parts of an OR may share one, since a match has only one of them."""
        first = scope.setdefault(variable.name, variable)
        if first is variable:
            return
        if not exclusive:
            raise self.checked.error(
                variable.span,
                f"the variable {variable.name} stands for two components",
                "a variable of its own for each component",
                f"name one of them differently, as in {variable.event_type} {variable.name}2",
            )
        if replace(first, span=None, negation=None) != replace(variable, span=None, negation=None):
            raise self.checked.error(
                variable.span,
                f"the variable {variable.name} stands for different things in the parts of an OR",
                f"{first.event_type}{'+' if first.closure else ''} {variable.name} in each of them, and in no repeated "
                "group of its own"
                if first.path != variable.path
                else f"{first.event_type}{'+' if first.closure else ''} {variable.name} in each of them",
                "name one of them differently",
            )

    def _variable(self, component: Component, place: _Place) -> Variable:
        if component.event_type not in self.schema.types:
            known = ", ".join(sorted(self.schema.types))
            raise self.checked.error(
                component.span,
                f"no event type is called {component.event_type}",
                f"one of {known}" if len(known) < 400 else f"one of the {len(self.schema.types)} types of the schema",
                did_you_mean(component.event_type, self.schema.types)
                or "use a type of the schema, or the name of a query that is compiled together with this one",
            )
        at_least, at_most = (1, None) if component.kleene else place.bounds
        closure = at_most != 1
        return Variable(
            name=component.variable,
            event_type=component.event_type,
            kleene=closure or bool(place.path),
            negated=place.negation is not None,
            span=component.span,
            closure=closure,
            at_least=at_least,
            at_most=at_most,
            path=place.path,
            negation=place.negation,
        )
