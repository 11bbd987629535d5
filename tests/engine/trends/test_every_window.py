"""A query about trends without its threshold: the same rows among more, with what HAVING compares beside them."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import assume, given, settings

from engine import MatchRow, compile_query, every_window, trend_numbers, trend_thresholds
from engine.errors import QueryError
from tests.engine.trend_cases import SCHEMA as GOLDEN_SCHEMA
from tests.engine.trends.evaluation import evaluated
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, trend_cases
from tests.examples import examples

COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
ALL_OF = "PATTERN A+ a WITHIN 10 ms SLIDE 5 ms HAVING {} RETURN COUNT(*) AS n, SUM(a.attr) AS total"


def position(row: MatchRow) -> tuple[Any, ...]:
    return row.window, row.key


@settings(max_examples=examples(100), deadline=None)
@given(trend_cases())
def test_its_rows_are_those_of_the_query_and_more(case: TrendCase) -> None:
    try:
        query = compile_query(case.query, SCHEMA)
    except QueryError:
        assume(False)
        raise
    wanted = every_window(query)
    found = {position(row): row for row in evaluated(wanted, case.stream, SCHEMA)}
    rows = evaluated(query, case.stream, SCHEMA)
    if query.resolved.query.having is None:
        assert len(found) == len(rows)
    for row in rows:
        values = found[position(row)].values
        assert {name: values[name] for name in row.values} == pytest.approx(row.values, nan_ok=True)
        assert set(trend_numbers(wanted)) <= set(values)
        for threshold in trend_thresholds(query.resolved.query):
            value = values[threshold.name]
            assert isinstance(value, int | float)
            assert COMPARE[threshold.op](value, threshold.bound), "HAVING let the row through"


@pytest.mark.parametrize(
    ("having", "expected"),
    [
        ("COUNT(*) >= 3", [("n", ">=", 3.0)]),
        ("3 < COUNT(*)", [("n", ">", 3.0)]),
        ("COUNT(*) >= 2 * 3 AND MAX(a.attr) < -1", [("n", ">=", 6.0), ("max_attr", "<", -1.0)]),
        ("COUNT(*) >= 3 OR SUM(a.attr) > 1", []),
        ("SUM(a.attr) > COUNT(*)", []),
        ("SUM(a.attr) / COUNT(*) > 4", [("SUM(a.attr) / COUNT(*)", ">", 4.0)]),
    ],
)
def test_what_having_compares_with_constants(having: str, expected: list[tuple[str, str, float]]) -> None:
    query = compile_query(ALL_OF.format(having), GOLDEN_SCHEMA)
    found = trend_thresholds(query.resolved.query)
    assert [(each.name, each.op, each.bound) for each in found] == expected
    names = {each.name for each in found}
    assert set(trend_numbers(every_window(query))) == {"n", "total"} | names


def test_a_threshold_may_be_a_parameter() -> None:
    text = f"PARAMETERS least = 5\n{ALL_OF.format('COUNT(*) >= :least')}"
    query = compile_query(text, GOLDEN_SCHEMA, {"least": 7})
    assert [each.bound for each in trend_thresholds(query.resolved.query)] == [7.0]
    assert every_window(query).resolved.query.having is None
