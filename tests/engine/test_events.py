"""Schema and batches of events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EventError
from engine.events import HEADER, HEADER_NAMES, SKEW, AttributeType, EventBatch, EventSchema
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

SCHEMA = EventSchema.of(
    {
        "A": {"x": AttributeType.INT, "name": AttributeType.STRING},
        "B": {"x": AttributeType.INT, "ratio": AttributeType.FLOAT},
    }
)


def test_one_attribute_has_one_type_in_the_whole_schema() -> None:
    with pytest.raises(EventError, match="x is int in A but string in B"):
        EventSchema.of({"A": {"x": AttributeType.INT}, "B": {"x": AttributeType.STRING}})


def test_reserved_names_are_those_of_the_header() -> None:
    assert (*HEADER.names, SKEW.name) == HEADER_NAMES


def test_names_are_unicode_text() -> None:
    with pytest.raises(EventError, match=r"event type 'A': 'x.ud83d' is no Unicode text"):
        EventSchema.of({"A": {"x\ud83d": AttributeType.INT}})


def test_header_names_are_reserved() -> None:
    with pytest.raises(EventError, match="origin is reserved"):
        EventSchema.of({"A": {"origin": AttributeType.STRING}})


def test_rows_become_columns_with_nulls_where_a_type_lacks_the_attribute() -> None:
    batch = EventBatch.from_rows(
        [
            {"event_id": "1", "type": "A", "t_lo_ms": 5, "x": 7, "name": "n"},
            {"event_id": "2", "type": "B", "t_lo_ms": 3, "t_hi_ms": 4, "ratio": 0.5},
        ],
        SCHEMA,
    )
    assert batch.t_hi_ms.tolist() == [5, 4]
    assert batch.numbers("x")[0] == 7
    assert np.isnan(batch.numbers("x")[1])
    assert batch.strings("name").to_pylist() == ["n", None]
    assert np.isnan(batch.numbers("absent")).all()
    assert [row["event_id"] for row in batch.sorted().rows()] == ["2", "1"]
    assert "ratio" not in next(iter(batch.rows()))


def test_stream_order_breaks_ties_by_rank_then_place_then_id() -> None:
    rows = [(3, 0, 0, "d"), (2, 1, 0, "c"), (2, 0, 9, "b"), (2, 0, 1, "a"), (2, 0, 1, "0")]
    batch = EventBatch.from_rows(
        [
            {"event_id": name, "type": "A", "t_lo_ms": t, "source_rank": rank, "source_seq": seq}
            for t, rank, seq, name in rows
        ],
        SCHEMA,
    )
    assert batch.sorted().strings("event_id").to_pylist() == ["0", "a", "b", "c", "d"]


def test_a_batch_holds_intervals_whatever_they_are() -> None:
    """They are looked at where they enter, so that one bad event does not stop the others."""
    batch = EventBatch.from_rows([{"event_id": "9", "type": "A", "t_lo_ms": 5, "t_hi_ms": -4}], SCHEMA)
    assert (batch.t_lo_ms.tolist(), batch.t_hi_ms.tolist()) == ([5], [-4])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"event_id": "1", "type": "A", "t_lo_ms": 1, "x": "seven"}, "column x: expected int64"),
        ({"event_id": "1", "type": "A", "t_lo_ms": 1, "other": 1}, "other"),
        ({"event_id": None, "type": "A", "t_lo_ms": 1}, "row 0: event_id is missing"),
        ({"type": "A", "t_lo_ms": 1}, "lack 'event_id'"),
        ({"event_id": "\ud83d", "type": "A", "t_lo_ms": 1}, "column event_id: '.ud83d' is no Unicode text"),
    ],
)
def test_values_that_do_not_fit_are_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(EventError, match=message):
        EventBatch.from_rows([row], SCHEMA)


def test_integers_that_doubles_cannot_hold_are_refused() -> None:
    batch = EventBatch.from_rows([{"event_id": "1", "type": "A", "t_lo_ms": 1, "x": 2**53 + 1}], SCHEMA)
    with pytest.raises(EventError, match="beyond 2\\^53"):
        batch.numbers("x")


def test_whole_numbers_with_gaps_are_read_as_they_are_stored() -> None:
    rows = [{"event_id": str(k), "type": "A", "t_lo_ms": k, "x": None if k % 3 == 0 else k} for k in range(20)]
    whole = EventBatch.from_rows(rows, SCHEMA)
    for part in (whole, EventBatch(whole.table.slice(5, 9)), EventBatch(whole.table.slice(8))):
        stored = StreamColumns(part, Interner()).column("x", AttributeType.INT)
        assert np.array_equal(stored, part.numbers("x"), equal_nan=True)
    assert EventBatch(whole.table.slice(1, 2)).gappy_whole_numbers("x") is None  # no gap there
    assert whole.gappy_whole_numbers("absent") is None


def test_a_number_with_gaps_around_it_that_doubles_cannot_hold_is_refused() -> None:
    rows = [{"event_id": str(k), "type": "A", "t_lo_ms": k, "x": x} for k, x in enumerate((None, -(2**53) - 1, 1))]
    with pytest.raises(EventError, match="beyond 2\\^53"):
        StreamColumns(EventBatch.from_rows(rows, SCHEMA), Interner()).column("x", AttributeType.INT)


def test_concat_unites_attribute_columns() -> None:
    one = EventBatch.from_rows([{"event_id": "1", "type": "A", "t_lo_ms": 1, "x": 1}], SCHEMA)
    two = EventBatch.from_rows([{"event_id": "2", "type": "B", "t_lo_ms": 1, "ratio": 0.5}], SCHEMA)
    both = EventBatch.concat([one, EventBatch.empty(), two])
    assert both.table.column("x").to_pylist() == [1, None]
    assert both.of_types(["B"]).strings("event_id").to_pylist() == ["2"]
    assert len(both.where(np.array([True, False]))) == 1


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(-1, 11), st.integers(0, 9))
def test_a_batch_parted_at_a_watermark(times: list[int], watermark_ms: int, cut: int) -> None:
    rows = [{"event_id": str(k), "type": "A", "t_lo_ms": t} for k, t in enumerate(times)]
    schema = EventSchema.of({"A": {}})
    whole = EventBatch.concat([EventBatch.from_rows(part, schema) for part in (rows[:cut], rows[cut:])])
    ready, waiting = whole.parted(watermark_ms)
    assert ready.t_lo_ms.tolist() == sorted(t for t in times if t < watermark_ms)
    assert sorted(waiting.t_lo_ms.tolist()) == sorted(t for t in times if t >= watermark_ms)
    assert sorted(ready.table["event_id"].to_pylist() + waiting.table["event_id"].to_pylist()) == sorted(
        map(str, range(len(times)))
    )


PLACES = st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=6)
"""Times, ranks and places in a source."""


@given(PLACES | PLACES.map(sorted))
def test_a_batch_comes_in_stream_order_however_it_stands(places: list[tuple[int, int, int]]) -> None:
    rows = [
        {"event_id": str(k), "type": "A", "t_lo_ms": t, "source_rank": rank, "source_seq": seq}
        for k, (t, rank, seq) in enumerate(places)
    ]
    ready, _ = EventBatch.from_rows(rows, EventSchema.of({"A": {}})).parted(9)
    expected = sorted(range(len(places)), key=lambda k: (*places[k], str(k)))
    assert ready.table["event_id"].to_pylist() == list(map(str, expected))


TIMES = st.lists(st.integers(0, 3), max_size=4)


@given(TIMES, TIMES | st.none())
def test_what_is_known_of_the_times_of_a_batch(times: list[int], lengths: list[int] | None) -> None:
    n = len(times) if lengths is None else min(len(times), len(lengths))
    lo_ms = np.array(times[:n], np.int64)
    hi_ms = lo_ms if lengths is None else lo_ms + np.array(lengths[:n], np.int64)
    columns = {"event_id": [str(k) for k in range(n)], "type": ["A"] * n, "t_lo_ms": lo_ms, "t_hi_ms": hi_ms}
    batch = EventBatch.from_columns(columns, EventSchema.of({"A": {}}))
    assert batch.is_precise == (lo_ms.tolist() == hi_ms.tolist())
    assert batch.is_ascending == (sorted(set(times[:n])) == times[:n])


def with_skew(*rows: tuple[int, int, str | None, int | None]) -> EventBatch:
    """Events of (t_lo_ms, t_hi_ms, clock, skew)."""
    return EventBatch.from_rows(
        [
            {"event_id": f"e{n}", "type": "A", "t_lo_ms": lo, "t_hi_ms": hi, "clock_id": clock, "skew_ms": skew}
            for n, (lo, hi, clock, skew) in enumerate(rows)
        ],
        EventSchema.of({"A": {}}),
    )


def test_skew_is_there_for_those_who_have_it() -> None:
    batch = with_skew((0, 4, "h", 2), (5, 5, "g", None))
    assert batch.skew_ms is not None
    assert batch.skew_ms.tolist() == [2, 0]
    exact = with_skew((0, 4, "h", 0), (5, 5, "g", None))
    assert exact.skew_ms is None
    assert not exact.has("skew_ms")
    both = EventBatch.concat([exact, batch])
    assert both.skew_ms is not None
    assert both.skew_ms.tolist() == [0, 0, 2, 0]
