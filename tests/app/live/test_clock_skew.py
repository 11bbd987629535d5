"""Skew bounds of clocks between collectors and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.live.clock_skew import EXACT_CLOCKS, ClockSkewBounds, apart
from app.live.intake import Source
from app.live.sources import build_sources
from app.settings import Settings
from collectors.base import Collected, FinishedHistory
from engine.admission import NONE_REFUSED, admit
from engine.events import EventBatch
from tests.app.pipeline_fixtures import Script, ScriptedCollector, batch

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
    polled = Source(ScriptedCollector(script), clock_skew=BOUNDS).poll(100)
    assert times(polled.events) == {"a": (-45, 55, 50)}
    assert polled.watermark_ms == 50


def test_the_settings_reach_the_sources() -> None:
    sources: Mapping[str, Any] = {
        "clock_skew": {"default": "5 ms", "clocks": {"host:n1": "1 s"}},
        "job_history": {"enabled": True, "directories": ["."]},
    }
    settings = Settings(sources=sources)  # type: ignore[arg-type]
    source = build_sources(settings)["job_history"].source
    assert source._clock_skew == ClockSkewBounds(5, {"host:n1": 1_000})


def test_a_clock_whose_bound_was_changed_is_another_clock_before() -> None:
    before = ClockSkewBounds(0, {"host:n1": 50}).widened(batch(event("a", 1_000, "host:n1"), event("b", 1_100, "x")))
    after = ClockSkewBounds(0, {"host:n1": 80}).widened(batch(event("c", 1_200, "host:n1"), event("d", 1_300)))
    both = EventBatch.concat([before, after])
    assert [event.event_id for event in admit(both)[1].events] == ["c"]
    told = apart(both)
    assert admit(told) == (told, NONE_REFUSED)
    assert told.strings("clock_id").to_pylist() == ["host:n1 within 50 ms", "x", "host:n1", None]
    assert apart(before) is before
