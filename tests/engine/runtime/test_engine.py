"""The engine: order, late events, state, statistics; what a restored engine says is what the first would have said."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query
from engine.admission import Refusal
from engine.errors import EngineError, EventError, StateError, UnsupportedQueryError
from engine.events import AttributeType, EventBatch, EventSchema
from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.runs.runtime import NfaRuntime
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
    queries,
)
from tests.examples import examples

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


def intervals(*events: tuple[str, str, int, int]) -> EventBatch:
    """(id, type, t_lo, t_hi), all with key p."""
    rows = [{"event_id": i, "type": t, "t_lo_ms": lo, "t_hi_ms": hi, "k": "p"} for i, t, lo, hi in events]
    return EventBatch.from_rows(rows, PAIRS)


def test_refused_events_stop_nothing_and_are_handed_out_once() -> None:
    running = engine(ANY_PAIR)
    rows = running.process(intervals(("a", "A", 1, 1), ("bad", "A", 3, 2), ("b", "B", 4, 4), ("old", "B", -4, 4)), 20)
    assert [row.event_ids for row in rows] == [("a", "b")]
    assert running.n_refused == {Refusal.REVERSED: 1, Refusal.OUT_OF_RANGE: 1}
    assert [(event.event_id, event.reason.value) for event in running.take_refused()] == [
        ("bad", "interval_reversed"),
        ("old", "time_out_of_range"),
    ]
    assert running.take_refused() == []
    again = engine(ANY_PAIR)
    again.restore(running.save())
    assert again.n_refused == running.n_refused


def test_an_event_longer_than_the_window_is_refused_by_the_queries_with_such_a_window() -> None:
    """Also where the two keep the same events, which they share until then, and after a restart."""
    text = "PATTERN SEQ(A a, A+ m[], B b) WHERE skip_till_any_match {{ [k] }} WITHIN {}"
    running = engine(text.format(10), text.format(30))
    assert all(isinstance(r, PostponedRuntime) and r.is_shared for r in running._runtimes.values())
    assert running.process(intervals(("old", "A", 1, 1)), 3) == []
    rows = running.process(intervals(("long", "A", 4, 20), ("a", "A", 12, 12), ("m", "A", 13, 13)), 14)
    rows = [*rows, *running.process(intervals(("b", "B", 21, 21)), 25), *running.finish()]
    found = [[row.event_ids for row in rows if row.query == name] for name in ("q0", "q1")]
    assert found[0] == [("a", "m", "b")]
    assert {("a", "m", "long", "b"), ("old", "a", "m", "b")} < set(found[1])
    statistics = running.statistics
    assert [statistics[name].n_too_long for name in ("q0", "q1")] == [1, 0]
    assert statistics["q0"].n_rejected == 0
    (refused,) = running.take_refused()
    assert (refused.event_id, refused.query) == ("long", "q0")
    assert running.n_refused == {Refusal.LONGER_THAN_WINDOW: 1}


def test_precise_strategies_reject_intervals_whatever_their_length() -> None:
    running = engine(NEXT_PAIR)
    running.process(intervals(("a", "A", 1, 50)), 60)
    assert (running.statistics["q0"].n_rejected, running.statistics["q0"].n_too_long) == (1, 0)


def test_a_watermark_never_goes_back() -> None:
    running = engine(NEXT_PAIR)
    running.process(EventBatch.empty(), 10)
    running.process(EventBatch.empty(), 3)
    assert running.watermark_ms == 10


def test_a_batch_that_breaks_the_schema_changes_nothing() -> None:
    running = engine(NEXT_PAIR)
    table = batch(("a", "A", 3, "p")).table
    nothing = pa.array([None], pa.int64())
    broken = EventBatch(table.set_column(table.column_names.index("t_hi_ms"), "t_hi_ms", nothing))
    with pytest.raises(EventError, match="event in row 0: t_hi_ms is missing"):
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


def too_many_offsets() -> tuple[EventSchema, str, EventBatch]:
    """A query whose confidence over these events of three clocks that may be far off is refused."""
    schema = EventSchema.of({kind: {"k": AttributeType.STRING} for kind in "AB"})
    text = "PATTERN SEQ(A a, B b, A c, B d, A e, B f) WHERE skip_till_any_match { [k] } WITHIN 50000"
    rows = [
        {"event_id": str(n), "type": "AB"[n % 2], "t_lo_ms": n, "t_hi_ms": n + 4_000, "skew_ms": 2_000,
         "clock_id": str(n % 3), "k": "p"}
        for n in range(6)
    ]  # fmt: skip
    return schema, text, EventBatch.from_rows(rows, schema)


def test_a_query_that_its_events_make_impossible_does_not_stop_the_others() -> None:
    schema, twice, events = too_many_offsets()
    pair = "PATTERN SEQ(A a) WHERE skip_till_any_match { [k] } WITHIN 50000"
    queries = [compile_query(twice, schema, name="twice"), compile_query(pair, schema, name="pair")]
    with pytest.raises(UnsupportedQueryError, match=r"^twice"):
        Engine(queries, schema).process(events, 100_000)
    failures: list[str] = []
    running = Engine(queries, schema, on_failure=lambda name, error: failures.append(f"{name}: {error.message}"))
    assert {row.query for row in running.process(events, 100_000)} == {"pair"}
    assert len(failures) == 1
    assert failures[0].startswith("twice: ")
    assert running.finish() == []
    assert len(failures) == 1


def test_a_damaged_state_is_refused() -> None:
    saved = engine(NEXT_PAIR).save()
    with pytest.raises(StateError, match="no engine part"):
        engine(NEXT_PAIR).restore({})
    damaged = {name: table for name, table in saved.items() if name != "q0/runs"}
    with pytest.raises(StateError, match="lacks \\['runs'\\]"):
        engine(NEXT_PAIR).restore(damaged)
    other = saved["engine"].replace_schema_metadata({**saved["engine"].schema.metadata, b"version": b"0"})
    with pytest.raises(StateError, match="version 0"):
        engine(NEXT_PAIR).restore({**saved, "engine": other})


def test_a_changed_query_begins_again_and_the_others_go_on() -> None:
    before = engine(NEXT_PAIR, NEXT_PAIR)
    before.process(batch(("a", "A", 3, "p")), 5)
    after = engine(NEXT_PAIR, ANY_PAIR, NEXT_PAIR)
    assert after.restore(before.save()) == {"q1", "q2"}
    assert after.watermark_ms == 5
    assert [row.query for row in after.process(batch(("b", "B", 6, "p")), 7)] == ["q0"]


def test_a_query_with_a_constant_keeps_the_codes_of_its_texts() -> None:
    """A query that stands first gives its constant a code; saved texts have other codes."""
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] AND a.k = '%s' } WITHIN 10 RETURN b.k"
    saved = engine(text % "p")
    saved.process(batch(("a", "A", 3, "p"), ("c", "A", 3, "q")), 5)
    queries = [compile_query(text % value, PAIRS, name=name) for value, name in (("q", "new"), ("p", "q0"))]
    after = Engine(queries, PAIRS)
    assert after.restore(saved.save()) == {"new"}
    after.warm_up(["new"], batch(("a", "A", 3, "p"), ("c", "A", 3, "q")))
    rows = after.process(batch(("b", "B", 6, "p"), ("d", "B", 6, "q")), 7)
    assert [(row.query, row.bindings["a"], row.values) for row in rows] == [
        ("new", ("c",), {"k": "q"}),
        ("q0", ("a",), {"k": "p"}),
    ]


def test_warming_up_tells_nothing_and_leaves_out_what_is_to_come() -> None:
    running = engine(NEXT_PAIR)
    running.process(EventBatch.empty(), 6)
    running.warm_up(["q0"], batch(("a", "A", 2, "p"), ("b", "B", 3, "p"), ("c", "A", 4, "p"), ("d", "B", 6, "p")))
    rows = running.process(batch(("d", "B", 6, "p")), 7)
    assert [row.bindings for row in rows] == [{"a": ("c",), "b": ("d",)}]
    with pytest.raises(EngineError, match="no query is named other"):
        running.warm_up(["other"], EventBatch.empty())


def test_a_query_that_fails_while_it_warms_up_does_not_stop_the_others() -> None:
    failures: list[str] = []
    schema, text, events = too_many_offsets()
    query = compile_query(text, schema, name="twice")
    running = Engine([query], schema, on_failure=lambda name, _error: failures.append(name))
    running.process(EventBatch.empty(), 100_000)
    running.warm_up(["twice"], events)
    assert failures == ["twice"]
    assert running.finish() == []


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


@settings(max_examples=examples(35))
@given(delivered())
def test_a_restart_after_every_delivery_changes_nothing(drawn: tuple[Case, list[Delivery]]) -> None:
    case, parts = drawn
    plain = rows_of(case, parts, restart=False, compact=False)
    assert rows_of(case, parts, restart=True, compact=False) == plain
    assert rows_of(case, parts, restart=True, compact=True) == plain


@st.composite
def reloaded(draw: st.DrawFn) -> tuple[Case, list[Delivery], str, str, int]:
    """A query that stays, its stream, one that another replaces, and after how many deliveries."""
    case, parts = draw(delivered())
    scope = QueryScope(strategies=(NEXT, ANY), having=True)
    return case, parts, draw(queries(scope)), draw(queries(scope)), draw(st.integers(0, len(parts)))


@settings(max_examples=examples(60))
@given(reloaded())
def test_a_reload_changes_nothing_for_queries_that_stay_and_gives_new_ones_the_past(
    drawn: tuple[Case, list[Delivery], str, str, int],
) -> None:
    case, parts, removed, added, cut = drawn
    try:
        stays, goes, comes = (
            compile_query(text, SCHEMA, name=name)
            for text, name in ((case.query, "stays"), (removed, "other"), (added, "new" if cut % 2 else "other"))
        )
        whole = [Engine([stays], SCHEMA), Engine([comes], SCHEMA)]
        expected = [run_through(running, parts, cut) for running in whole]
        first = Engine([goes, stays], SCHEMA)
        before, _ = run_through(first, parts[:cut], cut, end=False)
        second = Engine([comes, stays], SCHEMA)
        fresh = second.restore({name: through_ipc(table) for name, table in first.save().items()})
        seen = EventBatch.concat([EventBatch.empty(), *(part.batch for part in parts[:cut])])
        second.warm_up(fresh, on_time_of(parts[:cut], seen))
        _, after = run_through(second, parts[cut:], 0)
    except UnsupportedQueryError:
        return
    assert fresh == ({comes.name} if comes.hash != goes.hash or comes.name != goes.name else frozenset())
    assert [row for row in before if row.query == "stays"] == expected[0][0]
    assert [row for row in after if row.query == "stays"] == expected[0][1]
    assert unordered(row for row in after if row.query == comes.name) == unordered(expected[1][1])


def run_through(
    running: Engine, parts: list[Delivery], cut: int, *, end: bool = True
) -> tuple[list[MatchRow], list[MatchRow]]:
    """The rows of the deliveries before the cut, and of those after it and the end."""
    before = [row for part in parts[:cut] for row in running.process(part.batch, part.watermark_ms)]
    after = [row for part in parts[cut:] for row in running.process(part.batch, part.watermark_ms)]
    return before, [*after, *(running.finish() if end else [])]


def on_time_of(parts: list[Delivery], seen: EventBatch) -> EventBatch:
    """What was not late when it came."""
    watermark_ms, on_time = -(2**60), [seen.where(seen.t_lo_ms < -(2**60))]
    for part in parts:
        on_time.append(part.batch.where(part.batch.t_lo_ms >= watermark_ms))
        watermark_ms = max(watermark_ms, part.watermark_ms)
    return EventBatch.concat(on_time)


def unordered(rows: Iterable[MatchRow]) -> list[str]:
    return sorted(map(repr, rows))


def test_generated_kernels_are_asked_for_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="generated"):
        Engine([], SCHEMA, generated="background")
