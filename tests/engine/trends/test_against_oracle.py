"""The graph of propagated aggregates against all trends by definition: any query, any cut, saved and restored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError
from engine.events import FOREVER_MS, EventBatch, EventSchema
from engine.matching.output.rows import MatchRow
from engine.reference import reference_output
from engine.runtime.engine import Engine
from engine.trends import memory, runtime
from tests.engine.trend_cases import GOLDEN, stream
from tests.engine.trend_cases import SCHEMA as GOLDEN_SCHEMA
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, trend_cases
from tests.examples import examples


def evaluated(
    query: CompiledQuery, batch: EventBatch, schema: EventSchema, cuts: tuple[int, ...] = (), *, restarts: bool = False
) -> list[MatchRow]:
    """The rows of a stream that comes in parts, each before a watermark; after each the state is saved and restored."""
    running = Engine([query], schema)
    rows: list[MatchRow] = []
    for before, watermark_ms in zip((-(2**40), *cuts), (*cuts, FOREVER_MS), strict=True):
        part = batch.where((batch.t_lo_ms >= before) & (batch.t_lo_ms < watermark_ms))
        rows += running.process(part, watermark_ms)
        if restarts:
            state = running.save()
            running = Engine([query], schema)
            assert running.restore(state) == frozenset()
    return rows


def shown(rows: Any) -> list[tuple[Any, ...]]:
    return [(row.window, row.key, {k: _close(v) for k, v in row.values.items()}) for row in rows]


def _close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


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
def test_indexes_and_forgotten_partitions_change_no_row(case: TrendCase) -> None:
    """As where there are very many events and partitions: an index for each, and partitions that begin anew."""
    query = _planned(case)
    expected = reference_output(query.resolved, case.stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "LEAST_INDEXED", 0)
        patch.setattr(memory, "WAITING_PER_ROOT", 0.0)
        patch.setattr(runtime, "LEAST_FORGOTTEN", 0)
        assert shown(evaluated(query, case.stream, SCHEMA)) == shown(expected)
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == shown(expected)
        patch.setattr(memory, "WAITING_PER_ROOT", 1.0)  # some events wait behind an index
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts)) == shown(expected)


@settings(max_examples=examples(150), deadline=None)
@given(trend_cases())
def test_neither_cuts_nor_restarts_change_rows(case: TrendCase) -> None:
    query = _planned(case)
    whole = evaluated(query, case.stream, SCHEMA)
    assert evaluated(query, case.stream, SCHEMA, case.cuts) == whole
    assert evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True) == whole


def _planned(case: TrendCase) -> CompiledQuery:
    try:
        return compile_query(case.query, SCHEMA)
    except QueryError:
        assume(False)
        raise
