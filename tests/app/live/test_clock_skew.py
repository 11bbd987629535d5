"""Skew bounds of clocks between collectors and engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from app.commands.query_tests import engine_rows
from app.live.clock_skew import EXACT_CLOCKS, ClockSkewBounds, apart
from app.live.derivation import Derivation
from app.live.intake import Source
from app.live.sources import build_derivation, build_sources, clock_skew_of
from app.settings import Settings
from collectors.base import Collected, FinishedHistory, ProblemLog
from collectors.history.hadoop1_history import Hadoop1Parser
from collectors.schema import load_event_types
from engine.admission import NONE_REFUSED, admit
from engine.events import EventBatch
from tests.app.pipeline_fixtures import Script, ScriptedCollector, batch
from tests.collectors.history.test_clock_offsets import history

QUERIES = Path(__file__).parents[3] / "queries"

BOUNDS = ClockSkewBounds(20, {"host:n1": 50, "host:n2": 0})


def event(event_id: str, t_ms: int, clock: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"event_id": event_id, "type": "MapStart", "t_lo_ms": t_ms, "t_hi_ms": t_ms, "clock_id": clock}
    return {**row, "task_id": "t1", **more}


def times(events: EventBatch) -> dict[str, tuple[int, int, int]]:
    return {r["event_id"]: (r["t_lo_ms"], r["t_hi_ms"], r.get("skew_ms", 0)) for r in events.rows()}


def test_intervals_get_room_for_the_offset_of_their_clock() -> None:
    events = batch(
        event("a", 1_000, "host:n1"),
        event("b", 2_000, "host:n2"),
        event("c", 3_000, "host:n3", t_hi_ms=3_015),
        event("d", 4_000),
    )
    assert times(BOUNDS.widened(events)) == {
        "a": (950, 1_050, 50),
        "b": (2_000, 2_000, 0),
        "c": (2_980, 3_035, 20),
        "d": (3_980, 4_020, 20),
    }
    assert admit(BOUNDS.widened(events))[1] == NONE_REFUSED


def test_exact_clocks_leave_events_as_they_are() -> None:
    events = batch(event("a", 1_000, "host:n1"))
    assert EXACT_CLOCKS.widened(events) is events
    collected = Collected(events, 5_000)
    assert EXACT_CLOCKS.applied(collected) is collected
    assert not ClockSkewBounds(0, {"host:n9": 9}).widened(events).has("skew_ms")


def test_the_promise_of_a_source_is_about_true_times() -> None:
    history = FinishedHistory("j1", "file", batch(event("h", 700, "host:n1")))
    found = BOUNDS.applied(Collected(batch(event("a", 1_000, "host:n2")), 5_000, finished=(history,)))
    assert found.watermark_ms == 4_950
    assert times(found.finished[0].events) == {"h": (650, 750, 50)}


def test_a_source_gives_the_bounds_to_what_it_tells() -> None:
    script = Script("one", [(10, event("a", 5, "host:n1"))], lateness_ms=0)
    polled = Derivation(clock_skew=BOUNDS).apply(Source(ScriptedCollector(script)).poll(100))
    assert times(polled.events) == {"a": (-45, 55, 50)}
    assert polled.watermark_ms == 50


def test_the_settings_reach_what_is_done_to_polls() -> None:
    sources: Mapping[str, Any] = {
        "clock_skew": {"default": "5 ms", "clocks": {"host:n1": "1 s"}},
        "job_history": {"enabled": True, "directories": ["."]},
    }
    settings = Settings(sources=sources)  # type: ignore[arg-type]
    derivation = build_derivation(settings, build_sources(settings))
    assert derivation._clock_skew == ClockSkewBounds(5, {"host:n1": 1_000})


def test_a_clock_whose_bound_was_changed_is_another_clock_before() -> None:
    before = ClockSkewBounds(0, {"host:n1": 50}).widened(batch(event("a", 1_000, "host:n1"), event("b", 1_100, "x")))
    after = ClockSkewBounds(0, {"host:n1": 80}).widened(batch(event("c", 1_200, "host:n1"), event("d", 1_300)))
    both = EventBatch.concat([before, after])
    assert [event.event_id for event in admit(both)[1].events] == ["c"]
    told = apart(both)
    assert admit(told) == (told, NONE_REFUSED)
    assert told.strings("clock_id").to_pylist() == ["host:n1 within 50 ms", "x", "host:n1", None]
    assert apart(before) is before


def test_a_known_offset_sets_times_right() -> None:
    bounds = ClockSkewBounds(0, {"host:n2": 10}, {"host:n1": -480_000, "host:n2": 1_000})
    events = batch(event("a", 1_000, "host:n1"), event("b", 2_000, "host:n2"), event("c", 3_000, "host:n3"))
    assert times(bounds.widened(events)) == {"a": (481_000, 481_000, 0), "b": (990, 1_010, 10), "c": (3_000, 3_000, 0)}
    assert bounds.applied(Collected(events, 5_000)).watermark_ms == 5_000 - 10 - 1_000
    behind = ClockSkewBounds(0, {}, {"host:n1": -480_000})
    assert behind.applied(Collected(events, 5_000)).watermark_ms == 5_000  # nothing gets an earlier time
    assert not behind.widened(events).has("skew_ms")  # so that queries that need exact times take part


def test_offsets_are_set_with_their_sign() -> None:
    sources: Mapping[str, Any] = {"clock_skew": {"offsets": {"host:n1": "-8 min", "host:n2": "2 s"}}}
    settings = Settings(sources=sources)  # type: ignore[arg-type]
    assert clock_skew_of(settings) == ClockSkewBounds(0, {}, {"host:n1": -480_000, "host:n2": 2_000})
    with pytest.raises(ValidationError):
        Settings(sources={"clock_skew": {"offsets": {"host:n1": "-2 days"}}})  # type: ignore[arg-type]


def test_the_report_of_a_job_whose_hosts_are_behind() -> None:
    """Its mappers end before it starts, by their clocks; with the offset that its history suggests it has its row."""
    problems = ProblemLog("job_history")
    parser = Hadoop1Parser("h", problems, 0)
    parser.feed(history(-16 * 60_000))
    parser.close()
    (message,) = [problem.message for problem in problems.drain() if problem.kind == "clock_skew"]
    suggested = yaml.safe_load(message.partition("offsets: ")[2])
    settings = Settings(sources={"clock_skew": {"offsets": suggested}})  # type: ignore[arg-type]
    events = parser.jobs[0].events.take_batch()
    schema, texts = load_event_types(), {"mapper-lifetimes": (QUERIES / "mapper-lifetimes.cep").read_text()}
    evaluate = engine_rows(schema)
    assert evaluate("mapper-lifetimes", texts, {}, events.sorted()) == []
    (row,) = evaluate("mapper-lifetimes", texts, {}, clock_skew_of(settings).widened(events).sorted())
    assert (row.values["n_mappers"], row.values["avg_ms"]) == (3, 7_000.0)
