"""Two threads find what one finds, whatever the query; a saved engine goes on in another number of threads."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query
from engine.errors import EngineError, StateError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.parallel import by_key as shards
from engine.parallel import workers
from engine.parallel.by_key import ShardedRuntime
from engine.plan import evaluation
from engine.stream.by_key import shares_of
from engine.stream.columns import StreamColumns
from tests.examples import examples

SCHEMA = EventSchema.of(
    {
        "A": {"k": AttributeType.STRING, "n": AttributeType.INT, "x": AttributeType.INT},
        "B": {"k": AttributeType.STRING, "n": AttributeType.INT, "x": AttributeType.INT},
        "C": {"x": AttributeType.INT},
    }
)
KEYED = "[k] AND b[i].x >= b[i-1].x"
TEXTS = (
    f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match {{ {KEYED} }} WITHIN 9 RETURN a.k, sum(b[].x) AS s",
    f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match {{ {KEYED} }} WITHIN 9 OUTPUT COLLAPSED",
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] } WITHIN 9 OUTPUT COUNT",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 OUTPUT NON_OVERLAPPING",
    f"PATTERN SEQ(C a, B+ b[]) WHERE skip_till_next_match {{ {KEYED} }} WITHIN 9",
    f"PATTERN SEQ(A a, B+ b[], !C n) WHERE partition_contiguity {{ {KEYED} }} WITHIN 9",
    "PATTERN SEQ(A a, C c) WHERE strict_contiguity { [k] } WITHIN 9",
    "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match { a.x < b.x } WITHIN 5",
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] } WITHIN 9 LIMIT 1",
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_next_match { [k] AND a.x > 0 } WITHIN 9 RETURN a.k, sum(b[].x) AS s",
    "PATTERN SEQ(!B m, A a, A c, !B n) WHERE skip_till_next_match { [k] } WITHIN 4",
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [n] } WITHIN 9 OUTPUT COLLAPSED",
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_next_match { [n] } WITHIN 9",
)
QUERIES = [compile_query(text, SCHEMA, name=f"q{number}") for number, text in enumerate(TEXTS)]
Event = tuple[str, str | None, int, int]
EVENTS = st.lists(
    st.tuples(st.sampled_from("AABBC"), st.sampled_from(["p", "q", "r", None]), st.integers(0, 3), st.integers(0, 2)),
    min_size=1,
    max_size=25,
)


@pytest.fixture(autouse=True, scope="module")
def _small_batches_are_divided_by_key() -> Iterator[None]:
    with patch.object(workers, "LEAST_EVENTS", 1), patch.object(evaluation, "_is_divided_by_time", lambda *_: False):
        yield


def batches_of(events: list[Event], sizes: list[int]) -> list[tuple[EventBatch, int]]:
    times = np.cumsum([gap for *_, gap in events]).tolist()
    rows = [
        {"event_id": str(n), "type": kind, "t_lo_ms": t, "t_hi_ms": t, "x": x, "source_seq": n}
        | ({} if kind == "C" else {"k": key, "n": None if key is None else ord(key)})
        for n, ((kind, key, x, _), t) in enumerate(zip(events, times, strict=True))
    ]
    found: list[tuple[EventBatch, int]] = []
    while rows:
        n = sizes[len(found) % len(sizes)]
        found.append((EventBatch.from_rows(rows[:n], SCHEMA), rows[n]["t_lo_ms"] if n < len(rows) else FOREVER_MS))
        rows = rows[n:]
    return found


def emitted(rows: object) -> list[str]:
    assert isinstance(rows, (list, tuple)) or hasattr(rows, "__len__")
    return sorted(repr(row) for row in rows)  # type: ignore[attr-defined]


@settings(max_examples=examples(25))
@given(EVENTS, st.lists(st.integers(1, 12), min_size=1, max_size=3), st.sampled_from([(1, 2), (2, 1), (2, 3)]))
def test_threads_make_no_difference(events: list[Event], sizes: list[int], threads: tuple[int, int]) -> None:
    one, other = Engine(QUERIES, SCHEMA), Engine(QUERIES, SCHEMA, threads=threads[0])
    for number, (batch, watermark_ms) in enumerate(batches_of(events, sizes)):
        if number == 1:  # goes on elsewhere
            saved = other.save()
            other = Engine(QUERIES, SCHEMA, threads=threads[1])
            assert other.restore(saved) == frozenset()
        assert emitted(other.process(batch, watermark_ms)) == emitted(one.process(batch, watermark_ms))
    assert emitted(other.finish()) == emitted(one.finish())


def test_whole_numbers_divide_a_batch_as_they_are_stored() -> None:
    events = [("AB"[n % 3 > 0], "pqrst"[n % 5], n % 2, 1) for n in range(60)]
    one, other = Engine(QUERIES[-2:], SCHEMA), Engine(QUERIES[-2:], SCHEMA, threads=3)
    for batch, watermark_ms in batches_of(events, [25, 7]):
        assert batch.whole_numbers("n") is not None
        assert emitted(other.process(batch, watermark_ms)) == emitted(one.process(batch, watermark_ms))


@pytest.mark.parametrize("cut", ["refused", "late", "waiting"])
def test_a_batch_that_is_not_evaluated_as_it_came_is_divided_anew(cut: str) -> None:
    """Dividing begins before the batch is looked at."""
    one, other = (Engine(QUERIES[-2:], SCHEMA, threads=threads) for threads in (1, 2))
    events = [("AB"[n % 3 > 0], "pq"[n % 2], n % 2, 1) for n in range(40)]
    for number, (batch, watermark_ms) in enumerate(batches_of(events, [10])):
        given = batch.table
        if cut == "refused" and number == 1:
            times = np.where(np.arange(len(batch)) == 4, -1, batch.t_lo_ms)
            given = given.set_column(given.column_names.index("t_lo_ms"), "t_lo_ms", pa.array(times))
        if cut == "late" and number == 2:
            given = pa.concat_tables([given.slice(0, 3), batches_of(events, [10])[0][0].table, given.slice(3)])
        until_ms = watermark_ms - 4 * (cut == "waiting" and number in (1, 2))
        rows = [emitted(engine.process(EventBatch(given), until_ms)) for engine in (one, other)]
        assert rows[0] == rows[1]
        assert bool(rows[0])
    assert [engine.n_late for engine in (one, other)] == [10 * (cut == "late")] * 2
    assert one.n_refused == other.n_refused
    assert bool(one.n_refused) == (cut == "refused")


def test_shards_keep_the_place_of_an_event_in_its_source() -> None:
    running = Engine(QUERIES[-2:-1], SCHEMA, threads=2)
    batch, _ = batches_of([("A", "pqrst"[n % 5], 1, n % 2) for n in range(20)], [20])[0]
    running.process(batch, int(batch.t_lo_ms[-1]))
    kept = [table for name, table in running.save().items() if name.endswith("events")]
    rows = [row for table in kept for row in table.select(["id", "source_seq"]).to_pylist()]
    assert len(kept) == 2
    assert len(rows) > 10
    assert all(row["id"] == str(row["source_seq"]) for row in rows)


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collector")
def test_what_was_divided_is_given_up_at_once() -> None:
    """The next batch is read into the same memory."""
    seen: list[ref[StreamColumns]] = []

    def noticed(stream: StreamColumns, *others: Any) -> StreamColumns:
        share = shares_of(stream, *others)
        seen.extend([ref(stream), ref(share)])
        return share

    running = Engine(QUERIES[-2:], SCHEMA, threads=3)
    with patch.object(shards, "shares_of", noticed), patch.object(workers, "LEAST_EVENTS", 1_000):
        rows = running.process(batches_of([("A", "p", 1, 1), ("B", "p", 1, 1), ("A", "p", 1, 1)], [3])[0][0], 100)
    assert len(rows) == 2
    assert len(seen) == 12
    assert {kept() for kept in seen} == {None}


def test_only_partitions_that_can_be_evaluated_apart_are_divided() -> None:
    divided = [query.evaluation.is_divided_by_key for query in QUERIES]
    assert divided == [True, True, True, True, True, True, False, False, False, True, True, True, True]


def test_an_error_in_a_shard_is_told_as_the_queries_own() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] AND b.x > a.x } WITHIN 9"
    query = compile_query(text, SCHEMA, name="q")
    running = Engine([query], SCHEMA, threads=2)
    heavy = {"event_id": "1", "type": "A", "t_lo_ms": 0, "k": "p", "x": 2**53 + 1}
    with pytest.raises(EngineError, match="beyond 2"):
        running.process(EventBatch.from_rows([heavy], SCHEMA), 10)


def test_rows_of_a_step_that_failed_are_not_told_later() -> None:
    texts = [
        f"PATTERN SEQ(A a, {last}) WHERE skip_till_any_match {{ [k] {more} }} WITHIN 9"
        for last, more in (("B b", "AND b.x > a.x"), ("A b", ""))
    ]
    queries = [compile_query(text, SCHEMA, name=f"q{number}") for number, text in enumerate(texts)]
    running = Engine(queries, SCHEMA, threads=2)
    rows = [{"event_id": str(n), "type": "A", "t_lo_ms": n, "k": "p", "x": 1} for n in range(2)]
    heavy = {"event_id": "2", "type": "B", "t_lo_ms": 2, "k": "p", "x": 2**53 + 1}
    with pytest.raises(EngineError, match="beyond 2"):
        running.process(EventBatch.from_rows([*rows, heavy], SCHEMA), 10)
    assert list(running.finish()) == []


def test_damaged_shards_and_no_threads_are_refused() -> None:
    query = QUERIES[0]
    saved = Engine([query], SCHEMA, threads=2).save()
    damaged = {name: table for name, table in saved.items() if "shard.1." not in name}
    with pytest.raises(StateError, match="lacks shard 1 of 2"):
        Engine([query], SCHEMA).restore(damaged)
    with pytest.raises(EngineError, match="threads: found 0"):
        Engine([query], SCHEMA, threads=0)


def test_keyed_queries_are_divided() -> None:
    running = Engine(QUERIES[:1], SCHEMA, threads=3)
    runtime = running._runtimes["q0"]
    assert isinstance(runtime, ShardedRuntime)
    assert len(runtime._shards) == 3
    rows = running.process(batches_of([("A", "p", 1, 1), ("B", "p", 1, 1), ("C", None, 1, 1)], [3])[0][0], 100)
    assert [type(row) for row in rows] == [MatchRow]
