"""User-defined aggregates over listed matches: what of WHERE, HAVING and RETURN waits for them.

Each match is looked at by itself, a term at a time: about ten microseconds per match and term, beside the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.events import TIME_ATTRIBUTE, AttributeType, Float64Array, Int64Array
from engine.language import ast
from engine.matching.output.aggregates import registered_aggregates
from engine.plan.model import AfterListing, LaterCondition, Plan
from engine.stream.interner import Interner

_Value = float | str | bool | None


@dataclass(frozen=True)
class Bound:
    """One match: rows of a store by variable."""

    rows: dict[str, list[int]]
    columns: Float64Array
    positions: dict[str, int]
    kinds: dict[str, AttributeType]
    interner: Interner

    def value(self, row: int, name: str) -> float | str | None:
        """An attribute of an event."""
        number = float(self.columns[self.positions[name], row])
        if math.isnan(number):
            return None
        return self.interner.text(int(number)) if self.kinds[name] is AttributeType.STRING else number


class Later:
    """What one plan applies to its matches."""

    def __init__(self, plan: Plan, later: AfterListing, interner: Interner) -> None:
        self._plan = plan
        self._later = later
        self._interner = interner
        self._positions = {name: at for at, name in enumerate(plan.programs.columns)}
        self._kinds = {**plan.attribute_types, TIME_ATTRIBUTE: AttributeType.INT}

    def applied(
        self,
        columns: Float64Array,
        offsets: Int64Array,
        rows: Int64Array,
        components: Int64Array,
        iterations: Int64Array | None,
        values: Float64Array,
    ) -> tuple[Int64Array, Float64Array]:
        """The numbers of the matches for which all holds, and the RETURN values of all, filled in where they waited.

        The arrays are those of `engine.matching.output.listed.ListedMatches`.
        """
        names = self._plan.variables
        filled = values.copy()
        kept: list[int] = []
        for match in range(len(offsets) - 1):
            own = slice(int(offsets[match]), int(offsets[match + 1]))
            bound: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
            within = [()] * (own.stop - own.start) if iterations is None else map(tuple, iterations[own].tolist())
            for row, component, inside in zip(rows[own].tolist(), components[own].tolist(), within, strict=True):
                bound.setdefault(names[component], []).append((row, inside))
            if self._holds(bound, columns):
                kept.append(match)
                found = self._bound(bound, columns)
                for at, expression in self._later.returns.items():
                    value = evaluate(expression, found, 1) if _is_defined(expression, found) else None
                    filled[match, at] = self._number(value)
        return np.array(kept, np.int64), filled

    def _holds(self, bound: Mapping[str, list[tuple[int, tuple[int, ...]]]], columns: Float64Array) -> bool:
        for condition in self._later.conditions:
            context, paths = condition.context, self._later.paths
            depth = len(context)
            inside = [events for name, events in bound.items() if paths[name][:depth] == context]
            for iteration in dict.fromkeys(within[:depth] for events in inside for _, within in events):
                if not self._holds_in(condition, self._bound(bound, columns, context, iteration)):
                    return False
        having = self._later.having
        if having is None:
            return True
        found = self._bound(bound, columns)
        return _is_defined(having, found) and evaluate(having, found, 1) is True

    def _holds_in(self, condition: LaterCondition, match: Bound) -> bool:
        """In one iteration of its context; a condition about variables that this has not does not apply."""
        if not _is_defined(condition.expression, match):
            return True
        if condition.first == 0 or condition.variable is None:
            instances = range(1, 2)
        else:
            instances = range(condition.first, len(match.rows[condition.variable]) + 1)
        return all(evaluate(condition.expression, match, i) is True for i in instances)

    def _bound(
        self,
        bound: Mapping[str, list[tuple[int, tuple[int, ...]]]],
        columns: Float64Array,
        context: tuple[int, ...] = (),
        iteration: tuple[int, ...] = (),
    ) -> Bound:
        """The events of the match as they are seen from an iteration of a context: those within the iteration of the
        groups that they share with it."""
        rows = {}
        for name, events in bound.items():
            path = self._later.paths[name]
            shared = 0
            while shared < min(len(path), len(context)) and path[shared] == context[shared]:
                shared += 1
            rows[name] = [row for row, within in events if within[:shared] == iteration[:shared]]
        return Bound(rows, columns, self._positions, self._kinds, self._interner)

    def _number(self, value: _Value) -> float:
        if isinstance(value, str):
            return float(self._interner.code(value))
        return np.nan if value is None else float(value)


def _is_defined(expression: ast.Expression, match: Bound) -> bool:
    """Whether every variable that it names has an event, but for those that are only counted."""
    terms = (node for node in ast.walk(expression) if isinstance(node, ast.Attribute | ast.Aggregate))
    return all(match.rows.get(term.variable) or _is_count(term) for term in terms)


def _is_count(term: ast.Attribute | ast.Aggregate) -> bool:
    return isinstance(term, ast.Aggregate) and term.function == "count" and term.range is ast.Range.ALL


def evaluate(expression: ast.Expression, match: Bound, i: int) -> _Value:
    """The value of an expression, three-valued; `i` is what b[i] stands for."""
    match expression:
        case ast.Literal(value=value):
            return value
        case ast.Attribute():
            return match.value(_row(expression, match, i), expression.name)
        case ast.Aggregate(function="repeats", variable=variable, name=name) if name is not None:
            value = match.value(match.rows[variable][i - 1], name)
            before = [match.value(row, name) for row in _covered(expression, match, i)]
            return None if value is None else float(before.count(value))
        case ast.Aggregate():
            return _aggregate(expression, _covered(expression, match, i), match)
        case ast.Negative(operand=operand):
            return _arithmetic("-", 0.0, evaluate(operand, match, i))
        case ast.Arithmetic(op=op, left=left, right=right):
            return _arithmetic(op, evaluate(left, match, i), evaluate(right, match, i))
        case ast.Comparison(op=op, left=left, right=right):
            return _compared(op, evaluate(left, match, i), evaluate(right, match, i))
        case ast.Membership(operand=operand, options=options):
            value = evaluate(operand, match, i)
            return _any([_compared("=", value, evaluate(option, match, i)) for option in options])
        case ast.OneOf(operands=operands):
            return _any([evaluate(operand, match, i) for operand in operands])
        case ast.AllOf(operands=operands):
            return _not(_any([_not(evaluate(operand, match, i)) for operand in operands]))
        case ast.Not(operand=operand):
            return _not(evaluate(operand, match, i))
        case ast.TrendAggregate():
            raise AssertionError("aggregates over trends are no values of a match")
        case ast.Parameter():
            raise AssertionError(f"parameter :{expression.name} has been filled in by the resolver")


def _row(node: ast.Attribute, match: Bound, i: int) -> int:
    rows = match.rows[node.variable]
    at = {ast.Index.SINGLE: 0, ast.Index.FIRST: 0, ast.Index.CURRENT: i - 1, ast.Index.PREVIOUS: i - 2}
    return rows[at.get(node.index, -1)]


def _covered(node: ast.Aggregate, match: Bound, i: int) -> Sequence[int]:
    rows = match.rows.get(node.variable, [])
    return {ast.Range.ALL: rows, ast.Range.BEFORE_CURRENT: rows[: i - 1], ast.Range.BEFORE_LAST: rows[:-1]}[node.range]


def _aggregate(node: ast.Aggregate, rows: Sequence[int], match: Bound) -> _Value:
    if node.name is None:
        return float(len(rows))
    values = [match.value(row, node.name) for row in rows]
    if node.function in ("first", "last"):
        return values[0 if node.function == "first" else -1] if values else None
    known = [value for value in values if value is not None]
    if node.function == "count":
        return float(len(known))
    if not known:
        return None
    numbers = np.array(known, np.float64)
    kernels: Mapping[str, Callable[[Float64Array], float]] = (
        _BUILT_IN if node.function in _BUILT_IN else registered_aggregates()
    )
    with np.errstate(all="ignore"):  # of infinite numbers
        result = float(kernels[node.function](numbers))
    return None if math.isnan(result) else result


_BUILT_IN: Mapping[str, Callable[[Float64Array], float]] = {
    "min": lambda values: float(values.min()),
    "max": lambda values: float(values.max()),
    "sum": lambda values: float(np.add.accumulate(values)[-1]),  # one by one, as everywhere
    "avg": lambda values: float(np.add.accumulate(values)[-1] / len(values)),
    "stddev": lambda values: float(values.std()),
}


def _arithmetic(op: str, left: _Value, right: _Value) -> float | None:
    if not isinstance(left, float | int) or not isinstance(right, float | int):
        return None
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right if right else None
        case _:
            return math.fmod(left, right) if right else None


def _compared(op: str, left: _Value, right: _Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        return (left == right) is (op == "=")
    difference = (left > right) - (left < right)
    holds = {"=": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
    return difference in holds[op]


def _any(values: Sequence[_Value]) -> bool | None:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def _not(value: _Value) -> bool | None:
    return None if value is None else not value


__all__ = ["Bound", "Later", "evaluate"]
