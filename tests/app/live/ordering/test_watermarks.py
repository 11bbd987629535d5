"""Watermarks of several sources, the recent past, and sources that fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from app.live.intake import IntakeQueue, Source
from app.live.ordering.watermarks import NEVER_MS, Watermarks
from app.live.recent import LastEvents, RecentEvents, last_events, longest_windows
from collectors.base import Collected
from engine.events import EventBatch
from tests.app.pipeline_fixtures import batch, event

NAMES = ("a", "b", "c")


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 100), st.integers(0, 30)), max_size=30))
def test_the_combined_watermark_is_the_minimum_over_the_living(heard: list[tuple[str, int, int]]) -> None:
    marks, now_ms, timeout_ms = Watermarks(NAMES, 50, 0), 0, 50
    best = dict.fromkeys(NAMES, NEVER_MS)
    last = dict.fromkeys(NAMES, 0)
    before = NEVER_MS
    for name, watermark_ms, passed_ms in heard:
        now_ms += passed_ms
        marks.heard(name, watermark_ms, now_ms)
        best[name], last[name] = max(best[name], watermark_ms), now_ms
        combined = marks.combine(now_ms).watermark_ms
        live = [best[n] for n in NAMES if now_ms - last[n] <= timeout_ms]
        assert combined == max(before, min(live))
        before = combined


def test_a_source_is_reported_when_it_falls_silent_and_when_it_is_back() -> None:
    marks = Watermarks(("a", "b"), 50, 0)
    marks.heard("a", 60, 60)
    advance = marks.combine(60)
    assert (advance.watermark_ms, advance.left_out, advance.back) == (60, ("b",), ())
    assert marks.combine(61).left_out == ()
    marks.heard("b", 10, 70)
    advance = marks.combine(70)
    assert (advance.watermark_ms, advance.back) == (60, ("b",))


def test_with_nobody_alive_time_stands_still() -> None:
    marks = Watermarks(("a",), 50, 0)
    marks.heard("a", 5, 5)
    marks.combine(5)
    assert marks.combine(1_000).watermark_ms == 5


def test_after_a_restart_sources_get_their_time_to_be_heard_again() -> None:
    marks = Watermarks(("a", "b"), 50, 0)
    for name in ("a", "b"):
        marks.heard(name, 10, 10)
    marks.combine(10)
    again = Watermarks(("a", "b", "new"), 50, 5_000)
    again.restore(marks.save(), 5_000)
    again.heard("a", 5_000, 5_001)
    assert again.combine(5_001).watermark_ms == 10
    again.heard("b", 4_990, 5_002)
    again.heard("new", 4_980, 5_002)
    assert again.combine(5_002).watermark_ms == 4_980


def test_the_longest_window_of_each_type_counts() -> None:
    queries = [(frozenset({"A", "B"}), 10), (frozenset({"B"}), 30), (frozenset({"C"}), 0)]
    assert longest_windows(queries) == {"A": 10, "B": 30, "C": 0}


def test_recent_events_are_there_for_this_step_and_for_their_window() -> None:
    recent = RecentEvents({"MapEnd": 100})
    recent.add(batch(event("e1", 10), event("x", 10, "JobStart")), 50)
    assert set(recent.lookup(["e1", "x", "nope"])) == {"e1"}
    recent.add(batch(event("e2", 60)), 10_000)  # the watermark jumps: both are still there for this step's matches
    assert set(recent.lookup(["e1", "e2"])) == {"e1", "e2"}
    recent.add(EventBatch.empty(), 10_001)
    assert len(recent) == 0


def test_recent_events_survive_a_restart() -> None:
    recent, again = RecentEvents({"MapEnd": 100}), RecentEvents({"MapEnd": 100})
    recent.add(batch(event("e1", 10, host="n1")), 50)
    again.restore(recent.save(), 50)
    assert again.lookup(["e1"])["e1"].attributes == {"host": "n1"}


def test_events_of_several_types_are_found_without_what_they_do_not_have() -> None:
    recent = RecentEvents({"MapEnd": 100, "JobStart": 100})
    recent.add(batch(event("e1", 10, host="n1"), event("e2", 11), event("e3", 12, "JobStart"), event("x", 13)), 50)
    found = recent.lookup(["e3", "e2", "e1", "nope"])
    assert {i: (known.type, known.t_lo_ms) for i, known in found.items()} == {
        "e1": ("MapEnd", 10),
        "e2": ("MapEnd", 11),
        "e3": ("JobStart", 12),
    }
    assert [found[i].attributes for i in ("e1", "e2", "e3")] == [{"host": "n1"}, {}, {}]
    assert recent.lookup(["nope"]) == {}


class Brittle:
    """A collector with a defect: one poll loses what it has read."""

    name = "brittle"

    def __init__(self) -> None:
        self.position = 0
        self.broken = False

    def poll(self, now_ms: int) -> Collected:
        rows = [event(f"e{i}", i) for i in range(self.position, now_ms)]
        self.position = now_ms
        if self.broken:
            raise ZeroDivisionError("a defect")
        return Collected(batch(*rows), now_ms)

    def checkpoint(self) -> dict[str, Any]:
        return {"position": self.position}

    def restore(self, position: Mapping[str, Any]) -> None:
        self.position = position["position"]


def test_a_defect_of_a_collector_is_a_problem_and_loses_nothing() -> None:
    collector = Brittle()
    source = Source(collector)
    assert len(source.poll(3).events) == 3
    collector.broken = True
    failed = source.poll(5)
    assert (failed.watermark_ms, failed.problems[0].kind) == (None, "collector_failed")
    collector.broken = False
    assert source.poll(6).events.strings("event_id").to_pylist() == ["e3", "e4", "e5"]


def test_the_queue_gives_everything_once_in_order() -> None:
    queue, source = IntakeQueue(), Source(Brittle())
    for now_ms in (1, 2):
        queue.put(source.poll(now_ms))
    assert len(queue) == 2
    assert [intake.polled_ms for intake in queue.drain()] == [1, 2]
    assert queue.drain() == []


def test_the_last_events_of_each_value_of_a_key_are_kept() -> None:
    """Those without an attribute of the key are counted by what they have."""
    last = LastEvents(frozenset({"MapEnd", "JobStart"}), ("job_id", "task_id"), 2)
    rows = [event(f"e{t}", t, task_id=task, job_id="j") for t, task in enumerate("abaaab")]
    rows += [event(f"s{t}", t, "JobStart", job_id="j") for t in (7, 8, 9)]
    rows += [event("n1", 3, "NodeLost"), event("e10", 0, task_id="c", job_id="j"), event("e11", 0, task_id=None)]
    kept = {"e1", "e3", "e4", "e5", "s8", "s9", "e10", "e11"}
    found = batch(*rows)
    assert set(found.where(last.among(found)).strings("event_id").to_pylist()) == kept
    recent = RecentEvents({"MapEnd": 0, "JobStart": 0, "NodeLost": 0}, last=[last])
    recent.add(found, 100)
    recent.add(EventBatch.empty(), 200)
    assert set(recent.events.strings("event_id").to_pylist()) == kept
    with patch("app.live.recent.MOST_LAST_EVENTS", 3):
        recent.add(EventBatch.empty(), 300)
    assert set(recent.events.strings("event_id").to_pylist()) == {"e5", "s8", "s9"}


def test_of_windows_of_events_over_one_key_the_longest_counts() -> None:
    queries = [(frozenset({"A"}), ("k",), 3), (frozenset({"B"}), ("k",), 5), (frozenset({"C"}), (), None)]
    assert last_events(queries) == [LastEvents(frozenset({"A", "B"}), ("k",), 5)]
