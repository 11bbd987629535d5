"""What runtimes keep of skew: nothing where there is none, all of it over a restart, and the order of its clock."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine import Engine, MatchRow, compile_query, reference_output
from engine.events import EventBatch
from tests.engine.strategies import SCHEMA

TEXTS = {
    "listed": "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match WITHIN 100",
    "formed": "PATTERN SEQ(AND(A a, B b), C c) WHERE skip_till_any_match WITHIN 100",
}


def stream(skew_ms: int | None) -> EventBatch:
    """a and c by one clock, which says 10 and 14; b at 12."""
    rows: list[dict[str, Any]] = [
        {"event_id": "a", "type": "A", "t_lo_ms": 10, "clock_id": "h"},
        {"event_id": "b", "type": "B", "t_lo_ms": 12, "clock_id": "g"},
        {"event_id": "c", "type": "C", "t_lo_ms": 14, "clock_id": "h"},
    ]
    for number, row in enumerate(rows):
        own_ms = skew_ms if row["clock_id"] == "h" else 0
        row |= {"source_seq": number, "t_hi_ms": row["t_lo_ms"] + (own_ms or 0), "skew_ms": skew_ms and own_ms}
        row["t_lo_ms"] -= own_ms or 0
    return EventBatch.from_rows(rows, SCHEMA)


def engine_of(name: str) -> Engine:
    return Engine([compile_query(TEXTS[name], SCHEMA, name=name)], SCHEMA)


def saved(engine: Engine) -> dict[str, bytes]:
    """The bytes of a saved state."""
    found = {}
    for name, table in engine.save().items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        found[name] = sink.getvalue().to_pybytes()
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_a_skew_of_nothing_leaves_no_trace(name: str) -> None:
    without, zero = engine_of(name), engine_of(name)
    assert list(without.process(stream(None), 13)) == list(zero.process(stream(0), 13))
    assert saved(without) == saved(zero)
    assert list(without.finish()) == list(zero.finish()) != []


@pytest.mark.parametrize("name", TEXTS)
def test_skew_outlives_a_restart(name: str) -> None:
    rows: list[list[MatchRow]] = []
    whole = stream(3)
    early = whole.t_lo_ms < 12
    for restarts in (False, True):
        engine = engine_of(name)
        found = [*engine.process(whole.where(early), 8)]
        if restarts:
            state, engine = engine.save(), engine_of(name)
            engine.restore(state)
        found += engine.process(whole.where(~early), 12)
        rows.append([*found, *engine.finish()])
    assert rows[0] == rows[1]
    # 10 + o < 12 < 14 + o for o = -1, 0, 1 of -3..3; with AND b may stand before a.
    assert [row.confidence for row in rows[0]] == [pytest.approx(3 / 7 if name == "listed" else 5 / 7, abs=1e-12)]


def test_what_is_forgotten_leaves_no_skew_behind() -> None:
    engine = engine_of("listed")
    engine.process(stream(3), 0)
    assert "skew_ms" in engine.save()["waiting"].column_names
    engine.process(EventBatch.empty(), 20)
    assert "skew_ms" in engine.save()["listed/events"].column_names
    engine.process(EventBatch.empty(), 1_000)
    assert "skew_ms" not in engine.save()["listed/events"].column_names


@pytest.mark.parametrize(("source_rank", "expected"), [(0, 2 / 3), (1, 0.0)])
def test_order_of_one_clock_beside_what_is_negated(source_rank: int, expected: float) -> None:
    """a and n are at one millisecond of their clock, n first in its own source: ranks of sources go before that.

    With offsets -1 and 0 of -1..1 both are before b: n is between a and b unless it comes before a.
    """
    rows: list[dict[str, Any]] = [
        {"event_id": "a", "type": "A", "source_rank": 0, "source_seq": 1},
        {"event_id": "n", "type": "N", "source_rank": source_rank, "source_seq": 0},
    ]
    for row in rows:
        row |= {"t_lo_ms": 4, "t_hi_ms": 6, "clock_id": "h", "skew_ms": 1}
    rows.append({"event_id": "b", "type": "B", "t_lo_ms": 6, "t_hi_ms": 6, "source_rank": 0, "source_seq": 2})
    query = compile_query("PATTERN SEQ(A a, !N n, B b) WHERE skip_till_any_match WITHIN 20 ms", SCHEMA)
    events = EventBatch.from_rows(rows, SCHEMA)
    engine = Engine([query], SCHEMA)
    found = [*engine.process(events, 100), *engine.finish()]
    assert sum(row.confidence for row in found) == pytest.approx(expected, abs=1e-12)
    oracle = reference_output(query.resolved, events)
    assert float(sum(row.confidence for row in oracle)) == pytest.approx(expected, abs=1e-12)


def test_a_clock_orders_what_overlaps_a_precise_time() -> None:
    """n ends when a is, by their clock, and comes after a there; it is before b whenever a is."""
    rows: list[dict[str, Any]] = [
        {"event_id": "a", "type": "A", "t_lo_ms": 2, "t_hi_ms": 4, "clock_id": "h", "skew_ms": 1, "source_seq": 0},
        {"event_id": "n", "type": "N", "t_lo_ms": 0, "t_hi_ms": 4, "clock_id": "h", "skew_ms": 1, "source_seq": 1},
        {"event_id": "b", "type": "B", "t_lo_ms": 3, "t_hi_ms": 3, "source_seq": 2},
    ]
    query = compile_query("PATTERN SEQ(A a, !N n, B b) WHERE skip_till_any_match WITHIN 20 ms", SCHEMA)
    events = EventBatch.from_rows(rows, SCHEMA)
    engine = Engine([query], SCHEMA)
    assert [*engine.process(events, 100), *engine.finish()] == []
    assert reference_output(query.resolved, events) == []
