"""The engine: order, late events, state, statistics; what a restored engine says is what the first would have said."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query
from engine.errors import EngineError, EventError, StateError, UnsupportedQueryError
from engine.events import AttributeType, EventBatch, EventSchema
from engine.matching.nfa import NfaRuntime
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    NEXT,
    PRECISE,
    SCHEMA,
    Case,
    Delivery,
    QueryScope,
    cases,
    deliveries,
)

PAIRS = EventSchema.of({"A": {"k": AttributeType.STRING, "x": AttributeType.INT}, "B": {"k": AttributeType.STRING}})
NEXT_PAIR = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] } WITHIN 10 RETURN a.x"
ANY_PAIR = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 10 RETURN a.x"


def batch(*events: tuple[str, str, int, str]) -> EventBatch:
    rows = [
        {"event_id": name, "type": kind, "t_lo_ms": t, "source_seq": at, "k": key, **({"x": t} if kind == "A" else {})}
        for at, (name, kind, t, key) in enumerate(events)
    ]
    return EventBatch.from_rows(rows, PAIRS)


def engine(*texts: str) -> Engine:
    return Engine([compile_query(text, PAIRS, name=f"q{at}") for at, text in enumerate(texts)], PAIRS)


def test_events_wait_for_the_watermark_and_may_come_in_any_order() -> None:
    running = engine(NEXT_PAIR, ANY_PAIR)
    assert running.process(batch(("b", "B", 5, "p"), ("a", "A", 3, "p")), 5) == []
    assert running.n_waiting == 1
    rows = running.process(EventBatch.empty(), 6)
    assert [(row.query, row.bindings, row.values) for row in rows] == [
        ("q0", {"a": ("a",), "b": ("b",)}, {"x": 3}),
        ("q1", {"a": ("a",), "b": ("b",)}, {"x": 3}),
    ]
    assert rows[0].key == (("k", "p"),)
    assert (rows[0].first_lo_ms, rows[0].last_hi_ms) == (3, 5)
    assert running.finish() == []


def test_late_events_are_counted_and_handed_out_once() -> None:
    running = engine(NEXT_PAIR)
    running.process(EventBatch.empty(), 10)
    assert running.process(batch(("a", "A", 9, "p"), ("b", "B", 12, "p")), 20) == []
    assert running.n_late == 1
    assert running.take_late().strings("event_id").to_pylist() == ["a"]
    assert len(running.take_late()) == 0


def test_a_watermark_never_goes_back() -> None:
    running = engine(NEXT_PAIR)
    running.process(EventBatch.empty(), 10)
    running.process(EventBatch.empty(), 3)
    assert running.watermark_ms == 10


def test_a_batch_that_breaks_the_schema_changes_nothing() -> None:
    running = engine(NEXT_PAIR)
    table = batch(("a", "A", 3, "p")).table
    broken = EventBatch(table.set_column(table.column_names.index("t_hi_ms"), "t_hi_ms", pa.array([1])))
    with pytest.raises(EventError, match="event a"):
        running.process(broken, 100)
    assert (running.n_waiting, running.watermark_ms < 0) == (0, True)


def test_statistics_count_per_query() -> None:
    ticks = iter(range(100))
    queries = [compile_query(NEXT_PAIR, PAIRS, name="pairs")]
    running = Engine(queries, PAIRS, clock=lambda: float(next(ticks)))
    running.process(batch(("a", "A", 3, "p"), ("b", "B", 5, "p"), ("c", "B", 5, "q")), 6)
    counted = running.statistics["pairs"]
    assert (counted.n_events, counted.n_rows, counted.seconds, counted.n_rejected) == (3, 1, 1.0, 0)


def test_imprecise_events_are_rejected_by_skip_till_next_match() -> None:
    running = engine(NEXT_PAIR)
    rows = [{"event_id": "a", "type": "A", "t_lo_ms": 1, "t_hi_ms": 2, "k": "p"}]
    running.process(EventBatch.from_rows(rows, PAIRS), 10)
    assert running.statistics["q0"].n_rejected == 1


def test_two_queries_of_one_name_are_refused() -> None:
    query = compile_query(NEXT_PAIR, PAIRS, name="pairs")
    with pytest.raises(EngineError, match="pairs"):
        Engine([query, query], PAIRS)


def test_a_query_that_its_events_make_impossible_does_not_stop_the_others() -> None:
    schema = EventSchema.of({kind: {"k": AttributeType.STRING} for kind in "ABN"})
    twice = "PATTERN SEQ(A a, !N n, B b, !N m, A c) WHERE skip_till_any_match { [k] } WITHIN 50"
    pair = "PATTERN SEQ(A a, A c) WHERE skip_till_any_match { [k] } WITHIN 50"
    rows = [
        {"event_id": "a", "type": "A", "t_lo_ms": 1, "k": "p"},
        {"event_id": "n", "type": "N", "t_lo_ms": 2, "t_hi_ms": 8, "k": "p"},
        {"event_id": "b", "type": "B", "t_lo_ms": 5, "k": "p"},
        {"event_id": "c", "type": "A", "t_lo_ms": 9, "k": "p"},
    ]
    events = EventBatch.from_rows(rows, schema)
    queries = [compile_query(twice, schema, name="twice"), compile_query(pair, schema, name="pair")]
    with pytest.raises(UnsupportedQueryError, match=r"^twice"):
        Engine(queries, schema).process(events, 100)
    failures: list[str] = []
    running = Engine(queries, schema, on_failure=lambda name, error: failures.append(f"{name}: {error.message}"))
    assert [row.query for row in running.process(events, 100)] == ["pair"]
    assert len(failures) == 1
    assert failures[0].startswith("twice: ")
    assert running.finish() == []
    assert len(failures) == 1


@pytest.mark.parametrize("strategy", ["strict_contiguity", "partition_contiguity"])
def test_contiguity_is_refused_with_the_query_and_a_remedy(strategy: str) -> None:
    text = f"PATTERN SEQ(A a, B b) WHERE {strategy} {{ [k] }} WITHIN 10"
    query = compile_query(text, PAIRS, name="pairs")
    with pytest.raises(UnsupportedQueryError, match=r"^pairs:1.*(\n.*)*--runtime oracle"):
        Engine([query], PAIRS)


def test_a_state_of_another_query_is_refused() -> None:
    saved = engine(NEXT_PAIR).save()
    with pytest.raises(StateError, match="changed: q0"):
        engine(ANY_PAIR).restore(saved)
    with pytest.raises(StateError, match="no engine part"):
        engine(NEXT_PAIR).restore({})
    damaged = {name: table for name, table in saved.items() if name != "q0/runs"}
    with pytest.raises(StateError, match="lacks \\['runs'\\]"):
        engine(NEXT_PAIR).restore(damaged)


def rows_of(case: Case, parts: list[Delivery], *, restart: bool, compact: bool) -> list[MatchRow] | None:
    try:
        queries = [compile_query(case.query, SCHEMA, name="q")]
        running = Engine(queries, SCHEMA)
    except UnsupportedQueryError:
        return None
    rows: list[MatchRow] = []
    for part in [*parts, None]:
        runtime = running._runtimes["q"]
        if compact and isinstance(runtime, NfaRuntime):
            runtime._compact_at = 0
        try:
            rows += running.finish() if part is None else running.process(part.batch, part.watermark_ms)
        except UnsupportedQueryError:
            return None
        if restart:
            state = {name: through_ipc(table) for name, table in running.save().items()}
            running = Engine(queries, SCHEMA)
            running.restore(state)
    return rows


def through_ipc(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(sink.getvalue()).read_all()


@st.composite
def delivered(draw: st.DrawFn) -> tuple[Case, list[Delivery]]:
    any_scope = QueryScope(strategies=(ANY,), outputs=("ALL", "SETS", "COLLAPSED", "COUNT"), confidence=True)
    drawn = draw(
        st.one_of(
            cases(QueryScope(strategies=(NEXT,), having=True), PRECISE),
            cases(any_scope, PRECISE),
            cases(any_scope, IMPRECISE),
        )
    )
    return drawn, draw(deliveries(drawn.stream))


@settings(max_examples=200)
@given(delivered())
def test_a_restart_after_every_delivery_changes_nothing(drawn: tuple[Case, list[Delivery]]) -> None:
    case, parts = drawn
    plain = rows_of(case, parts, restart=False, compact=False)
    assert rows_of(case, parts, restart=True, compact=False) == plain
    assert rows_of(case, parts, restart=True, compact=True) == plain
