"""Rows as they are printed and written."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.best_rows import Best
from spark_jobs.match_rows import Source, capped, is_capped, json_line, rows_batch
from spark_jobs.query.output import CsvWriter, as_match_row, whole_file, write_json_lines
from tests.engine.strategies import SCHEMA

TEXT = (
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match { [k] } WITHIN 9 ms SLIDE 5 ms RETURN a.x, count(b[]) AS n, a.k"
)


@pytest.fixture(scope="module")
def query() -> engine.CompiledQuery:
    return engine.compile_query(TEXT, SCHEMA, name="q")


@pytest.fixture(scope="module")
def rows(query: engine.CompiledQuery) -> list[engine.MatchRow]:
    events = [
        {"event_id": f"e{n}", "type": "ABB"[n % 3], "t_lo_ms": 2 * n, "source_seq": n, "k": 'p"', "x": n}
        for n in range(6)
    ]
    running = engine.Engine([query], SCHEMA)
    return [*running.process(EventBatch.from_rows(events, SCHEMA), FOREVER_MS), *running.finish()]


def test_columns_give_back_the_rows(query: engine.CompiledQuery, rows: list[engine.MatchRow]) -> None:
    assert len(rows) > 5
    batch = rows_batch(rows, Source(query.name, query.hash))
    assert [as_match_row(row) for row in batch.to_pylist()] == rows
    assert len(set(batch.column("match_id").to_pylist())) == len(rows)


def test_json_lines(query: engine.CompiledQuery, rows: list[engine.MatchRow]) -> None:
    written = io.StringIO()
    assert write_json_lines([rows_batch(rows, Source(query.name, query.hash))], written) == len(rows)
    first = json.loads(written.getvalue().splitlines()[0])
    assert list(first) == ["window_start", "window_end", "bindings", "confidence", "values"]
    assert first["values"] == dict(rows[0].values)


def test_csv_has_a_column_for_each_value(query: engine.CompiledQuery, rows: list[engine.MatchRow]) -> None:
    written = io.StringIO()
    assert CsvWriter(query)([rows_batch(rows, Source(query.name, query.hash))], written) == len(rows)
    read = list(csv.DictReader(io.StringIO(written.getvalue())))
    assert [(row["key.k"], row["x"], row["n"], row["k"]) for row in read] == [
        ('p"', str(row.values["x"]), str(row.values["n"]), 'p"') for row in rows
    ]
    assert [int(row["window_start_ms"]) for row in read] == [row.window[0] for row in rows if row.window is not None]


def test_a_count_beyond_64_bits_is_printed_as_it_is(rows: list[engine.MatchRow]) -> None:
    many = engine.MatchRow("q", (), 1, 2, {"a": ("e",)}, 1.0, {}, count=2**70)
    (row,) = rows_batch([many], Source("q", "h")).to_pylist()
    assert row["count"] == 2**63 - 1
    assert json.loads(json_line(row))["count"] == 2**70


def test_a_limit_says_so_once(rows: list[engine.MatchRow]) -> None:
    row = rows_batch(rows[:1], Source("q", "h")).to_pylist()[0]
    assert not is_capped(row)
    assert is_capped(capped(row))
    assert capped(capped(row)) == capped(row)
    collected = Best(limit=2).collector()
    assert collected is not None
    for each in rows:
        last, first = (each.last_hi_ms, 0, 0, each.event_ids[-1]), (each.first_lo_ms, 0, 0, each.event_ids[0])
        collected.add(rows_batch([replace(each, position=(last, first), window=None)], Source("q", "h")))
    found = collected.final().to_pylist()
    assert [is_capped(each) for each in found] == [False, True]
    assert [each["last_ms"] for each in found] == sorted(each.last_hi_ms for each in rows)[:2]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ValueError, match="half-way"), whole_file(path) as file:  # noqa: PT012  # the block is the point
        file.write("a row\n")
        raise ValueError("half-way")
    assert not list(tmp_path.iterdir())
    with whole_file(path) as file:
        file.write("a row\n")
    assert path.read_text() == "a row\n"
