"""The variables that the matches of several plans bind, and the orders in which they may stand."""

from __future__ import annotations

from collections.abc import Sequence

from engine.plan.model import BoundVariable, Plan


def bound_variables(branches: Sequence[Plan], variables: Sequence[str]) -> tuple[BoundVariable, ...]:
    """The positive variables of a query, by their names in textual order."""
    known = {variable.name: variable for branch in branches for variable in branch.bound_variables}
    return tuple(known.get(name, BoundVariable(name, kleene=False)) for name in variables)


def shapes_of(branches: Sequence[Plan], variables: Sequence[str]) -> list[tuple[int, ...]]:
    """The sequences of variables, by their numbers, that a match may be; none when some are no plain sequences."""
    shapes = [branch.shape for branch in branches]
    known = [tuple(variables.index(name) for name in shape) for shape in shapes if shape is not None]
    return list(dict.fromkeys(known)) if len(known) == len(shapes) else []


__all__ = ["bound_variables", "shapes_of"]
