"""What is refused at the door, with which reason, and that the rest of the batch goes on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.admission import (
    MAX_INTERVAL_MS,
    MAX_KEPT_ASIDE,
    WEIGHTS_TOLERANCE,
    Aside,
    Refusal,
    admit,
    too_long,
)
from engine.events import MAX_EXACT_INT, AttributeType, EventBatch, EventSchema

SCHEMA = EventSchema.of({"A": {"x": AttributeType.INT}, "B": {"x": AttributeType.INT}})


def batch(*events: tuple[int, int, list[float] | None], types: str | None = None) -> EventBatch:
    rows: list[dict[str, Any]] = [
        {"event_id": f"e{n}", "type": types[n] if types else "A", "t_lo_ms": lo, "t_hi_ms": hi, "weights": weights}
        for n, (lo, hi, weights) in enumerate(events)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def ids(admitted: EventBatch) -> list[str]:
    return list(admitted.strings("event_id").to_pylist())


GOOD = (5, 7, None)
FULL = MAX_EXACT_INT


@pytest.mark.parametrize(
    ("bad", "reason", "found"),
    [
        ((5, 4, None), Refusal.REVERSED, "its interval starts at 5 ms, after its end at 4 ms"),
        ((2**63 - 1, -(2**63), None), Refusal.REVERSED, "its interval starts at 9223372036854775807 ms"),
        ((-1, 4, None), Refusal.OUT_OF_RANGE, r"its interval \[-1, 4\] ms; expected times from 0"),
        ((-(2**63), 2**63 - 1, None), Refusal.OUT_OF_RANGE, "expected times from 0"),
        ((FULL, FULL + 1, None), Refusal.OUT_OF_RANGE, "expected times from 0"),
        ((0, MAX_INTERVAL_MS + 1, None), Refusal.INTERVAL_TOO_LONG, "ms long; expected at most 2678400000 ms"),
        ((1, 2, [1.0]), Refusal.WEIGHTS, r"its 1 weights with sum 1 do not fit the 2 nominal ms of \[1, 2\]"),
        ((1, 2, []), Refusal.WEIGHTS, "its 0 weights"),
        ((1, 2, [0.5, 0.4]), Refusal.WEIGHTS, "with sum 0.9"),
        ((1, 2, [1.5, -0.5]), Refusal.WEIGHTS, "2 weights with sum 1"),
        ((1, 2, [float("nan"), 1.0]), Refusal.WEIGHTS, "2 weights with sum nan"),
        ((1, 2, [float("inf"), 0.0]), Refusal.WEIGHTS, "2 weights with sum inf"),
        ((1, 2, [None, 1.0]), Refusal.WEIGHTS, "2 weights with sum 1"),
        ((1, 2, [0.0, 0.0]), Refusal.WEIGHTS, "with sum 0"),
    ],
)
def test_a_bad_event_is_refused_and_the_others_go_on(bad: Any, reason: Refusal, found: str) -> None:
    admitted, refused = admit(batch(GOOD, bad, (5, 7, [0.25, 0.25, 0.5])))
    assert ids(admitted) == ["e0", "e2"]
    assert refused.counts == {reason: 1}
    (event,) = refused.events
    assert (event.event_id, event.event_type, event.reason) == ("e1", "A", reason)
    assert (event.t_lo_ms, event.t_hi_ms) == bad[:2]
    assert str(event).startswith("event e1 (A): ")
    assert re.search(found, str(event))


def skewed(*events: tuple[int, int, str | None, int, list[float] | None]) -> EventBatch:
    names = ("t_lo_ms", "t_hi_ms", "clock_id", "skew_ms", "weights")
    rows = [{"event_id": f"e{n}", "type": "A"} | dict(zip(names, e, strict=True)) for n, e in enumerate(events)]
    return EventBatch.from_rows(rows, SCHEMA)


def test_skew_has_room_in_the_interval_and_is_one_for_a_clock() -> None:
    good = [(0, 10, "h", 5, None), (0, 8, None, 4, None), (0, 9, None, 0, None), (0, 11, "h", 5, [0.5, 0.5])]
    bad = [(0, 9, "g", 5, None), (0, 9, None, -1, None), (0, 9, "h", 4, None), (0, 11, "h", 5, [1 / 12] * 12)]
    admitted, refused = admit(skewed(*good, *bad))
    assert ids(admitted) == ["e0", "e1", "e2", "e3"]
    assert [event.reason for event in refused.events] == [Refusal.SKEW, Refusal.SKEW, Refusal.CLOCK, Refusal.WEIGHTS]
    assert "its skew of 5 ms does not fit its interval [0, 9]" in str(refused.events[0])
    assert "its clock h has a skew of 4 ms here" in str(refused.events[2])
    assert "its 12 weights with sum 1 do not fit the 2 nominal ms" in str(refused.events[3])


def test_the_edges_are_admitted() -> None:
    good = batch((0, 0, None), (FULL, FULL, None), (0, MAX_INTERVAL_MS, None), (1, 2, [1 - 1e-10, 0.0]), (1, 1, [1.0]))
    admitted, refused = admit(good)
    assert admitted.table == good.table
    assert refused.n_events == 0
    assert admit(EventBatch.empty())[1].n_events == 0
    assert admit(batch((1, 2, [1 - 2 * WEIGHTS_TOLERANCE, 0.0])))[1].n_events == 1


@given(
    st.lists(
        st.tuples(st.sampled_from([-(2**63), -1, 0, 5, 2**53, 2**53 + 1, 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))
    )
)
def test_whatever_the_numbers_are(intervals: list[tuple[int, int]]) -> None:
    """The quick look at a batch and the look at each event agree, also where differences overflow."""
    wanted = [
        f"e{n}" for n, (lo, hi) in enumerate(intervals) if 0 <= lo <= hi <= MAX_EXACT_INT and hi - lo <= MAX_INTERVAL_MS
    ]
    admitted, refused = admit(batch(*((lo, hi, None) for lo, hi in intervals)))
    assert ids(admitted) == wanted
    assert refused.n_events == len(intervals) - len(wanted) == len(refused.events)


def test_a_query_refuses_what_is_longer_than_its_window_of_its_own_types() -> None:
    events = batch((0, 9, None), (0, 10, None), (0, 9, None), (0, 10, None), types="ABBA")
    admitted, refused = too_long(events, 9, ["B"], "slow")
    assert ids(admitted) == ["e0", "e2", "e3"]
    assert refused.counts == {Refusal.LONGER_THAN_WINDOW: 1}
    assert refused.events[0].query == "slow"
    assert str(refused.events[0]) == "event e1 (B): its interval is 10 ms long, longer than the window of 9 ms"
    assert too_long(events, 10, ["A", "B"], "slow")[0] is events
    assert too_long(events, 5, ["C"], "slow")[0] is events


def test_what_is_kept_aside_is_bounded_and_all_is_counted() -> None:
    aside = Aside()
    n = MAX_KEPT_ASIDE + 500
    refused = admit(batch(*[(5, 4, None)] * n))[1]
    assert (refused.n_events, len(refused.events)) == (n, MAX_KEPT_ASIDE)
    for _ in range(3):
        aside.add(refused)
    assert aside.counts == {Refusal.REVERSED: 3 * n}
    assert len(aside.take()) == MAX_KEPT_ASIDE
    assert aside.take() == []


def test_the_summary_names_the_first_ones() -> None:
    refused = admit(batch((5, 4, None), GOOD, (3, 1, None), (-1, 1, None)))[1]
    assert refused.summary(2) == (
        "3 event(s) refused: event e0 (A): its interval starts at 5 ms, after its end at 4 ms; "
        "event e2 (A): its interval starts at 3 ms, after its end at 1 ms; and 1 more"
    )
    assert np.array_equal([int(e.t_lo_ms) for e in refused.events], [5, 3, -1])
