"""Queries that keep the same events keep them once, and find what each of them finds alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query
from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.pairs.runtime import PostponedRuntime

SCHEMA = EventSchema.of({kind: {"k": AttributeType.INT, "x": AttributeType.INT} for kind in "ABC"})
ALIKE = (
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x > 0 AND b[i].x != 2 } WITHIN 3",
    "PATTERN SEQ(A s, B+ t[], C u) WHERE skip_till_any_match { [k] AND s.x > 0 AND t[i].x != 2 AND u.x > max(t[].x) } "
    "WITHIN 9 OUTPUT COLLAPSED",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x > 0 AND b[i].x != 2 AND count(b[]) >= 2 } "
    "WITHIN 6 OUTPUT COUNT",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x > 0 AND b[i].x != 2 } WITHIN 5 LIMIT 1 "
    "RETURN max(b[].x) AS most",
)
OTHERS = (
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x > 1 AND b[i].x != 2 } WITHIN 4",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { a.x > 0 AND b[i].x != 2 } WITHIN 4",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] AND a.x > 0 AND b[i].x != 2 } WITHIN 4",
)
QUERIES = tuple(compile_query(text, SCHEMA, name=f"q{number}") for number, text in enumerate((*ALIKE, *OTHERS)))
Event = tuple[str, int, int, int, int]


def _batches(events: Sequence[Event], cut: int) -> list[tuple[EventBatch, int]]:
    lo_ms = np.cumsum([gap for _, _, _, gap, _ in events], dtype=np.int64)
    whole = EventBatch.from_columns(
        {
            "event_id": [str(number) for number in range(len(events))],
            "type": [kind for kind, *_ in events],
            "t_lo_ms": lo_ms,
            "t_hi_ms": lo_ms + [width for *_, width in events],
            "k": pa.array([k for _, k, *_ in events], pa.int64()),
            "x": pa.array([x for _, _, x, *_ in events], pa.int64()),
        },
        SCHEMA,
    )
    found = []
    for start in range(0, len(events), cut):
        end = start + cut
        found.append((EventBatch(whole.table.slice(start, cut)), int(lo_ms[end]) if end < len(events) else FOREVER_MS))
    return found


def _rows(
    queries: Sequence[CompiledQuery],
    batches: Sequence[tuple[EventBatch, int]],
    restarts: frozenset[int],
    threads: int = 1,
) -> dict[str, list[MatchRow]]:
    engine = Engine(queries, SCHEMA, threads=threads)
    found: dict[str, list[MatchRow]] = {query.name: [] for query in queries}
    for number, (batch, watermark_ms) in enumerate(batches):
        for row in engine.process(batch, watermark_ms):
            found[row.query].append(row)
        if number in restarts:
            state = engine.save()
            engine = Engine(queries, SCHEMA, threads=threads)
            assert not engine.restore(state)
    return found


def _stores(engine: Engine) -> list[int]:
    runtimes = [engine._runtimes[query.name] for query in engine.queries]
    return [id(runtime.store) for runtime in runtimes if isinstance(runtime, PostponedRuntime)]


_EVENTS = st.tuples(
    st.sampled_from("AABBC"), st.integers(0, 1), st.integers(0, 4), st.integers(0, 3), st.sampled_from((0,) * 12 + (2,))
)


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(_EVENTS, min_size=1, max_size=25), st.integers(1, 12), st.frozensets(st.integers(0, 5)))
def test_queries_find_what_each_finds_alone(events: list[Event], cut: int, restarts: frozenset[int]) -> None:
    queries = [query for query in QUERIES if "next" not in query.plan.strategy.value or not any(e[4] for e in events)]
    batches = _batches(events, cut)
    together = _rows(queries, batches, restarts)
    for query in queries:
        assert together[query.name] == _rows([query], batches, frozenset())[query.name]


@pytest.mark.parametrize("threads", [1, 2])
def test_long_streams_are_forgotten_in_step(threads: int) -> None:
    random = np.random.default_rng(7)
    events = [
        ("AABBC"[a], int(k), int(x), int(gap), 0) for a, k, x, gap in random.integers(0, (5, 2, 5, 3), (14_000, 4))
    ]
    unkeyed = [
        compile_query(OTHERS[1].replace("WITHIN 4", f"WITHIN {within_ms}"), SCHEMA, name=f"u{within_ms}")
        for within_ms in (4, 7)
    ]
    queries = [*QUERIES[:4], *unkeyed]
    batches = _batches(events, 1_500)
    together = _rows(queries, batches, frozenset({5}), threads)
    for query in queries:
        alone = _rows([query], batches, frozenset(), threads)[query.name]
        assert together[query.name] == alone
        assert alone


def test_what_is_alike_is_kept_once_also_after_a_restart() -> None:
    engine = Engine(QUERIES, SCHEMA)
    assert len(set(_stores(engine)[:4])) == 1
    assert len(set(_stores(engine))) == 3
    batch, watermark_ms = _batches([("A", 1, 3, 1, 0), ("B", 1, 1, 1, 0), ("C", 1, 3, 1, 0)], 2)[0]
    engine.process(batch, watermark_ms)
    again = Engine(QUERIES, SCHEMA)
    again.restore(engine.save())
    assert len(set(_stores(again)[:4])) == 1
    assert len(set(_stores(again))) == 3


def test_a_query_that_begins_again_keeps_its_own_events() -> None:
    batches = _batches([("A", 1, 3, 1, 0), ("B", 1, 1, 1, 0), ("B", 1, 1, 1, 0), ("C", 1, 3, 1, 0)], 2)
    engine = Engine(QUERIES, SCHEMA)
    engine.process(*batches[0])
    engine.warm_up({"q0"}, EventBatch.empty())
    stores = _stores(engine)
    assert stores[0] not in stores[1:4]
    assert {row.query for row in engine.process(*batches[1])} == {"q1", "q2", "q3", "q5", "q6", "q4"}
