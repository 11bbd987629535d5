"""Variables of a pattern, and the checks of the pattern itself (SASE+ section 3; GRETA, Definition 1, for negation)."""

from __future__ import annotations

from dataclasses import dataclass

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

    `kleene`: a list of events (a Kleene component, or a component inside a repeated pattern). `negated`: it stands
    below a negation and is bound in no match.
    """

    name: str
    event_type: str
    kleene: bool
    negated: bool
    span: Span | None = None


Scope = dict[str, Variable]
"""Variables by name, in textual order."""


def pattern_scope(pattern: Pattern, schema: EventSchema, checked: Checked) -> Scope:
    """The variables of `pattern`; raises QueryTypeError for a pattern that cannot be evaluated.

    Refused: unknown event types, a variable that stands for two components of one match, a pattern that matches
    without any event, a negation that is no part of a sequence.
    """
    scope = _scope(pattern, schema, checked, repeated=False, negated=False)
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


def _scope(pattern: Pattern, schema: EventSchema, checked: Checked, *, repeated: bool, negated: bool) -> Scope:
    match pattern:
        case Component():
            return {pattern.variable: _variable(pattern, schema, checked, repeated=repeated, negated=negated)}
        case Negation(pattern=inner):
            return _scope(inner, schema, checked, repeated=repeated, negated=True)
        case Repeat(pattern=inner, at_most=at_most):
            return _scope(inner, schema, checked, repeated=repeated or at_most != 1, negated=negated)
        case AnyOf(count=count, parts=parts) if count > len(parts):
            raise checked.error(pattern.span, f"ANY({count}, ...) of {len(parts)} components", f"at most {len(parts)}")
        case _:
            scope: Scope = {}
            for part in pattern.parts:
                for variable in _scope(part, schema, checked, repeated=repeated, negated=negated).values():
                    _merge(scope, variable, checked, exclusive=isinstance(pattern, Alternative))
            return scope


def _merge(scope: Scope, variable: Variable, checked: Checked, *, exclusive: bool) -> None:
    """Add a variable; parts of an OR may share one, since a match has only one of them."""
    first = scope.setdefault(variable.name, variable)
    if first is variable:
        return
    if not exclusive:
        raise checked.error(
            variable.span,
            f"the variable {variable.name} stands for two components",
            "a variable of its own for each component",
            f"name one of them differently, as in {variable.event_type} {variable.name}2",
        )
    if (first.event_type, first.kleene, first.negated) != (variable.event_type, variable.kleene, variable.negated):
        raise checked.error(
            variable.span,
            f"the variable {variable.name} stands for different things in the parts of an OR",
            f"{first.event_type}{'+' if first.kleene else ''} {variable.name} in each of them",
            "name one of them differently",
        )


def _variable(
    component: Component, schema: EventSchema, checked: Checked, *, repeated: bool, negated: bool
) -> Variable:
    if component.event_type not in schema.types:
        known = ", ".join(sorted(schema.types))
        raise checked.error(
            component.span,
            f"no event type is called {component.event_type}",
            f"one of {known}" if len(known) < 400 else f"one of the {len(schema.types)} types of the schema",
            did_you_mean(component.event_type, schema.types),
        )
    return Variable(component.variable, component.event_type, component.kleene or repeated, negated, component.span)


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
