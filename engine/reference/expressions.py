"""Values of expressions over bound events, in the arithmetic of doubles and three-valued logic (DESIGN 3).

NULL and NaN are one thing: unknown. A comparison with an unknown side is unknown, arithmetic with an unknown operand
and division by zero are unknown. Aggregates leave unknown values out; over nothing they are unknown, but a count is 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from engine.errors import UnsupportedQueryError
from engine.language import ast
from engine.reference.observed import ObservedEvent, Value, exact

Binding = Mapping[str, Sequence[ObservedEvent]]
"""Variable -> its events in order; one event for a single component; none for a variable that is absent."""

Aggregates = Mapping[str, Callable[[Sequence[float]], float | None]]
"""User-defined aggregates: name -> a function of the values that are not NULL, in order; None or NaN is NULL."""

NO_AGGREGATES: Aggregates = {}

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(expression: ast.Expression, binding: Binding, i: int, aggregates: Aggregates = NO_AGGREGATES) -> bool | None:
    """Whether a predicate holds, with `[i]` meaning the i-th event (from 1) of its variable; None is unknown."""
    value = evaluate(expression, binding, i, aggregates)
    return value if isinstance(value, bool) else None


def evaluate(expression: ast.Expression, binding: Binding, i: int, aggregates: Aggregates = NO_AGGREGATES) -> Value:
    """The value of an expression; see `truth` for `i`."""

    def value_of(part: ast.Expression) -> Value:
        return evaluate(part, binding, i, aggregates)

    def truth_of(part: ast.Expression) -> bool | None:
        return truth(part, binding, i, aggregates)

    match expression:
        case ast.Literal(value=constant):
            return exact(constant)
        case ast.Attribute():
            return _event(expression, binding, i).values.get(expression.name)
        case ast.Aggregate(function="repeats"):
            return _repeats(expression, binding, i)
        case ast.Aggregate():
            return _aggregate(expression, _covered(expression, binding, i), aggregates)
        case ast.Negative(operand=operand):
            return _arithmetic("-", Fraction(0), value_of(operand))
        case ast.Arithmetic(op=op, left=left, right=right):
            return _arithmetic(op, value_of(left), value_of(right))
        case ast.Comparison(op=op, left=left, right=right):
            return _compare(op, value_of(left), value_of(right))
        case ast.Membership(operand=operand, options=options):
            value = value_of(operand)
            return _any([_compare("=", value, value_of(option)) for option in options])
        case ast.AllOf(operands=operands):
            return _not(_any([_not(truth_of(part)) for part in operands]))
        case ast.OneOf(operands=operands):
            return _any([truth_of(part) for part in operands])
        case ast.Not(operand=operand):
            return _not(truth_of(operand))
        case ast.TrendAggregate():
            raise AssertionError("aggregates over trends have their values in engine.reference.trends.aggregates")
        case ast.Parameter(name=name):
            raise UnsupportedQueryError(f"parameter :{name} has no value", expression.span)


def _event(attribute: ast.Attribute, binding: Binding, i: int) -> ObservedEvent:
    events = binding[attribute.variable]
    match attribute.index:
        case ast.Index.SINGLE | ast.Index.FIRST:
            return events[0]
        case ast.Index.CURRENT:
            return events[i - 1]
        case ast.Index.PREVIOUS:
            return events[i - 2]
        case ast.Index.LAST | ast.Index.NEXT:
            return events[-1]


def _covered(aggregate: ast.Aggregate, binding: Binding, i: int) -> Sequence[ObservedEvent]:
    events = binding.get(aggregate.variable, ())
    match aggregate.range:
        case ast.Range.ALL:
            return events
        case ast.Range.BEFORE_CURRENT:
            return events[: i - 1]
        case ast.Range.BEFORE_LAST:
            return events[:-1]


def _repeats(aggregate: ast.Aggregate, binding: Binding, i: int) -> Value:
    """How many events before the i-th one have its value; NULL where it has none."""
    name = aggregate.name or ""
    value = binding[aggregate.variable][i - 1].values.get(name)
    if value is None:
        return None
    return Fraction(sum(event.values.get(name) == value for event in _covered(aggregate, binding, i)))


def _aggregate(aggregate: ast.Aggregate, events: Sequence[ObservedEvent], aggregates: Aggregates) -> Value:
    if aggregate.name is None:
        return Fraction(len(events))
    values = [event.values.get(aggregate.name) for event in events]
    known = [value for value in values if value is not None]
    if aggregate.function == "count":
        return Fraction(len(known))
    if aggregate.function in ("first", "last"):
        return values[0 if aggregate.function == "first" else -1] if values else None
    numbers = [value for value in known if not isinstance(value, str)]
    if not numbers:
        return None
    match aggregate.function:
        case "min":
            return min(numbers)
        case "max":
            return max(numbers)
        case "sum":
            return _known(_sum(numbers))
        case "avg":
            return _known(_rounded(_sum(numbers) / len(numbers)))
        case "stddev":
            mean = _total(numbers) / len(numbers)
            variance = _total([(number - mean) ** 2 for number in numbers]) / len(numbers)
            return exact(_root(variance))
    if aggregate.function in aggregates:
        result = aggregates[aggregate.function]([float(number) for number in numbers])
        return exact(result)
    raise UnsupportedQueryError(
        f"the oracle does not know the aggregate {aggregate.function}()",
        aggregate.span,
        expected="min, max, sum, count, avg, stddev, first, last, or one that is given to the oracle",
    )


def _total(numbers: Sequence[Fraction | float]) -> Fraction | float:
    """Without rounding."""
    return sum(numbers, start=Fraction(0))


def _sum(numbers: Sequence[Fraction | float]) -> Fraction | float:
    """One number after the other, each sum rounded."""
    total: Fraction | float = Fraction(0)
    for number in numbers:
        total = _rounded(total + number)
    return total


def _rounded(number: Fraction | float) -> Fraction | float:
    """The nearest double, ties to even (IEEE 754); infinite beyond all of them."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    return Fraction(nearest) if math.isfinite(nearest) else nearest


def _root(number: Fraction | float) -> float:
    """Squares of doubles may be beyond all doubles while the root is not."""
    try:
        return math.sqrt(number)
    except OverflowError:
        return float(math.isqrt(int(number)))


def _known(value: Fraction | float) -> Value:
    return None if isinstance(value, float) and math.isnan(value) else value


def _arithmetic(op: str, left: Value, right: Value) -> Value:
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return None
    match op:
        case "+":
            return _known(_rounded(left + right))
        case "-":
            return _known(_rounded(left - right))
        case "*":
            return _known(_rounded(left * right))
        case "/":
            return _known(_rounded(left / right)) if right != 0 else None
        case "%":
            return _remainder(left, right)
    raise AssertionError(f"operator {op!r} is not of the language")


def _remainder(left: Fraction | float, right: Fraction | float) -> Value:
    """The remainder of the division that truncates towards 0: it has the sign of the left operand."""
    if right == 0 or not math.isfinite(left):
        return None
    if not math.isfinite(right):
        return left
    return _rounded(left - right * math.trunc(Fraction(left) / Fraction(right)))


def _compare(op: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return None
    return _COMPARE[op](left, right)


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(values: Sequence[bool | None]) -> bool | None:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


__all__ = ["NO_AGGREGATES", "Aggregates", "Binding", "evaluate", "truth"]
