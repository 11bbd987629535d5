"""The graph of propagated aggregates against all trends by definition: any query, any cut, saved and restored."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError
from engine.reference import reference_output
from tests.engine.trend_cases import GOLDEN, stream
from tests.engine.trend_cases import SCHEMA as GOLDEN_SCHEMA
from tests.engine.trends.evaluation import check, evaluated, shown
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, trend_cases
from tests.examples import examples


@pytest.mark.parametrize("name", GOLDEN)
def test_worked_examples(name: str) -> None:
    golden = GOLDEN[name]
    query = compile_query(golden.query, GOLDEN_SCHEMA)
    rows = evaluated(query, stream(golden.text, **golden.attr), GOLDEN_SCHEMA)
    assert {row.window[0]: row.values for row in rows if row.window} == golden.rows


@settings(max_examples=examples(300), deadline=None)
@given(trend_cases())
def test_rows_are_those_of_the_definitions(case: TrendCase) -> None:
    query = _planned(case)
    expected = reference_output(query.resolved, case.stream)
    assert shown(evaluated(query, case.stream, SCHEMA)) == shown(expected)


@settings(max_examples=examples(150), deadline=None)
@given(trend_cases())
def test_neither_cuts_nor_restarts_nor_indexes_change_rows(case: TrendCase) -> None:
    """As where there are very many events and partitions, too: an index for each, and partitions that begin anew."""
    check(_planned(case), case)


def _planned(case: TrendCase) -> CompiledQuery:
    try:
        return compile_query(case.query, SCHEMA)
    except QueryError:
        assume(False)
        raise
