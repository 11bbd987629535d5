"""Listing over imprecise events: order of rows, limits that cut it, the most confident ones, columns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, compile_query
from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.protocol import Limits
from tests.engine.strategies import IMPRECISE, SCHEMA, streams
from tests.examples import examples

PATTERNS = (
    "SEQ(A+ a[], B b) WHERE skip_till_any_match",
    "SEQ(A a, B+ b[]) WHERE skip_till_any_match { b[i].x >= b[i-1].x }",
    "SEQ(B+ b[]) WHERE skip_till_any_match",
    "SEQ(A+ a[], B b, B+ c[]) WHERE skip_till_any_match { b.x >= max(a[].x) }",
    "SEQ(A a, B b) WHERE skip_till_any_match { [k] AND a.x <= b.x }",
    "SEQ(B b, A+ a[], B c) WHERE skip_till_any_match { a[i].x < c.x }",
)
QUERIES = st.builds(
    lambda pattern, within, threshold: f"PATTERN {pattern} WITHIN {within}{threshold}",
    st.sampled_from(PATTERNS),
    st.integers(0, 14),
    st.sampled_from(["", " CONFIDENCE >= 0.3"]),
)
STREAMS = streams(IMPRECISE, ("A", "B"), ("A", "B", "B"))


def rows_of(text: str, stream: EventBatch, limits: Limits | None = None) -> list[MatchRow]:
    """All rows of a stream that comes in one batch."""
    engine = Engine([compile_query(text, SCHEMA)], SCHEMA, limits=limits or Limits())
    return [*engine.process(stream, 60), *engine.finish()]


def ids(rows: Sequence[MatchRow]) -> list[tuple[str, ...]]:
    return [row.event_ids for row in rows]


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(QUERIES, STREAMS)
def test_rows_come_by_last_event_first_event_and_ids(text: str, stream: EventBatch) -> None:
    rows = rows_of(text, stream)
    position = {event_id: n for n, event_id in enumerate(stream.sorted().table.column("event_id").to_pylist())}

    def listing_order(row: MatchRow) -> tuple[object, ...]:
        return position[row.event_ids[-1]], position[row.event_ids[0]], tuple(row.bindings.items())

    assert rows == sorted(rows, key=listing_order)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(QUERIES, STREAMS, st.integers(1, 8))
def test_a_limit_keeps_the_first_rows_and_says_so(text: str, stream: EventBatch, most: int) -> None:
    rows = rows_of(text, stream)
    for kept in (rows_of(f"{text} LIMIT {most}", stream), rows_of(text, stream, Limits(max_rows=most))):
        assert ids(kept) == ids(rows[:most])
        assert [row.capped for row in kept] == [*[False] * (len(kept) - 1), len(rows) > most][: len(kept)]


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(QUERIES, STREAMS, st.integers(1, 5), st.integers(1, 6))
def test_the_most_confident_rows_are_found_whatever_there_is_room_for(
    text: str, stream: EventBatch, k: int, most: int
) -> None:
    """With less room than matches the threshold rises until the rest of them fits."""
    expected = sorted((row.confidence for row in rows_of(text, stream)), reverse=True)[:k]
    best = rows_of(f"{text} OUTPUT TOP {k} BY CONFIDENCE", stream, Limits(max_rows=max(k, most)))
    assert not any(row.capped for row in best)
    assert [row.confidence for row in best] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(QUERIES, STREAMS)
def test_columns_say_what_rows_say(text: str, stream: EventBatch) -> None:
    engine = Engine([compile_query(text, SCHEMA)], SCHEMA)
    block = engine.process(stream, 60)
    if len(block):
        mine, its = block.to_arrow(), rows_table(list(block))  # type: ignore[attr-defined]
        for name in ("first_lo_ms", "last_hi_ms", "bindings", "confidence"):
            assert mine.column(name).to_pylist() == its.column(name).to_pylist()
        assert block[0] == next(iter(block))


def test_exponentially_many_matches_are_cut() -> None:
    """2^40 matches: the first ones are there, and the last of them says that there are more."""
    rows = [{"type": "A", "t_lo_ms": 10 * k, "t_hi_ms": 10 * k + 12, "x": 1} for k in range(40)]
    rows.append({"type": "B", "t_lo_ms": 500, "t_hi_ms": 510, "x": 1})
    stream = EventBatch.from_rows(
        [row | {"event_id": f"e{n:02}", "source_seq": n, "k": "p", "j": 1} for n, row in enumerate(rows)], SCHEMA
    )
    found = rows_of(f"PATTERN {PATTERNS[0]} WITHIN 1000", stream, Limits(max_rows=50))
    assert len(found) == 50
    assert found[0].bindings == {"a": ("e00",), "b": ("e40",)}
    assert found[1].bindings == {"a": ("e00", "e01"), "b": ("e40",)}
    assert found[-1].capped
    best = rows_of(f"PATTERN {PATTERNS[0]} WITHIN 1000 OUTPUT TOP 3 BY CONFIDENCE", stream, Limits(max_rows=50))
    assert [row.confidence for row in best] == [1.0] * 3


def test_events_that_lead_to_no_last_one_are_not_gone_through() -> None:
    """2^36 selections of Kleene events after the only event that could follow them; three before it and one beside."""
    kinds = "ABBB" + "B" + "C" + 36 * "B" + "A"
    rows = [{"type": kind, "t_lo_ms": 10 * k, "t_hi_ms": 10 * k, "x": 1} for k, kind in enumerate(kinds)]
    rows[4]["t_hi_ms"] = 60  # beside the C at 50
    stream = EventBatch.from_rows(
        [row | {"event_id": f"e{n:02}", "source_seq": n, "k": "p", "j": 1} for n, row in enumerate(rows)], SCHEMA
    )
    text = "PATTERN SEQ(A a, B+ b[], C c, A d) WHERE skip_till_any_match WITHIN 1000"
    found = rows_of(text, stream, Limits(work_budget=200))
    assert len(found) == 2**4 - 1
    assert not any(row.capped for row in found)
    assert sorted({row.confidence for row in found}) == pytest.approx([10 / 21, 1.0])
    assert {row.bindings["c"] for row in found} == {("e05",)}


@pytest.mark.parametrize("shift_ms", [0, 8])
def test_selections_whose_ends_cannot_be_confident_together_are_not_gone_through(shift_ms: int) -> None:
    """2^30 selections between a start and an end: 8 ms of the first event's 101 are too early for the window, 8 too
    late for the next event; each alone leaves 0.92, both 0.84."""
    spans = [("A", 0, 100), ("C", 93, 93), *(("B", 110 + k, 110 + k) for k in range(30)), ("C", 150, 150)]
    spans.append(("A", 1008 - shift_ms, 1008 - shift_ms))
    stream = EventBatch.from_rows(
        [
            {
                "event_id": f"e{n:02}",
                "source_seq": n,
                "type": kind,
                "t_lo_ms": lo,
                "t_hi_ms": hi,
                "x": 1,
                "k": "p",
                "j": 1,
            }
            for n, (kind, lo, hi) in enumerate(spans)
        ],
        SCHEMA,
    )
    text = "PATTERN SEQ(A a, C s, B+ b[], C c, A d) WHERE skip_till_any_match WITHIN 1000 CONFIDENCE >= 0.9"
    engine = Engine([compile_query(text, SCHEMA)], SCHEMA, limits=Limits(work_budget=2_000, max_rows=20))
    found = [*engine.process(stream, 2_000), *engine.finish()]
    (counted,) = engine.statistics.values()
    if shift_ms:  # without the window's share they are confident enough
        assert [row.confidence for row in found] == pytest.approx([93 / 101] * 20)
    else:
        assert not found
        assert counted.n_unfinished == 0
