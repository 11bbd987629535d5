"""Variables of a pattern, and the checks of the pattern itself (SASE+ section 3; GRETA, Definition 1, for negation)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import QueryTypeError, Span
from engine.events import EventSchema
from engine.language.ast import Alternative, AnyOf, Component, Conjunction, Negation, Pattern, Repeat, Sequence
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
    groups around it, outermost first; groups are numbered from 0 in textual order.
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

    @property
    def list_path(self) -> tuple[int, ...]:
        """The groups inside which it is a list: a single component in a group is a list over that group's iterations,
        a Kleene component one in each of them."""
        return self.path if self.closure else self.path[:-1]


Scope = dict[str, Variable]
"""Variables by name, in textual order."""


def pattern_scope(pattern: Pattern, schema: EventSchema, checked: Checked) -> Scope:
    """The variables of `pattern`; raises QueryTypeError for a pattern that cannot be evaluated.

    Refused: unknown event types, a variable that stands for two components of one match, a pattern that matches
    without any event, a negation that is no part of a sequence.
    """
    scope = _ScopeBuilder(schema, checked).scope(pattern, _OUTSIDE)
    _check_negations(pattern, checked, in_sequence=False)
    _check_nullable(pattern, checked)
    if _nullable(pattern):
        only_negations = not any(not variable.negated for variable in scope.values())
        raise checked.error(
            pattern.span,
            "the pattern has only negated parts" if only_negations else "the pattern can match without any event",
            "at least one component that every match has",
            "add the event after (or before) which the others must be absent"
            if only_negations
            else "make one component mandatory: leave out its ? or *",
        )
    return scope


@dataclass(frozen=True)
class _Place:
    """Where a pattern stands; `bounds` are those of a repetition right around it."""

    path: tuple[int, ...] = ()
    negated: bool = False
    bounds: tuple[int, int | None] = (1, 1)


_OUTSIDE = _Place()


class _ScopeBuilder:
    """Collects the variables of a pattern, numbering the repeated groups on the way."""

    def __init__(self, schema: EventSchema, checked: Checked) -> None:
        self.schema = schema
        self.checked = checked
        self.n_groups = 0

    def scope(self, pattern: Pattern, place: _Place) -> Scope:
        """The variables of `pattern`; raises QueryTypeError for unknown types and variables of two meanings."""
        match pattern:
            case Component():
                return {pattern.variable: self._variable(pattern, place)}
            case Negation(pattern=inner):
                return self.scope(inner, replace(place, negated=True))
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
                scope: Scope = {}
                for part in pattern.parts:
                    for variable in self.scope(part, place).values():
                        self._merge(scope, variable, exclusive=isinstance(pattern, Alternative))
                return scope

    def _merge(self, scope: Scope, variable: Variable, *, exclusive: bool) -> None:
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
        if replace(first, span=None) != replace(variable, span=None):
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
                did_you_mean(component.event_type, self.schema.types),
            )
        at_least, at_most = (1, None) if component.kleene else place.bounds
        closure = at_most != 1
        return Variable(
            name=component.variable,
            event_type=component.event_type,
            kleene=closure or bool(place.path),
            negated=place.negated,
            span=component.span,
            closure=closure,
            at_least=at_least,
            at_most=at_most,
            path=place.path,
        )


def _check_negations(pattern: Pattern, checked: Checked, *, in_sequence: bool) -> None:
    match pattern:
        case Component():
            return
        case Negation(pattern=inner, span=span):
            if not in_sequence:
                raise checked.error(
                    span,
                    "a negation that is no part of a sequence",
                    "SEQ(A a, !B b, C c): absence before, between or after other parts",
                    "put it into a SEQ beside the events whose neighbourhood must be free of it",
                )
            _check_negations(inner, checked, in_sequence=False)
            if _nullable(inner):
                raise checked.error(
                    span,
                    "the negated pattern can match without any event, so that no match would remain",
                    remedy="leave out its ? or *",
                )
        case Repeat(pattern=inner):
            _check_negations(inner, checked, in_sequence=False)
        case _:
            for part in pattern.parts:
                _check_negations(part, checked, in_sequence=isinstance(pattern, Sequence))


def _check_nullable(pattern: Pattern, checked: Checked) -> None:
    """Refuse an unbounded repetition of what may be nothing: it would match in endlessly many ways."""
    match pattern:
        case Component():
            return
        case Repeat(pattern=inner, at_most=at_most, span=span):
            if at_most != 1 and _nullable(inner):
                raise checked.error(
                    span,
                    "a repeated pattern can match without any event",
                    "a repetition of a pattern with a mandatory component",
                    "leave out the ? or * inside",
                )
            _check_nullable(inner, checked)
        case Negation(pattern=inner):
            _check_nullable(inner, checked)
        case _:
            for part in pattern.parts:
                _check_nullable(part, checked)


def _nullable(pattern: Pattern) -> bool:
    match pattern:
        case Component() | AnyOf():
            return False
        case Negation():
            return True
        case Repeat(pattern=inner, at_least=at_least):
            return at_least == 0 or _nullable(inner)
        case Alternative(parts=parts):
            return any(_nullable(part) for part in parts)
        case Sequence(parts=parts) | Conjunction(parts=parts):
            return all(_nullable(part) for part in parts)
