"""Parse tree of the PATTERN clause -> pattern nodes."""

from __future__ import annotations

from lark import Token

from engine.language.ast import (
    Alternative,
    AnyOf,
    Component,
    Conjunction,
    Negation,
    Pattern,
    Repeat,
    Sequence,
)
from engine.language.source import Branch, Source, span_of

MAX_REPEAT = 1_000
"""Largest n or m of {n,m}; a larger bound is a condition on count(v[])."""


def build_pattern(tree: Branch, source: Source) -> Pattern:
    """The pattern that `tree` (one of the grammar's pattern rules) describes."""
    match tree.data:
        case "component":
            return _component(tree, source)
        case "negation":
            return Negation(build_pattern(_only_branch(tree), source), span_of(tree))
        case "repeated_group":
            operand, quantifier = _branches(tree)
            return _repeat(build_pattern(operand, source), quantifier, tree, source)
        case "sequence":
            return Sequence(_parts(tree, source), span_of(tree))
        case "alternative":
            return Alternative(_parts(tree, source), span_of(tree))
        case "pattern_and":
            return Conjunction(_parts(tree, source), span_of(tree))
        case "any_of":
            return _any_of(tree, source)
        case other:
            raise AssertionError(f"no pattern rule {other}")


def _branches(tree: Branch) -> list[Branch]:
    return [child for child in tree.children if not isinstance(child, Token)]


def _only_branch(tree: Branch) -> Branch:
    (branch,) = _branches(tree)
    return branch


def _parts(tree: Branch, source: Source) -> tuple[Pattern, ...]:
    return tuple(build_pattern(branch, source) for branch in _branches(tree))


def _any_of(tree: Branch, source: Source) -> AnyOf:
    number = tree.children[0]
    assert isinstance(number, Token)
    parts: list[Component] = []
    for branch in _branches(tree):
        part = build_pattern(branch, source)
        if not isinstance(part, Component) or part.kleene:
            raise source.syntax_error(branch, "a repeated component inside ANY", "ANY(n, Type v, ...)")
        parts.append(part)
    return AnyOf(source.integer(number, "how many of ANY's components", 1), tuple(parts), span_of(tree))


def _component(tree: Branch, source: Source) -> Pattern:
    event_type = tree.children[0]
    assert isinstance(event_type, Token)
    variable: Token = event_type
    quantifier: Branch | None = None
    list_variable: Branch | None = None
    for branch in _branches(tree):
        if branch.data in ("single_variable", "list_variable"):
            name = branch.children[0]
            assert isinstance(name, Token)
            variable = name
            list_variable = branch if branch.data == "list_variable" else None
        else:
            quantifier = branch
    component = Component(str(event_type), str(variable), span=span_of(tree))
    if quantifier is None:
        if list_variable is not None:
            raise source.syntax_error(
                list_variable,
                f"{variable}[] stands for several events but {event_type} is not repeated",
                remedy=f"write {event_type}+ {variable}[] for one or more events, or {event_type} {variable} for one",
            )
        return component
    return _repeat(component, quantifier, tree, source)


def _repeat(operand: Pattern, quantifier: Branch, tree: Branch, source: Source) -> Pattern:
    span = span_of(tree)
    at_least, at_most = _bounds(quantifier, source)
    # One repeated component is a Kleene closure of its own kind: its variable has b[i], b[1], aggregates.
    if isinstance(operand, Component) and not operand.kleene and at_most is None and at_least <= 1:
        kleene = Component(operand.event_type, operand.variable, True, span)
        return kleene if at_least else Repeat(kleene, 0, 1, span)
    return Repeat(operand, at_least, at_most, span)


def _bounds(quantifier: Branch, source: Source) -> tuple[int, int | None]:
    tokens = [child for child in quantifier.children if isinstance(child, Token)]
    counts = [source.integer(token, "how many times", 0) for token in tokens]
    at_least, at_most = {
        "plus": (1, None),
        "star": (0, None),
        "optional": (0, 1),
        "exactly": (counts[0], counts[0]) if counts else (0, 0),
        "at_least": (counts[0], None) if counts else (0, None),
        "between": (counts[0], counts[-1]) if counts else (0, 0),
    }[quantifier.data]
    if any(count > MAX_REPEAT for count in counts):
        raise source.syntax_error(quantifier, f"{max(counts)} repetitions", f"at most {MAX_REPEAT}")
    if at_most is not None and (at_most == 0 or at_most < at_least):
        raise source.syntax_error(
            quantifier, f"from {at_least} to {at_most} repetitions", "{n,m} with n <= m and m at least 1"
        )
    return at_least, at_most
