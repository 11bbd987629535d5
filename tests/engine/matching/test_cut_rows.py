"""Rows of events whose search was stopped say so, whichever end of the match decides it."""

from __future__ import annotations

import pytest

from engine import Engine, Limits, compile_query
from engine.events import EventBatch
from tests.engine.strategies import SCHEMA

TRAILING = "PATTERN SEQ(SEQ((A v2){2}, SEQ(A v3, (L v4){0,3})), !B v6)\nWHERE skip_till_any_match\nWITHIN 15 ms"
"""A union: what is cut goes through its form. Each match is decided by its first event, for a negation stands last."""


@pytest.mark.parametrize("watermarks_ms", [[30], [18, 30], [18, 21, 25, 30]], ids=["one", "two", "four"])
def test_rows_of_a_first_event_whose_search_was_stopped_say_so(watermarks_ms: list[int]) -> None:
    query = compile_query(TRAILING, SCHEMA, name="q")
    events = [
        {"event_id": f"e{t:02}", "type": "A", "t_lo_ms": t, "t_hi_ms": t, "source_seq": t, "k": "p", "x": t}
        for t in (2, 5, 9, 10)
    ]
    engine = Engine([query], SCHEMA, limits=Limits(work_budget=12))
    found = list(engine.process(EventBatch.from_rows(events, SCHEMA), watermarks_ms[0]))
    for watermark_ms in watermarks_ms[1:]:
        found += engine.process(EventBatch.empty(), watermark_ms)
    found += engine.finish()
    assert [(row.bindings["v2"], row.bindings["v3"], row.capped) for row in found] == [(("e02", "e05"), ("e09",), True)]
    whole = Engine([query], SCHEMA)
    rows = [*whole.process(EventBatch.from_rows(events, SCHEMA), 30), *whole.finish()]
    assert [row.capped for row in rows] == [False] * 4


@pytest.mark.parametrize("watermarks_ms", [[60], [22, 26, 60]], ids=["one", "three"])
def test_what_is_around_a_first_event_is_charged_once(watermarks_ms: list[int]) -> None:
    """Whether the choices after it were made for it or for one before it: the first match is just paid for."""
    query = compile_query("PATTERN SEQ(B b, B c, !C d)\nWHERE skip_till_any_match\nWITHIN 20 ms", SCHEMA, name="q")
    times = (("B", 1), ("B", 2), ("C", 5), ("B", 5), ("B", 7), ("B", 7), ("B", 11), ("B", 11))
    events = [
        {
            "event_id": f"e{at}",
            "type": name,
            "t_lo_ms": t,
            "t_hi_ms": t,
            "source_rank": int(name == "C"),
            "source_seq": at,
        }
        for at, (name, t) in enumerate(times)
    ]
    engine = Engine([query], SCHEMA, limits=Limits(work_budget=2))
    found = list(engine.process(EventBatch.from_rows(events, SCHEMA), watermarks_ms[0]))
    for watermark_ms in watermarks_ms[1:]:
        found += engine.process(EventBatch.empty(), watermark_ms)
    found += engine.finish()
    assert [(dict(row.bindings), row.capped) for row in found] == [({"b": ("e1",), "c": ("e4",)}, True)]
