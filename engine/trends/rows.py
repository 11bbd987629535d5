"""Rows of trend queries: the numbers of a window, put together by group, for RETURN and HAVING."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import UnsupportedQueryError
from engine.events import AttributeType
from engine.events import Value as EventValue
from engine.kernels.trends import arrays as ta
from engine.language import ast
from engine.matching.output.match_row import Expectation, MatchRow
from engine.plan.trends.model import Number, NumberKind, TrendRowPlan
from engine.stream.interner import Interner
from engine.trends.evidence import TrendEvidence
from engine.trends.numbers import MOST_WHOLE, Quantity, Scaled, calculated
from engine.trends.totals import Position, Totals, group_value

_Value = Quantity | str | bool | None

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TrendRows:
    """Makes the rows of one query from the totals of its graph, whose plan is `shared`."""

    def __init__(self, plan: TrendRowPlan, shared: TrendRowPlan, interner: Interner) -> None:
        self._plan = plan
        self._interner = interner
        self._positions = [0, *(1 + shared.numbers.index(number) for number in plan.numbers)]

    def of(self, found: Mapping[Position, Totals], evidence: TrendEvidence | None = None) -> list[MatchRow]:
        """The rows by window, then by group; with the events that each is of, where they are kept."""
        rows = (self._row(window, group, found[window, group]) for window, group in sorted(found, key=self._position))
        emitted = (row for row in rows if row is not None)
        return list(emitted) if evidence is None else [self._with_events(row, evidence) for row in emitted]

    def _too_large(self, window: int, what: str, size: int, about: str = "") -> UnsupportedQueryError:
        query = self._plan.query
        start_ms = window * self._plan.slide_ms
        more = min(ast.MOST_EXACT_BITS, size + size // 4)
        return UnsupportedQueryError(
            f"{what} of the window ({start_ms}, {start_ms + self._plan.within_ms}] ms has {about}{size:,} bits",
            query.clause_span("EXACT"),
            f"at most {query.exact_bits:,}, as EXACT says",
            ("" if size > more else f"EXACT {more} BITS, ")
            + "shorter windows, stricter conditions, or leave EXACT out: numbers are rounded then, and say so",
        )

    def _with_events(self, row: MatchRow, evidence: TrendEvidence) -> MatchRow:
        found = evidence.of(tuple(value for _, value in row.key), row.first_lo_ms // self._plan.slide_ms)
        return replace(row, bindings=found.bindings, n_events=found.n_events)

    def _position(self, at: Position) -> tuple[object, ...]:
        window, group = at
        values = [self._group_value(k, value) for k, value in zip(self._plan.groups, group, strict=True)]
        return window, tuple((isinstance(value, str), value) for value in values)

    def _group_value(self, component: int, value: float) -> EventValue:
        return group_value(self._plan, self._interner, component, value)

    def _row(self, window: int, group: tuple[float, ...], totals: Totals) -> MatchRow | None:
        plan = self._plan
        key = {
            plan.components[k].attribute: self._group_value(k, value)
            for k, value in zip(plan.groups, group, strict=True)
        }
        row = _RowValues(plan, key, [totals.numbers[position] for position in self._positions])
        if plan.query.having is not None and row.value(plan.query.having) is not True:
            return None
        if totals.size:
            raise self._too_large(window, "COUNT(*)", totals.size, "about ")
        values = {item.name: row.value(item.expression) for item in plan.query.returns}
        for name, value in values.items():
            if plan.n_limbs and isinstance(value, int) and value.bit_length() > plan.query.exact_bits:
                raise self._too_large(window, name, value.bit_length())
        start_ms = window * plan.slide_ms
        return MatchRow(
            query=plan.name,
            key=tuple(key.items()),
            first_lo_ms=start_ms,
            last_hi_ms=start_ms + plan.within_ms,
            bindings={},
            confidence=1.0,
            values={name: _shown(value) for name, value in values.items()},
            exact=all(totals.is_exact[position] for position in self._positions) and not row.is_rounded,
            window=(start_ms, start_ms + plan.within_ms),
            expected=_expectation(totals.marks),
        )


def _expectation(marks: int) -> Expectation | None:
    if marks & ta.IS_BOUND:
        return Expectation.UPPER_BOUND
    return Expectation.EXPECTED if marks & ta.IS_EXPECTED else None


def _shown(value: _Value) -> EventValue:
    """As rows have it: numbers beyond 64 bits and all doubles as text, so that nothing of them is lost."""
    is_large = isinstance(value, Scaled) or (isinstance(value, int) and abs(value) > MOST_WHOLE)
    return str(value) if is_large else value  # type: ignore[return-value]  # no scaled one is left


class _RowValues:
    """Evaluates expressions over one row, three-valued: None is NULL and unknown."""

    def __init__(self, plan: TrendRowPlan, key: Mapping[str, EventValue], numbers: Sequence[Quantity | None]) -> None:
        self._plan = plan
        self._key = key
        self._numbers = numbers
        self.is_rounded = False
        """Whether arithmetic among whole numbers has left 64 bits."""

    def value(self, node: ast.Expression) -> _Value:
        match node:
            case ast.Literal(value=constant):
                return constant
            case ast.Attribute(name=name):
                own = self._key[name]
                return None if isinstance(own, float) and math.isnan(own) else own
            case ast.TrendAggregate():
                return self._aggregate(node)
            case ast.Negative(operand=operand):
                return self._calculated("-", 0, self.value(operand))
            case ast.Arithmetic(op=op, left=left, right=right):
                return self._calculated(op, self.value(left), self.value(right))
            case ast.Comparison(op=op, left=left, right=right):
                return _compared(op, self.value(left), self.value(right))
            case ast.Membership(operand=operand, options=options):
                value = self.value(operand)
                return _any([_compared("=", value, self.value(option)) for option in options])
            case ast.OneOf(operands=operands):
                return _any([self.value(operand) for operand in operands])
            case ast.AllOf(operands=operands):
                return _not(_any([_not(self.value(operand)) for operand in operands]))
            case ast.Not(operand=operand):
                return _not(self.value(operand))
            case ast.Aggregate() | ast.Parameter():
                raise AssertionError(f"{node} is no value of a row")

    def _aggregate(self, node: ast.TrendAggregate) -> Quantity | None:
        """GRETA, Definition 2; a sum of no value is NULL."""
        if node.variable is None:
            return self._numbers[0]
        match node.function:
            case "count":
                return self._number(NumberKind.EVENTS, node)
            case "min" | "max":
                found = self._number(NumberKind.LEAST if node.function == "min" else NumberKind.GREATEST, node)
                return int(found) if self._is_whole(node) and isinstance(found, float) else found
        total = self._number(NumberKind.SUM, node)
        if total is None or (isinstance(total, float) and math.isnan(total)):
            return None
        if node.function == "avg":
            known = self._number(NumberKind.KNOWN, node)
            return calculated("/", total, known) if known else None
        return float(total) if isinstance(total, int) and not self._is_whole(node) else total

    def _is_whole(self, node: ast.TrendAggregate) -> bool:
        return node.name is not None and self._plan.attribute_types[node.name] is AttributeType.INT

    def _number(self, kind: NumberKind, node: ast.TrendAggregate) -> Quantity | None:
        for at, number in enumerate(self._plan.numbers, start=1):
            if _is_that(number, kind, node):
                return self._numbers[at]
        raise AssertionError(f"{node} is not propagated")

    def _calculated(self, op: str, left: _Value, right: _Value) -> Quantity | None:
        if left is None or right is None:
            return None
        assert not isinstance(left, str | bool)
        assert not isinstance(right, str | bool)
        found = calculated(op, left, right, exact=self._plan.n_limbs > 0)
        is_whole = op != "/" and isinstance(left, int) and isinstance(right, int)
        self.is_rounded |= is_whole and found is not None and not isinstance(found, int)
        return found


def _is_that(number: Number, kind: NumberKind, node: ast.TrendAggregate) -> bool:
    return (number.kind, number.variable, number.attribute) == (kind, node.variable, node.name)


def _compared(op: str, left: _Value, right: _Value) -> bool | None:
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return None
    return _COMPARE[op](left, right)


def _not(value: _Value) -> bool | None:
    return not value if isinstance(value, bool) else None


def _any(values: Sequence[_Value]) -> bool | None:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


__all__ = ["TrendRows"]
