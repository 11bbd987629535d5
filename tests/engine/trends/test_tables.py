"""Rows about trends as tables that Parquet can hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.compiled.query import compile_query
from engine.matching.output.reading.trend_tables import trend_table
from tests.engine.trends.test_large_numbers import SCHEMA, rows_of


def written(query: str, values: list[int], path: Path) -> pa.Table:
    table = trend_table(compile_query(query, SCHEMA).resolved, rows_of(query, values))
    pq.write_table(table, path)
    return pq.read_table(path)


def test_what_is_calculated_from_aggregates_may_be_of_any_size(tmp_path: Path) -> None:
    query = "PATTERN A+ WITHIN 9 SLIDE 9 RETURN MAX(A.x) * MAX(A.x) AS square, -MIN(A.x) AS least, MAX(A.x)"
    (row,) = written(query, [3, 2**52], tmp_path / "rows.parquet").to_pylist()
    assert row["values"]["square"] == {"decimal": repr(2.0**104), "value": 2.0**104}
    assert row["values"]["least"] == {"decimal": "-3", "value": -3.0}
    assert row["values"]["max_x"] == 2**52
    assert not row["exact"]


def test_without_return_there_are_no_values(tmp_path: Path) -> None:
    query = "PATTERN A+ WITHIN 9 SLIDE 9 HAVING COUNT(*) > 1"
    table = written(query, [1, 2], tmp_path / "rows.parquet")
    assert table.to_pylist() == [{"window_start_ms": 0, "window_end_ms": 9, "exact": True, "expected": None}]
