"""Of which events a row of an alert's query is: against the trends by definition, in any pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError
from engine.matching.output.row_json import row_from_json, row_to_json
from engine.matching.output.rows import Binding, MatchRow
from engine.reference.observed import observe
from engine.reference.trends import _Trends
from engine.trends import intake, runtime
from engine.trends.evidence import SAMPLED
from tests.engine.trends.evaluation import evaluated
from tests.engine.trends.test_long_streams import N_EVENTS, long_stream
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, trend_cases
from tests.examples import examples

Told = dict[tuple[object, object], tuple[dict[str, Binding], int | None]]


def told(rows: list[MatchRow]) -> Told:
    return {(row.window, row.key): (dict(row.bindings), row.n_events) for row in rows}


def alerting(case: TrendCase) -> CompiledQuery:
    try:
        return compile_query(f"{case.query} ALERT warning 'found'", SCHEMA)
    except QueryError:
        assume(False)
        raise


@settings(max_examples=examples(200), deadline=None)
@given(trend_cases())
def test_every_event_of_a_trend_is_told_however_the_stream_is_cut(case: TrendCase) -> None:
    """Of few events all are told: those of whole trends, and others only if a trend comes to them."""
    query = alerting(case)
    rows = evaluated(query, case.stream, SCHEMA)
    trends, events = _Trends(query.resolved), observe(case.stream, SCHEMA)
    for row in rows:
        assert row.window is not None
        inside = [event for event in events if row.window[0] < event.lo_ms <= row.window[1]]
        own = [reading for reading in trends.of(inside) if trends.group_of(reading) == row.key]
        shown = {event_id for ids in row.bindings.values() for event_id in ids}
        assert {event.event_id for reading in own for event, _ in reading} <= shown
        assert shown <= {event.event_id for event in inside}
        assert row.n_events is not None
        assert row.n_events >= len(shown)
        assert row_from_json(row.query, row_to_json(row)) == row
    assert told(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == told(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "LEAST_FORGOTTEN", 0)
        patch.setattr(intake, "PAIRS", 1)
        assert told(evaluated(query, case.stream, SCHEMA, case.cuts)) == told(rows)


def test_of_many_events_both_ends_are_told() -> None:
    """Every A is a trend of its own: those of the window are counted, and the outermost are named."""
    text = "PATTERN A+ WHERE A.x < NEXT(A).x GROUP BY g WITHIN 500 SLIDE 125 RETURN COUNT(*) ALERT warning 'found'"
    query, stream = compile_query(text, SCHEMA), long_stream()
    rows = evaluated(query, stream, SCHEMA)
    assert len(rows) > 8
    events = sorted(observe(stream, SCHEMA), key=lambda event: (event.lo_ms, event.event_id))
    for row in rows:
        assert row.window is not None
        group = dict(row.key)["g"]
        inside = [
            event.event_id
            for event in events
            if event.event_type == "A" and event.raw["g"] == group and row.window[0] < event.lo_ms <= row.window[1]
        ]
        assert row.n_events == len(inside)
        assert row.bindings == {"A": tuple(dict.fromkeys([*inside[:SAMPLED], *inside[-SAMPLED:]]))}
    cuts = tuple(range(11, int(stream.t_lo_ms[-1]), 37))
    assert told(evaluated(query, stream, SCHEMA, cuts, restarts=True)) == told(rows)
    assert N_EVENTS > 20 * SAMPLED


def test_queries_that_nobody_is_told_of_keep_no_events() -> None:
    for notice in ("", "REPORT 'found'"):
        query = compile_query(f"PATTERN A+ WITHIN 500 SLIDE 125 RETURN COUNT(*) {notice}", SCHEMA)
        rows = evaluated(query, long_stream(), SCHEMA)
        assert rows == [replace(row, bindings={}, n_events=None) for row in rows]
