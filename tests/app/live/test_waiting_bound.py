"""What waits for a source that is behind has a bound: then the others go on without it, until it has caught up."""

from __future__ import annotations

import json

from app.live.intake import Intake
from app.live.ordering.deduplicate import Deduplicator
from app.live.ordering.order import Order, Ordered
from app.live.ordering.watermarks import Watermarks
from collectors.time_units import HOUR_MS
from engine.events import EventBatch
from tests.app.pipeline_fixtures import batch, event

T0 = 1_700_000_000_000
NAMES = ("slow", "fast", "other")


def order_of(most: int, names: tuple[str, ...] = NAMES) -> Order:
    ranks = {name: rank for rank, name in enumerate(names)}
    return Order(Deduplicator(ranks, 10 * HOUR_MS), Watermarks(names, HOUR_MS, T0), most_waiting=most)


def told(source: str, at_ms: int, promised_ms: int, *times_ms: int) -> Intake:
    events = [event(f"{source}-{t_ms}", T0 + t_ms) for t_ms in times_ms]
    made = batch(*events) if events else EventBatch.empty()
    return Intake(source, T0 + at_ms, made, T0 + promised_ms, position={})


def ids(step: Ordered) -> list[str]:
    return list(step.events.strings("event_id").to_pylist())


def messages(step: Ordered) -> list[tuple[str, str]]:
    return [(problem.kind, problem.source) for problem in step.problems]


def test_more_than_the_bound_goes_on_without_the_last_one() -> None:
    order = order_of(3)
    step = order.advance([told("slow", 100, 1), told("fast", 100, 100, 10, 20, 30), told("other", 100, 50)], T0 + 100)
    assert (ids(step), messages(step), order.n_waiting) == ([], [], 3)  # as many as may
    step = order.advance([told("fast", 101, 101, 60)], T0 + 101)
    (problem,) = step.problems
    assert (problem.kind, problem.source) == ("left_out", "slow")
    assert problem.message.startswith(
        "4 events wait for it, more than sources.max_waiting_events (3): it stands at 2023-11-14T22:13:20.001Z, the "
        "others at 2023-11-14T22:13:20.050Z or later."
    )
    assert problem.message.endswith("else look at its lateness and at its machine's clock")
    assert order.watermarks.by_source()["slow"] == (T0 + 1, True)
    step = order.advance([], T0 + 102)
    assert (ids(step), messages(step)) == (["fast-10", "fast-20", "fast-30"], [])
    # What it tells of the time before is late: kept, and counted.
    step = order.advance([told("slow", 103, 5, 4, 70)], T0 + 103)
    assert ([late.event_id for late in step.late], messages(step)) == (["slow-4"], [("late", "slow")])
    assert order.n_waiting == 2


def test_it_counts_again_at_half_the_distance() -> None:
    order = order_of(1)
    order.advance([told("slow", 1_000, 0), told("fast", 1_000, 1_000, 10, 20), told("other", 1_000, 1_000)], T0 + 1_000)
    order.advance([told("slow", 1_001, 499)], T0 + 1_001)
    assert order.watermarks.by_source()["slow"] == (T0 + 499, True)
    order.advance([told("slow", 1_002, 500)], T0 + 1_002)
    assert order.watermarks.by_source()["slow"] == (T0 + 500, False)
    step = order.advance([told("fast", 1_200, 1_200, 1_100), told("other", 1_200, 1_200)], T0 + 1_200)
    assert (ids(step), step.watermark_ms) == ([], T0 + 1_000)  # the others wait for it again
    step = order.advance([told("slow", 1_201, 1_150)], T0 + 1_201)
    assert ids(step) == ["fast-1100"]


def test_one_after_the_other_but_never_all() -> None:
    order = order_of(1)
    order.advance([told("slow", 90, 0), told("fast", 90, 90, 61, 62, 63), told("other", 90, 60)], T0 + 90)
    step = order.advance([], T0 + 91)
    assert (ids(step), messages(step)) == ([], [("left_out", "other")])
    assert len(ids(order.advance([], T0 + 92))) == 3
    step = order.advance([told("fast", 93, 93, 200, 201, 202)], T0 + 93)  # it waits for itself
    assert (ids(step), messages(step), order.n_waiting) == ([], [], 3)
    assert not order.watermarks.by_source()["fast"][1]


def test_sources_that_are_level_are_not_left_out() -> None:
    order = order_of(1)
    step = order.advance([told(name, 50, 50, 60, 70) for name in NAMES], T0 + 50)
    assert (messages(step), order.n_waiting) == ([], 6)


def test_what_has_been_passed_already_does_not_count() -> None:
    """Steps release a share; what is left is not what waits for a source."""
    order = order_of(2)
    order.most_events = 1
    step = order.advance([told("slow", 90, 50), told("fast", 90, 90, 1, 2, 3, 4), told("other", 90, 90)], T0 + 90)
    assert order.is_behind
    assert (messages(step), order.n_waiting > 2) == ([], True)


def test_a_source_that_has_promised_nothing_yet() -> None:
    order = order_of(1)
    step = order.advance([told("fast", 90, 90, 1, 2), told("other", 90, 90)], T0 + 90)
    (problem,) = step.problems
    assert "it has promised nothing yet, the others at" in problem.message
    assert len(ids(order.advance([], T0 + 91))) == 2
    order.advance([told("slow", 92, 80)], T0 + 92)
    assert order.watermarks.by_source()["slow"] == (T0 + 80, False)


def test_a_restart_leaves_out_whom_it_left_out() -> None:
    order = order_of(1)
    order.advance([told("slow", 1_000, 0), told("fast", 1_000, 1_000, 10, 20), told("other", 1_000, 1_000)], T0 + 1_000)
    tables, state = order.save()
    again = order_of(1)
    again.restore({**tables, **order.sealed()}, json.loads(json.dumps(state)), T0 + 1_001)
    assert ids(again.advance([told("slow", 1_002, 100)], T0 + 1_002)) == ["fast-10", "fast-20"]
    assert again.watermarks.by_source()["slow"] == (T0 + 100, True)
    for marks in state["watermarks"]["sources"].values():
        del marks[3]  # as a checkpoint of before
    order_of(1).restore({**tables, **order.sealed()}, state, T0 + 1_001)
