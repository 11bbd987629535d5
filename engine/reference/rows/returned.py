"""RETURN: the values of one match, as numbers and strings of Python."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from fractions import Fraction

from engine.events import TIME_ATTRIBUTE, AttributeType
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.conditions import is_defined
from engine.reference.expressions import NO_AGGREGATES, Aggregates, Binding, evaluate
from engine.reference.observed import Value


def returned_values(
    resolved: ResolvedQuery, binding: Binding, aggregates: Aggregates = NO_AGGREGATES
) -> dict[str, object]:
    """Name -> value; None for unknown values, for numbers that no row can tell (infinite, or beyond all
    doubles), and for terms of a variable that this match does not have (count: 0).

    Whole-numbered expressions (integer attributes, counts, and + - * % of them) give int, other numbers float.
    """
    attributes = resolved.schema.attributes
    values: dict[str, object] = {}
    for item in resolved.query.returns:
        defined = is_defined(item.expression, binding)
        value = evaluate(item.expression, binding, 1, aggregates) if defined else None
        values[item.name] = _plain(value, is_int=_is_int(item.expression, attributes))
    return values


def _plain(value: Value, *, is_int: bool) -> object:
    if isinstance(value, Fraction) and abs(value) > Fraction(sys.float_info.max):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Fraction):
        return int(value) if is_int and value.denominator == 1 else float(value)
    return value


def _is_int(expression: ast.Expression, attributes: Mapping[str, AttributeType]) -> bool:
    match expression:
        case ast.Literal(value=value):
            return isinstance(value, int)
        case ast.Attribute(name=name):
            return name == TIME_ATTRIBUTE or attributes.get(name) is AttributeType.INT
        case ast.Aggregate(function=function, name=name):
            if function not in ("min", "max", "sum", "count", "first", "last"):
                return False
            return function == "count" or name == TIME_ATTRIBUTE or attributes.get(name or "") is AttributeType.INT
        case ast.Negative(operand=operand):
            return _is_int(operand, attributes)
        case ast.Arithmetic(op=op, left=left, right=right):
            return op != "/" and _is_int(left, attributes) and _is_int(right, attributes)
    return False


__all__ = ["returned_values"]
