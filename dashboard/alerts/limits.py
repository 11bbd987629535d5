"""What a query of one event compares with a number: the attribute, and the limit as its own text has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import ast

MOST_LIMITS = 2
"""Of one query that are shown."""

_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True)
class Limit:
    """`attribute op bound` of one event; `bound` is made of numbers, parameters and attributes of the same event."""

    event_type: str
    variable: str
    attribute: str
    op: str
    bound: ast.Expression
    parameters: Mapping[str, Any]
    key: tuple[str, ...]
    """Attributes that tell one subject of the query from another, as its partition key does."""

    @property
    def is_upper(self) -> bool:
        """Whether values above it are those that the query looks for."""
        return self.op in (">", ">=")

    @property
    def needed(self) -> tuple[str, ...]:
        """The attributes that the bound is made of."""
        return tuple(dict.fromkeys(_attributes(self.bound)))

    def value_of(self, attributes: Mapping[str, Any]) -> float | None:
        """The attribute of an event; None where it has no number."""
        return _finite(attributes.get(self.attribute))

    def bound_of(self, attributes: Mapping[str, Any]) -> float | None:
        """The limit for an event with these attributes; None where one is missing."""
        return _number(self.bound, attributes, self.parameters)

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """Whether the event is beyond the limit; False where that is unknown."""
        value, bound = self.value_of(attributes), self.bound_of(attributes)
        if value is None or bound is None:
            return False
        return {">": value > bound, ">=": value >= bound, "<": value < bound, "<=": value <= bound}[self.op]


def limits_of(query: ast.Query, parameters: Mapping[str, Any]) -> tuple[Limit, ...]:
    """Those of a query whose pattern is one event; none of others.

    Where some name a parameter, these alone: the others only say when they apply (`heap_max_bytes > 0`).
    """
    pattern = query.pattern
    if not isinstance(pattern, ast.Component) or pattern.kleene:
        return ()
    key = tuple(each.attribute for each in query.equivalences)
    found = [
        Limit(pattern.event_type, pattern.variable, attribute.name, op, bound, parameters, key)
        for comparison in _comparisons(query.predicates)
        for attribute, op, bound in _sides(comparison, pattern.variable)
    ]
    adjustable = [limit for limit in found if _has_parameter(limit.bound)]
    return tuple(adjustable or found)


def crossed(limits: Sequence[Limit], attributes: Mapping[str, Any]) -> list[Limit]:
    """Those that an event is beyond, in the order of the query, at most MOST_LIMITS."""
    return [limit for limit in limits if limit.holds(attributes)][:MOST_LIMITS]


def _comparisons(predicates: Sequence[ast.Expression]) -> list[ast.Comparison]:
    found: list[ast.Comparison] = []
    for predicate in predicates:
        if isinstance(predicate, ast.AllOf | ast.OneOf):
            found += _comparisons(predicate.operands)
        elif isinstance(predicate, ast.Comparison):
            found.append(predicate)
    return found


def _sides(comparison: ast.Comparison, variable: str) -> list[tuple[ast.Attribute, str, ast.Expression]]:
    """Its attribute, operator and limit, either way round; nothing where it has no such form."""
    if comparison.op not in _MIRRORED:
        return []
    left, right = comparison.left, comparison.right
    for attribute, op, bound in ((left, comparison.op, right), (right, _MIRRORED[comparison.op], left)):
        if isinstance(attribute, ast.Attribute) and attribute.variable == variable and _is_numeric(bound):
            return [(attribute, op, bound)]
    return []


def _is_numeric(bound: ast.Expression) -> bool:
    """Whether it is made of what `_number` knows."""
    if isinstance(bound, ast.Literal):
        return _finite(bound.value) is not None
    if isinstance(bound, ast.Negative):
        return _is_numeric(bound.operand)
    if isinstance(bound, ast.Arithmetic):
        return _is_numeric(bound.left) and _is_numeric(bound.right)
    return isinstance(bound, ast.Parameter | ast.Attribute)


def _has_parameter(bound: ast.Expression) -> bool:
    if isinstance(bound, ast.Negative):
        return _has_parameter(bound.operand)
    if isinstance(bound, ast.Arithmetic):
        return _has_parameter(bound.left) or _has_parameter(bound.right)
    return isinstance(bound, ast.Parameter)


def _attributes(bound: ast.Expression) -> list[str]:
    if isinstance(bound, ast.Negative):
        return _attributes(bound.operand)
    if isinstance(bound, ast.Arithmetic):
        return [*_attributes(bound.left), *_attributes(bound.right)]
    return [bound.name] if isinstance(bound, ast.Attribute) else []


def _number(bound: ast.Expression, attributes: Mapping[str, Any], parameters: Mapping[str, Any]) -> float | None:
    """As the query language computes it; None for what is unknown, or no number (a division by zero is NULL there)."""
    if isinstance(bound, ast.Literal):
        return _finite(bound.value)
    if isinstance(bound, ast.Parameter):
        return _finite(parameters.get(bound.name))
    if isinstance(bound, ast.Attribute):
        return _finite(attributes.get(bound.name))
    if isinstance(bound, ast.Negative):
        operand = _number(bound.operand, attributes, parameters)
        return None if operand is None else -operand
    if isinstance(bound, ast.Arithmetic):
        left, right = (_number(side, attributes, parameters) for side in (bound.left, bound.right))
        if left is None or right is None or (bound.op == "/" and right == 0):
            return None
        return {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1.0)}.get(bound.op)
    return None


def _finite(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]  # narrowed by the line above


__all__ = ["MOST_LIMITS", "Limit", "crossed", "limits_of"]
