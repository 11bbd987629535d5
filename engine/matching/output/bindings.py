"""The bindings of a match from its events, their components and, in repeated groups, their iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

from engine.matching.output.match_row import Binding
from engine.plan.model import BoundVariable

T = TypeVar("T")
Nested: TypeAlias = "tuple[T | Nested[T], ...]"
"""As `Binding`, of whatever stands for an event."""


Iteration = tuple[int, ...]


def bindings(
    variables: Sequence[BoundVariable],
    ids: Sequence[T],
    components: Sequence[int],
    iterations: Sequence[Iteration] | None = None,
) -> dict[str, Nested[T]]:
    """Event ids by variable, in pattern order: of the variables, or of whose outermost groups, the match has an event.

    `ids` (or whatever else stands for events) and `components` are the match's events in its order; `iterations` gives
    for each the number of the iteration of every group around it. A variable in repeated groups is nested: one entry
    per iteration, () where it is absent.
    """
    bound: dict[int, list[int]] = {}
    for position, component in enumerate(components):
        bound.setdefault(component, []).append(position)
    counts = {} if iterations is None else _n_iterations(variables, components, iterations)
    found: dict[str, Nested[T]] = {}
    for component, variable in enumerate(variables):
        positions = bound.get(component, [])
        if not positions and (variable.path[:1], ()) not in counts:
            continue
        if not variable.path or iterations is None:
            found[variable.name] = tuple(ids[position] for position in positions)
            continue
        by_iteration: dict[Iteration, list[T]] = {}
        for position in positions:
            by_iteration.setdefault(iterations[position][: len(variable.path)], []).append(ids[position])
        found[variable.name] = _nested(variable, (), by_iteration, counts)
    return found


def _n_iterations(
    variables: Sequence[BoundVariable], components: Sequence[int], iterations: Sequence[Iteration]
) -> Mapping[tuple[tuple[int, ...], Iteration], int]:
    """Iterations of each group, by the path to it and the iterations of the groups around it."""
    counts: dict[tuple[tuple[int, ...], Iteration], int] = {}
    for component, iteration in zip(components, iterations, strict=True):
        path = variables[component].path
        for depth in range(len(path)):
            group = path[: depth + 1], iteration[:depth]
            counts[group] = max(counts.get(group, 0), iteration[depth] + 1)
    return counts


def _nested(
    variable: BoundVariable,
    iteration: Iteration,
    ids: Mapping[Iteration, Sequence[T]],
    counts: Mapping[tuple[tuple[int, ...], Iteration], int],
) -> Nested[T]:
    depth = len(iteration)
    inner = [(*iteration, k) for k in range(counts.get((variable.path[: depth + 1], iteration), 0))]
    if depth + 1 < len(variable.path):
        return tuple(_nested(variable, each, ids, counts) for each in inner)
    if variable.kleene:
        return tuple(tuple(ids.get(each, ())) for each in inner)
    return tuple(ids[each][0] if each in ids else () for each in inner)


def comparable(binding: str | Binding) -> tuple[object, ...]:
    """A sort key of bindings: lists before ids, so that any two can be compared."""
    return (1, binding) if isinstance(binding, str) else (0, tuple(map(comparable, binding)))


__all__ = ["Nested", "bindings", "comparable"]
