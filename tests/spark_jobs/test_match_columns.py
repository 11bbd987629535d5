"""Rows from the engine's columns are those that are made row by row."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given

import engine
from engine.events import FOREVER_MS, EventBatch
from spark_jobs import match_columns
from spark_jobs.match_columns import columnar_batches
from spark_jobs.match_rows import Source, rows_batch
from tests.engine.strategies import IMPRECISE, SCHEMA, Case, cases

ENDS = "PATTERN SEQ(A a, B+ b[], C c) WHERE {} {{ [k] }} WITHIN 30 ms RETURN a.x, avg(b[].x) AS mean, a.k AS name"
BOUNDED = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match { [k] } WITHIN 30 ms"


def blocks_of(text: str, events: EventBatch) -> list[engine.RowBlock]:
    blocks: list[engine.RowBlock] = []
    running = engine.Engine([engine.compile_query(text, SCHEMA, name="q")], SCHEMA, sink=engine.RowSink(blocks.append))
    running.process(events, FOREVER_MS)
    running.finish()
    return blocks


def check(block: engine.RowBlock) -> int:
    source = Source("q", "h")
    expected = rows_batch(list(block), source)
    found = list(columnar_batches(block.to_arrow(), source))
    assert all(batch.schema == expected.schema for batch in found)
    assert [row for batch in found for row in batch.to_pylist()] == expected.to_pylist()
    return expected.num_rows


def events(named: Callable[[int], str], width_ms: int = 0) -> EventBatch:
    rows = [
        {"event_id": named(n), "type": "ABBBC"[n % 5], "t_lo_ms": 3 * n, "t_hi_ms": 3 * n + width_ms, "source_seq": n}
        | {"k": "pq"[n // 10 % 2], "x": n if n % 7 else None}
        for n in range(40)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


@pytest.mark.parametrize("named", ["e{}", 'e"{}', "e\\{}", "é{}", "e\n{}"], ids=repr)
@pytest.mark.parametrize(
    ("text", "width_ms"),
    [
        (ENDS.format("skip_till_next_match"), 0),
        (ENDS.format("skip_till_any_match"), 0),
        (ENDS.format("skip_till_any_match"), 4),
        (BOUNDED, 4),
    ],
)
@pytest.mark.parametrize("most_ids", [match_columns.MOST_IDS, 10])
def test_columns_are_the_rows(
    text: str, width_ms: int, named: str, most_ids: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_columns, "MOST_IDS", most_ids)
    blocks = blocks_of(text, events(named.format, width_ms))
    assert blocks
    assert all(block.is_columnar for block in blocks)
    assert sum(map(check, blocks)) > 3


@given(cases(stream=IMPRECISE))
def test_every_block_that_says_so_is_columns(case: Case) -> None:
    for block in blocks_of(case.query, case.stream):
        if block.is_columnar:
            check(block)


def test_ids_in_a_part_of_a_larger_array() -> None:
    ids = pa.array([["a", '"'], ["b"], [], ["c", "d"]])
    assert match_columns._json_lists(ids.slice(1)) == ['["b"]', "[]", '["c", "d"]']
    assert match_columns._json_lists(ids) == ['["a", "\\""]', '["b"]', "[]", '["c", "d"]']
