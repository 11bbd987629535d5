"""Which predicates over Kleene events may be decided early (SASE++ section 5.2).

A predicate of the edge that takes b[i] is judged by what happens when events are left out of b[..i-1]:

| term over b[..i-1] or b[]    | leaving events out | term > free       | term < free       |
|------------------------------|--------------------|-------------------|-------------------|
| max                          | can only fall      | false-consistent  | true-consistent   |
| count                        | can only fall      | false-consistent  | true-consistent   |
| min                          | can only rise      | true-consistent   | false-consistent  |
| -t                           | the other way      |                   |                   |
| t + free, free + t, t - free | as t               |                   |                   |
| t * c, t / c, c a number > 0 | as t               |                   |                   |
| t * c, t / c, c a number < 0 | the other way      |                   |                   |
| t + u, both one way          | that way           |                   |                   |
| sum, avg, stddev, own ones   | either             | inconsistent      | inconsistent      |
| first, last                  | another event      | inconsistent      | inconsistent      |
| b[i-1], b[1], b[b.len]       | another event      | inconsistent      | inconsistent      |
| t = ..., t != ...            | either             | inconsistent      | inconsistent      |

`>=` is as `>`, `<=` as `<`; with the terms on the right the other way round. A difference of two terms is judged as a
whole: `max(b[].x) < min(b[].y)` is true-value consistent. The sum of values is inconsistent even where they cannot be
negative: neither a type nor a predicate promises their sign. So is avg, which a small value may lower.

AND and OR of conditions of one class, or of that class and conditions that refer to no chosen event, are of that class;
NOT swaps true- and false-consistent. Everything that refers to no chosen Kleene event is both. NULL values make an
aggregate skip events, which is leaving them out, and keep the classes: an aggregate of no value is unknown, which is
neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from engine.language import ast
from engine.plan.model import Consistency


class _Trend(Enum):
    """What becomes of a value when events are left out."""

    FREE = "it does not depend on them"
    FALLS = "it can only fall"
    RISES = "it can only rise"
    EITHER = "it may become anything"


_OPPOSITE = {
    _Trend.FREE: _Trend.FREE,
    _Trend.FALLS: _Trend.RISES,
    _Trend.RISES: _Trend.FALLS,
    _Trend.EITHER: _Trend.EITHER,
}
_AGGREGATES = {"max": _Trend.FALLS, "count": _Trend.FALLS, "min": _Trend.RISES}
_SWAPPED = {Consistency.TRUE: Consistency.FALSE, Consistency.FALSE: Consistency.TRUE}


def classify(conjunct: ast.Expression, kleene: frozenset[str]) -> Consistency:
    """The class of one conjunct, given the names of the Kleene variables."""
    if not any(_chosen(node, kleene) for node in ast.walk(conjunct)):
        return Consistency.TRUE_FALSE
    match conjunct:
        case ast.Comparison():
            return _comparison(conjunct, kleene)
        case ast.Not(operand=operand):
            inner = classify(operand, kleene)
            return _SWAPPED.get(inner, inner)
        case ast.AllOf(operands=operands) | ast.OneOf(operands=operands):
            return _together(classify(operand, kleene) for operand in operands)
    return Consistency.INCONSISTENT


def _together(classes: Iterable[Consistency]) -> Consistency:
    decided = set(classes) - {Consistency.TRUE_FALSE}
    return decided.pop() if len(decided) == 1 else Consistency.INCONSISTENT


def _comparison(node: ast.Comparison, kleene: frozenset[str]) -> Consistency:
    """Judged by the trend of left - right."""
    difference = _sum(_trend(node.left, kleene), _OPPOSITE[_trend(node.right, kleene)])
    if node.op in ("=", "!=") or difference not in (_Trend.FALLS, _Trend.RISES):
        return Consistency.INCONSISTENT
    wants_high = node.op in (">", ">=")
    return Consistency.TRUE if wants_high == (difference is _Trend.RISES) else Consistency.FALSE


def _trend(node: ast.Expression, kleene: frozenset[str]) -> _Trend:
    if not any(_chosen(inner, kleene) for inner in ast.walk(node)):
        return _Trend.FREE
    match node:
        case ast.Aggregate(function=function):
            return _AGGREGATES.get(function, _Trend.EITHER)
        case ast.Negative(operand=operand):
            return _OPPOSITE[_trend(operand, kleene)]
        case ast.Arithmetic(op="+", left=left, right=right):
            return _sum(_trend(left, kleene), _trend(right, kleene))
        case ast.Arithmetic(op="-", left=left, right=right):
            return _sum(_trend(left, kleene), _OPPOSITE[_trend(right, kleene)])
        case ast.Arithmetic(op="*", left=left, right=right):
            return _scaled(left, right, kleene) if _is_number(right) else _scaled(right, left, kleene)
        case ast.Arithmetic(op="/", left=left, right=right):
            return _scaled(left, right, kleene)
    return _Trend.EITHER


def _sum(one: _Trend, other: _Trend) -> _Trend:
    if _Trend.FREE in (one, other):
        return other if one is _Trend.FREE else one
    return one if one is other else _Trend.EITHER


def _scaled(term: ast.Expression, factor: ast.Expression, kleene: frozenset[str]) -> _Trend:
    sign = _sign(factor)
    trend = _trend(term, kleene)
    return _Trend.EITHER if sign == 0 else trend if sign > 0 else _OPPOSITE[trend]


def _is_number(node: ast.Expression) -> bool:
    return _sign(node) != 0


def _sign(node: ast.Expression) -> int:
    """1 or -1 for a number that is written out, 0 for everything else."""
    if isinstance(node, ast.Negative):
        return -_sign(node.operand)
    if isinstance(node, ast.Literal) and isinstance(node.value, int | float) and node.value != 0:
        return 1 if node.value > 0 else -1
    return 0


def _chosen(node: object, kleene: frozenset[str]) -> bool:
    """True for a term whose value depends on which events of a Kleene component were selected."""
    if isinstance(node, ast.Aggregate):
        return True
    return (
        isinstance(node, ast.Attribute)
        and node.variable in kleene
        and node.index in (ast.Index.FIRST, ast.Index.PREVIOUS, ast.Index.LAST)
    )
