"""Plain patterns: what a pattern means as a union of sequences of components (DESIGN 3, "Patterns").

`?`, `*`, `{n,m}` and OR are unions of plain patterns that are evaluated separately. A negated part stands between two
neighbours of the plain pattern it is in.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import UnsupportedQueryError
from engine.language import ast


@dataclass(frozen=True)
class Slot:
    """One component of a plain pattern: between `at_least` and `at_most` (None: unbounded) events of one type."""

    variable: str
    event_type: str
    at_least: int = 1
    at_most: int | None = 1

    @property
    def is_single(self) -> bool:
        """True for exactly one event."""
        return self.at_most == 1

    def allows(self, n_events: int) -> bool:
        """True while this many events are not too many."""
        return self.at_most is None or n_events <= self.at_most


@dataclass(frozen=True)
class NegatedPart:
    """A negated sequence before the positive slot number `before` (0: at the start, number of slots: at the end)."""

    slots: tuple[Slot, ...]
    before: int


@dataclass(frozen=True)
class PlainPattern:
    """A sequence of slots, and what must not happen around and between them."""

    slots: tuple[Slot, ...]
    negated: tuple[NegatedPart, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """Variables of the positive slots."""
        return frozenset(slot.variable for slot in self.slots)


_Item = Slot | tuple[Slot, ...]  # a tuple is a negated sequence


def plain_patterns(pattern: ast.Pattern) -> list[PlainPattern]:
    """The plain patterns whose union a pattern is, each once.

    Raises UnsupportedQueryError for what the oracle does not evaluate: repetition of a whole pattern (nested Kleene),
    AND, ANY, negation inside negation.
    """
    found: dict[PlainPattern, None] = {}
    for items in _expand(pattern):
        slots = tuple(item for item in items if isinstance(item, Slot))
        negated = []
        n_before = 0
        for item in items:
            if isinstance(item, Slot):
                n_before += 1
            else:
                negated.append(NegatedPart(item, n_before))
        if slots:
            found[PlainPattern(slots, tuple(negated))] = None
    if not found:
        raise UnsupportedQueryError("the pattern has no positive component", pattern.span, remedy="add a component")
    return list(found)


def _expand(pattern: ast.Pattern) -> list[tuple[_Item, ...]]:
    match pattern:
        case ast.Component(variable=variable, event_type=event_type, kleene=kleene):
            return [(Slot(variable, event_type, 1, None if kleene else 1),)]
        case ast.Sequence(parts=parts):
            combined = itertools.product(*map(_expand, parts))
            return [tuple(itertools.chain.from_iterable(chosen)) for chosen in combined]
        case ast.Alternative(parts=parts):
            return [items for part in parts for items in _expand(part)]
        case ast.Repeat():
            return _expand_repeat(pattern)
        case ast.Negation(pattern=inner):
            return [_negated(_expand(inner), pattern)]
        case ast.Conjunction():
            raise _unsupported(pattern, "AND of patterns")
        case ast.AnyOf():
            raise _unsupported(pattern, "ANY")


def _expand_repeat(pattern: ast.Repeat) -> list[tuple[_Item, ...]]:
    absent: list[tuple[_Item, ...]] = [()] if pattern.at_least == 0 else []
    if pattern.at_most == 0:
        return absent
    inner = pattern.pattern
    if isinstance(inner, ast.Component) and not inner.kleene:
        return [*absent, (Slot(inner.variable, inner.event_type, max(pattern.at_least, 1), pattern.at_most),)]
    if pattern.at_most == 1:
        return [*absent, *_expand(inner)]
    raise _unsupported(pattern, "repetition of a whole pattern")


def _negated(alternatives: Sequence[tuple[_Item, ...]], pattern: ast.Negation) -> tuple[_Item, ...]:
    """`!(P OR Q)` is neither P nor Q: one negated part for each alternative."""
    parts: list[_Item] = []
    for items in alternatives:
        slots = tuple(item for item in items if isinstance(item, Slot))
        if len(slots) != len(items):
            raise _unsupported(pattern, "a negation inside a negation")
        if not slots:
            raise UnsupportedQueryError(
                "a negated pattern that may be empty never lets a match pass",
                pattern.span,
                remedy="negate the part that must not occur, without ? or *",
            )
        parts.append(slots)
    return tuple(parts)


def _unsupported(pattern: ast.Pattern, what: str) -> UnsupportedQueryError:
    return UnsupportedQueryError(
        f"the oracle does not evaluate {what}",
        pattern.span,
        expected="SEQ of components with +, ?, *, {n,m}, OR and negation",
        remedy="use another runtime, or write the pattern as several queries",
    )


__all__ = ["NegatedPart", "PlainPattern", "Slot", "plain_patterns"]
