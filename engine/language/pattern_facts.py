"""What every match of a pattern has: which variables, how many events, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.language.ast import Alternative, AnyOf, Component, Negation, Pattern, Repeat, Sequence
from engine.language.scopes import Scope, Variable

Bounds = tuple[int, int | None]
"""At least and at most (None: unbounded)."""


@dataclass(frozen=True)
class _Step:
    """One turn on the way from the root to a component: the part that was taken of a node."""

    ordered: bool
    part_idx: int
    path: tuple[int, ...]


@dataclass(frozen=True)
class PatternFacts:
    """Facts about the matches of one pattern.

    `mandatory`: the variables that every match has (in every iteration of the groups around them). `groups`: the
    bounds on the iterations of each repeated group, by its number. `n_least`: the least number of events of a match.
    """

    scope: Scope
    mandatory: frozenset[str]
    groups: Mapping[int, Bounds]
    n_least: int
    addresses: Mapping[str, tuple[_Step, ...] | None]

    def count_bounds(self, variable: Variable, context: tuple[int, ...]) -> Bounds:
        """How many events of `variable` an iteration of the groups of `context` has."""
        least, most = variable.at_least, variable.at_most
        for depth, number in enumerate(variable.path):
            if context[: depth + 1] == variable.path[: depth + 1]:
                continue
            group_least, group_most = self.groups[number]
            least *= group_least
            most = None if most is None or group_most is None else most * group_most
        return (least if variable.name in self.mandatory else 0), most

    def is_before(self, first: str, second: str, context: tuple[int, ...]) -> bool:
        """Whether each event of `first` precedes each of `second` in an iteration of the groups of `context`."""
        left, right = self.addresses[first], self.addresses[second]
        if left is None or right is None:
            return False
        for one, other in zip(left, right, strict=False):
            if one.part_idx != other.part_idx:
                return one.ordered and one.part_idx < other.part_idx and context[: len(one.path)] == one.path
        return False


def facts_of(pattern: Pattern, scope: Scope) -> PatternFacts:
    """The facts about a pattern whose variables are `scope`."""
    groups: dict[int, Bounds] = {}
    addresses: dict[str, tuple[_Step, ...] | None] = {}
    for name, address in _addresses(pattern, (), (), groups):
        addresses[name] = None if name in addresses else address
    return PatternFacts(scope, _mandatory(pattern), groups, _n_least(pattern), addresses)


def _addresses(
    pattern: Pattern, path: tuple[int, ...], steps: tuple[_Step, ...], groups: dict[int, Bounds]
) -> Iterator[tuple[str, tuple[_Step, ...]]]:
    match pattern:
        case Component(variable=variable):
            yield variable, steps
        case (
            Negation(pattern=inner)
            | Repeat(pattern=inner, at_most=1)
            | Repeat(pattern=Component(kleene=False) as inner)
        ):
            yield from _addresses(inner, path, steps, groups)
        case Repeat(pattern=inner, at_least=at_least, at_most=at_most):
            number = len(groups)
            groups[number] = (at_least, at_most)
            yield from _addresses(inner, (*path, number), steps, groups)
        case _:
            for k, part in enumerate(pattern.parts):
                step = _Step(isinstance(pattern, Sequence), k, path)
                yield from _addresses(part, path, (*steps, step), groups)


def _mandatory(pattern: Pattern) -> frozenset[str]:
    match pattern:
        case Component(variable=variable):
            return frozenset({variable})
        case Negation():
            return frozenset()
        case Repeat(pattern=inner, at_least=at_least):
            return _mandatory(inner) if at_least else frozenset()
        case AnyOf(count=count, parts=parts):
            return frozenset(part.variable for part in parts) if count == len(parts) else frozenset()
        case Alternative(parts=parts):
            return frozenset.intersection(*map(_mandatory, parts))
        case _:
            return frozenset[str]().union(*map(_mandatory, pattern.parts))


def _n_least(pattern: Pattern) -> int:
    match pattern:
        case Component():
            return 1
        case Negation():
            return 0
        case Repeat(pattern=inner, at_least=at_least):
            return at_least * _n_least(inner)
        case AnyOf(count=count):
            return count
        case Alternative(parts=parts):
            return min(map(_n_least, parts))
        case _:
            return sum(map(_n_least, pattern.parts))
