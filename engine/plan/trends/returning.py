"""Which events may come to themselves again where their order is not known: A before B before A, in two worlds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.language import ast
from engine.plan.trends.model import Join
from engine.plan.trends.template import Template

_RISES = {"<": 1, ">": -1}

Rise = tuple[str, int]
"""An attribute, and whether it grows or falls from one event to the next."""


def returning_states(template: Template, joins: Sequence[Join]) -> frozenset[int]:
    """The states whose events another state, or the same one, may read later on the same way.

    No event comes directly after itself, so that one step is no way back. None may where on all ways from the one to
    the other each step asks for more of one attribute, or each for less.
    """
    following: dict[int, list[int]] = {}
    for join in joins:
        following.setdefault(join.source, []).append(join.target)
    reached = {state: _reached(state, following) for state in range(len(template.states))}
    return frozenset(
        state
        for state, own in enumerate(template.states)
        if any(
            template.states[other].event_type == own.event_type and not _rises(template, joins, state, other, reached)
            for other in _reached(state, following, least=2)
        )
    )


def _reached(state: int, following: Mapping[int, Iterable[int]], least: int = 1) -> frozenset[int]:
    """After so many steps or more."""
    found: set[int] = set()
    todo = [state]
    for _ in range(least):
        todo = [after for one in dict.fromkeys(todo) for after in following.get(one, ())]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += following.get(one, ())
    return frozenset(found)


def _rises(
    template: Template, joins: Sequence[Join], first: int, last: int, reached: Mapping[int, frozenset[int]]
) -> bool:
    """Whether each step of every way between two states goes in one direction, which is the same for all."""
    common: set[Rise] | None = None
    for join in joins:
        if (first == join.source or join.source in reached[first]) and (
            last == join.target or last in reached[join.target]
        ):
            own = set(_of_step(template, join))
            common = own if common is None else common & own
    return bool(common)


def _of_step(template: Template, join: Join) -> Iterable[Rise]:
    one, other = template.states[join.source].variable, template.states[join.target].variable
    for predicate in join.predicates:
        match predicate:
            case ast.Comparison(op=op, left=ast.Attribute() as left, right=ast.Attribute() as right) if op in _RISES:
                if left.name != right.name:
                    continue
                if (left.variable, right.variable, right.index) == (one, other, ast.Index.NEXT):
                    yield left.name, _RISES[op]
                elif (right.variable, left.variable, left.index) == (one, other, ast.Index.NEXT):
                    yield left.name, -_RISES[op]


__all__ = ["Rise", "returning_states"]
