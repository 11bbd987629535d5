"""What the engine cannot do becomes a problem in the store."""

from __future__ import annotations

from app.live.engine_watch import EngineWatch
from collectors.schema import load_event_types
from engine import Engine, Limits, compile_query
from engine.errors import UnsupportedQueryError
from tests.app.pipeline_fixtures import batch, event

QUERY = "PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_next_match { [task_id] } WITHIN 1 hour RETURN a.task_id"


def test_events_that_a_query_cannot_evaluate_are_told_once() -> None:
    schema, watch = load_event_types(), EngineWatch()
    matcher = Engine([compile_query(QUERY, schema, {}, name="pair")], schema)
    drain = watch.complaints(lambda: matcher)
    imprecise = {**event("e", 10, "MapStart", task_id="t"), "t_hi_ms": 20}
    matcher.process(batch(imprecise, event("f", 30, task_id="t")), 100)
    (problem,) = drain()
    assert (problem.source, problem.place, problem.kind) == ("engine", "query pair", "imprecise_events")
    assert problem.message == (
        "1 events without an exact time left out: under skip_till_next_match which event comes next is not the same in "
        "all possible orders; use skip_till_any_match"
    )
    assert drain() == []


def test_why_trends_leave_events_out_is_told() -> None:
    """They may have exact times: so many others overlap there."""
    schema, watch = load_event_types(), EngineWatch()
    text = "PATTERN MapStart a WITHIN 1 hour SLIDE 1 hour RETURN COUNT(*)"
    matcher = Engine([compile_query(text, schema, {}, name="starts")], schema)
    drain = watch.complaints(lambda: matcher)
    longest = {**event("e", 10, "MapStart", task_id="t"), "t_hi_ms": 20}
    matcher.process(batch(longest, *(event(f"f{n}", 15, "MapStart", task_id="t") for n in range(512))), 100)
    (problem,) = drain()
    assert problem.message == (
        "1 events left out: for trends intervals of one clock must not overlap, and have neither skew nor weights, and "
        "of a group at most 512 events may overlap at once"
    )


def test_events_longer_than_a_window_are_told_with_one_of_them() -> None:
    schema, watch = load_event_types(), EngineWatch()
    text = QUERY.replace("next", "any").replace("1 hour", "1 second")
    matcher = Engine([compile_query(text, schema, {}, name="pair")], schema)
    drain = watch.complaints(lambda: matcher)
    long = [{**event(name, 10, "MapStart", task_id="t"), "t_hi_ms": 2_000} for name in ("e", "f")]
    matcher.process(batch(*long), 5_000)
    (problem,) = drain()
    assert (problem.source, problem.place, problem.kind) == ("engine", "query pair", "longer_than_window")
    assert problem.message == (
        "2 events left out, their intervals being longer than the query's window, the last one event f (MapStart): its "
        "interval is 1990 ms long, longer than the window of 1000 ms"
    )
    assert drain() == []


def test_searches_that_were_stopped_are_told_once() -> None:
    schema, watch = load_event_types(), EngineWatch()
    text = """PATTERN SEQ(MapEnd+ b[]) WITHIN 1 hour OUTPUT COUNT
              WHERE skip_till_any_match { avg(b[].timestamp) = 0.5 }"""
    query = compile_query(text, schema, {}, name="mean")
    matcher = Engine([query], schema, limits=Limits(work_budget=10))
    drain = watch.complaints(lambda: matcher)
    matcher.process(batch(*(event(f"e{t}", t, task_id="t") for t in range(1, 9))), 100)
    (problem,) = drain()
    assert (problem.place, problem.kind) == ("query mean", "search_unfinished")
    assert "matches may be missing" in problem.message
    assert drain() == []


def test_a_query_that_fails_is_told() -> None:
    watch = EngineWatch()
    watch.failed("slow", UnsupportedQueryError("too many of them"))
    (problem,) = watch.complaints(lambda: None)()
    assert (problem.place, problem.kind) == ("query slow", "query_failed")
    assert "too many of them" in problem.message
