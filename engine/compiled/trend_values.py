"""A query about trends beside its own threshold: what it returns for every window, and what HAVING asks of that."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.compiled.query import CompiledQuery, compile_parsed
from engine.events import AttributeType
from engine.language import ast
from engine.language.build_query import default_name
from engine.language.printer import print_expression, print_query

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class TrendThreshold:
    """What HAVING asks of a number: `name` of the RETURN value, or the one it would have where it is not returned."""

    name: str
    op: str
    bound: float


def every_window(query: CompiledQuery) -> CompiledQuery:
    """A query about trends without HAVING, which tells nobody, with what HAVING compares among its values. It is
    without EXACT: windows that are not told may have any number of trends."""
    own, resolved = query.resolved.query, query.resolved
    returned = {item.expression for item in own.returns}
    more = [
        ast.ReturnItem(expression, threshold.name)
        for expression, threshold in _compared(own)
        if expression not in returned
    ]
    requested = replace(
        own,
        having=None,
        exact_bits=0,
        returns=(*own.returns, *{item.name: item for item in more}.values()),
        parameters=(),
        notice=None,
        group_gap_ms=None,
        shown=(),
        hosts=(),
        onset=None,
        limit=None,
    )
    name = f"{query.name}, every window"
    text = print_query(requested)
    return compile_parsed(requested, text, resolved.schema, {}, name=name, producers=query.producers)


def trend_thresholds(query: ast.Query) -> list[TrendThreshold]:
    """What HAVING of a resolved query about trends asks, each of which must hold; without what is no comparison of a
    number with a constant."""
    return [threshold for _, threshold in _compared(query)]


def trend_numbers(query: CompiledQuery) -> list[str]:
    """The names of RETURN that are numbers about trends, not of the group."""
    kinds = query.resolved.return_types
    returned = zip(query.resolved.query.returns, kinds, strict=True)
    return [item.name for item, kind in returned if kind is not AttributeType.STRING and _is_of_trends(item.expression)]


def _compared(query: ast.Query) -> Iterator[tuple[ast.Expression, TrendThreshold]]:
    names = {item.expression: item.name for item in query.returns}
    having = query.having
    for part in having.operands if isinstance(having, ast.AllOf) else (having,):
        if not isinstance(part, ast.Comparison):
            continue
        for expression, other, op in ((part.left, part.right, part.op), (part.right, part.left, _FLIPPED[part.op])):
            bound = _constant(other)
            if bound is not None and _is_of_trends(expression):
                name = names.get(expression) or default_name(expression) or print_expression(expression)
                yield expression, TrendThreshold(name, op, bound)


def _is_of_trends(expression: ast.Expression) -> bool:
    return any(isinstance(node, ast.TrendAggregate) for node in ast.walk(expression))


def _constant(expression: ast.Expression) -> float | None:
    """Of an expression without attributes; None for another, for text, and for what has no value."""
    match expression:
        case ast.Literal(value=int() | float() as value):
            return float(value)
        case ast.Negative(operand=operand):
            found = _constant(operand)
            return None if found is None else -found
        case ast.Arithmetic(op=op, left=left, right=right):
            one, other = _constant(left), _constant(right)
            if one is None or other is None or (op == "/" and other == 0):
                return None
            return float(_OPERATORS[op](one, other))
    return None


_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


__all__ = ["TrendThreshold", "every_window", "trend_numbers", "trend_thresholds"]
