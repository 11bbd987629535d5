"""What a pattern means as a union of branches: sequences without OR, `?`, `*` and ANY outside repeated groups.

The branches are evaluated separately (DESIGN 3, "Patterns"). Inside a repeated group the same constructs are
alternatives of each iteration: the group has several bodies. SEQ inside SEQ is one sequence, so that a negated part
stands between its neighbours wherever it was written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.errors import Span, UnsupportedQueryError
from engine.language import ast


@dataclass(frozen=True)
class Slot:
    """One component: between `at_least` and `at_most` (None: unbounded) events of one type."""

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
class Shuffle:
    """AND: every operand matches, each in its own order, no event twice."""

    operands: tuple[Items, ...]


@dataclass(frozen=True)
class Group:
    """A repeated group: `at_least` to `at_most` iterations, each of one of the bodies; `number` in textual order."""

    number: int
    bodies: tuple[Items, ...]
    at_least: int
    at_most: int | None

    def allows(self, n_iterations: int) -> bool:
        """True while this many iterations are not too many."""
        return self.at_most is None or n_iterations <= self.at_most


@dataclass(frozen=True)
class Absent:
    """A negated pattern: none of the alternatives has a match in its place."""

    alternatives: tuple[Items, ...]


Item = Slot | Shuffle | Group | Absent
Items = tuple[Item, ...]


@dataclass(frozen=True)
class Shape:
    """A pattern taken apart.

    `paths` gives for each variable, negated ones too, the numbers of the repeated groups around it, outermost first;
    `lists` the variables of components that are Kleene by themselves; `negated` those below a negation.
    """

    branches: tuple[Items, ...]
    paths: dict[str, tuple[int, ...]]
    lists: frozenset[str]
    negated: frozenset[str]


def shape_of(pattern: ast.Pattern) -> Shape:
    """The branches of a pattern, each once; raises UnsupportedQueryError for what has no meaning."""
    expansion = _Expansion()
    branches = dict.fromkeys(items for items in expansion.expand(pattern, (), False) if any(slots_of(items)))
    if not branches:
        raise UnsupportedQueryError("the pattern has no positive component", pattern.span, remedy="add a component")
    return Shape(tuple(branches), expansion.paths, frozenset(expansion.lists), frozenset(expansion.negated))


def slots_of(items: Items) -> Iterator[Slot]:
    """The positive components in textual order, those of all bodies of a group."""
    for item in items:
        match item:
            case Slot():
                yield item
            case Shuffle(operands=parts) | Group(bodies=parts):
                for part in parts:
                    yield from slots_of(part)


def is_plain(items: Items) -> bool:
    """Whether a branch is a sequence of components and of negated sequences of components."""
    return all(
        isinstance(item, Slot)
        or (
            isinstance(item, Absent)
            and all(isinstance(part, Slot) for alternative in item.alternatives for part in alternative)
        )
        for item in items
    )


class _Expansion:
    """Expands a pattern and notes where its variables stand."""

    def __init__(self) -> None:
        self.paths: dict[str, tuple[int, ...]] = {}
        self.lists: set[str] = set()
        self.negated: set[str] = set()
        self._n_groups = itertools.count()

    def expand(self, pattern: ast.Pattern, path: tuple[int, ...], is_negated: bool) -> list[Items]:
        match pattern:
            case ast.Component(kleene=kleene):
                return [(self._slot(pattern, 1, None if kleene else 1, path, is_negated),)]
            case ast.Sequence(parts=parts):
                return [_joined(chosen) for chosen in self._product(parts, path, is_negated)]
            case ast.Alternative(parts=parts):
                return [items for part in parts for items in self.expand(part, path, is_negated)]
            case ast.Repeat():
                return self._repeat(pattern, path, is_negated)
            case ast.Negation(pattern=inner):
                return [(self._absent(inner, pattern.span, path, is_negated),)]
            case ast.Conjunction(parts=parts):
                return [_shuffled(chosen) for chosen in self._product(parts, path, is_negated)]
            case ast.AnyOf(count=count, parts=components):
                single = [items for part in components for items in self.expand(part, path, is_negated)]
                return [_shuffled(chosen) for chosen in itertools.combinations(single, count)]

    def _product(
        self, parts: Sequence[ast.Pattern], path: tuple[int, ...], is_negated: bool
    ) -> Iterator[tuple[Items, ...]]:
        return itertools.product(*[self.expand(part, path, is_negated) for part in parts])

    def _slot(
        self, component: ast.Component, at_least: int, at_most: int | None, path: tuple[int, ...], is_negated: bool
    ) -> Slot:
        self.paths[component.variable] = path
        if at_most != 1:
            self.lists.add(component.variable)
        if is_negated:
            self.negated.add(component.variable)
        return Slot(component.variable, component.event_type, at_least, at_most)

    def _repeat(self, pattern: ast.Repeat, path: tuple[int, ...], is_negated: bool) -> list[Items]:
        absent: list[Items] = [()] if pattern.at_least == 0 else []
        if pattern.at_most == 0:
            return absent
        inner, at_least = pattern.pattern, max(pattern.at_least, 1)
        if pattern.at_most == 1:
            return [*absent, *self.expand(inner, path, is_negated)]
        if isinstance(inner, ast.Component) and not inner.kleene:
            return [*absent, (self._slot(inner, at_least, pattern.at_most, path, is_negated),)]
        number = next(self._n_groups)
        bodies = [body for body in self.expand(inner, (*path, number), is_negated) if any(slots_of(body))]
        return [*absent, (Group(number, tuple(dict.fromkeys(bodies)), at_least, pattern.at_most),)]

    def _absent(self, inner: ast.Pattern, span: Span | None, path: tuple[int, ...], is_negated: bool) -> Absent:
        alternatives = self.expand(inner, path, True)
        if is_negated:
            raise UnsupportedQueryError("a negation inside a negation", span, remedy="negate positive patterns alone")
        if not all(any(slots_of(items)) for items in alternatives):
            raise UnsupportedQueryError(
                "a negated pattern that may be empty never lets a match pass",
                span,
                remedy="negate the part that must not occur, without ? or *",
            )
        return Absent(tuple(dict.fromkeys(alternatives)))


def _joined(parts: Sequence[Items]) -> Items:
    return tuple(itertools.chain.from_iterable(parts))


def _shuffled(operands: Sequence[Items]) -> Items:
    """AND of what is there: of one operand alone it is that operand."""
    present = [items for items in operands if items]
    if len(present) < 2:
        return _joined(present)
    return (Shuffle(tuple(present)),)


__all__ = ["Absent", "Group", "Item", "Items", "Shape", "Shuffle", "Slot", "is_plain", "shape_of", "slots_of"]
