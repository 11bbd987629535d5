"""What holds of counts, extremes and times in every match, whatever the events are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from engine.events import TIME_ATTRIBUTE
from engine.language.ast import Aggregate, Attribute, Expression, Index, Query, Range, Ties
from engine.language.pattern_facts import PatternFacts
from engine.language.satisfiability.bounds import ZERO, Numbers
from engine.language.scopes import Variable
from engine.language.source import duration_text

MAX_TIMES = 40
"""Times of events that are compared pair by pair."""

_AT = "@"
_ORDER = {Index.SINGLE: 0, Index.FIRST: 0, Index.PREVIOUS: 1, Index.CURRENT: 2, Index.LAST: 3}


def list_name(variable: str, context: tuple[int, ...]) -> str:
    """The name of a variable's list in an iteration of the groups of `context`."""
    return f"{variable}{_AT}{'.'.join(map(str, context))}" if context else variable


def iterations(name: str) -> tuple[int, ...]:
    """The groups in whose iteration the list of this name is meant."""
    _, at, numbers = name.partition(_AT)
    return tuple(map(int, numbers.split("."))) if at else ()


def variable_of(name: str) -> str:
    """The variable whose list has this name."""
    return name.partition(_AT)[0]


@dataclass(frozen=True)
class TermFacts:
    """Facts about the terms of a query; `scope` has the variables and their lists by name."""

    query: Query
    scope: Mapping[str, Variable]
    facts: PatternFacts

    def add(self, named: dict[str, Expression], numbers: Numbers) -> None:
        """Add what is known of the named terms to `numbers`."""
        times: list[tuple[str, Attribute]] = []
        for name, node in named.items():
            if isinstance(node, Aggregate):
                self._add_aggregate(name, node, named, numbers)
            elif isinstance(node, Attribute) and node.name == TIME_ATTRIBUTE:
                times.append((name, node))
        for k, (u, first) in enumerate(times[:MAX_TIMES]):
            for v, second in times[:k]:
                self._add_times(u, first, v, second, numbers)
                self._add_times(v, second, u, first, numbers)

    def _add_aggregate(self, name: str, node: Aggregate, named: dict[str, Expression], numbers: Numbers) -> None:
        variable = self.scope[node.variable]
        if node.function == "stddev":
            numbers.at_most(ZERO, name, Fraction(0), frozenset({"a standard deviation is not negative"}))
        elif node.function == "count" and node.range is Range.ALL:
            least, most = self.facts.count_bounds(variable, iterations(node.variable))
            least = 0 if node.name else least
            numbers.at_most(ZERO, name, Fraction(-least), frozenset({_events(variable.name, "at least", least)}))
            if most is not None:
                numbers.at_most(name, ZERO, Fraction(most), frozenset({_events(variable.name, "at most", most)}))
        elif node.function in ("min", "max") and node.range is Range.ALL:
            for other, element in named.items():
                if _is_element(element, node) or (
                    isinstance(element, Aggregate)
                    and replace(element, function=node.function) == node
                    and element.function in ("min", "max")
                ):
                    u, v = (name, other) if node.function == "min" else (other, name)
                    numbers.at_most(
                        u, v, Fraction(0), frozenset({f"{node.function} is over all events of {variable.name}"})
                    )

    def _add_times(self, u: str, first: Attribute, v: str, second: Attribute, numbers: Numbers) -> None:
        """What is known of the time `u` of `first` beside the time `v` of `second`."""
        within_ms = self.query.within_ms
        if isinstance(within_ms, int):
            reason = f"WITHIN {duration_text(within_ms)} bounds the time between two events"
            numbers.at_most(u, v, Fraction(within_ms), frozenset({reason}))
        one, other = self.scope[first.variable], self.scope[second.variable]
        if first.variable == second.variable:
            if _ORDER[first.index] < _ORDER[second.index]:
                numbers.at_most(u, v, Fraction(0), frozenset({f"the events of {one.name} are in order"}))
            return
        context = _common(self._iteration(first), self._iteration(second))
        if one is not other and self.facts.is_before(one.name, other.name, context):
            strict = self.query.ties is Ties.STRICT
            numbers.at_most(u, v, Fraction(0), frozenset({f"{one.name} is before {other.name}"}), strict=strict)

    def _iteration(self, node: Attribute) -> tuple[int, ...]:
        return self.scope[node.variable].path if node.index is Index.SINGLE else iterations(node.variable)


def _is_element(element: Expression, aggregate: Aggregate) -> bool:
    return (
        isinstance(element, Attribute)
        and element.index is not Index.SINGLE
        and (element.variable, element.name) == (aggregate.variable, aggregate.name)
    )


def _events(variable: str, bound: str, count: int) -> str:
    return f"{variable} has {bound} {count} event{'' if count == 1 else 's'}"


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    n_same = 0
    while n_same < min(len(one), len(other)) and one[n_same] == other[n_same]:
        n_same += 1
    return one[:n_same]
