"""Of which events a row of an alert's query is: against the trends by definition, in any pieces."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError
from engine.reference.observed import observe
from engine.trends.evidence import SAMPLED
from tests.engine.trends.evaluation import check_events, emitted, evaluated
from tests.engine.trends.test_long_streams import N_EVENTS, long_stream
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, trend_cases
from tests.examples import examples


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
    check_events(query, case)


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
    assert emitted(evaluated(query, stream, SCHEMA, cuts, restarts=True)) == emitted(rows)
    assert N_EVENTS > 20 * SAMPLED


def test_queries_that_nobody_is_told_of_keep_no_events() -> None:
    for notice in ("", "REPORT 'found'"):
        query = compile_query(f"PATTERN A+ WITHIN 500 SLIDE 125 RETURN COUNT(*) {notice}", SCHEMA)
        rows = evaluated(query, long_stream(), SCHEMA)
        assert rows == [replace(row, bindings={}, n_events=None) for row in rows]
