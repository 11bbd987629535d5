"""`clustercep match`: rows about trends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.app.commands.match.commands import ROWS, run

TRENDS = """
PATTERN SEQ(A, B+) WHERE [k] AND B.x < NEXT(B).x GROUP BY k WITHIN 10 SLIDE 10 RETURN COUNT(*), SUM(B.x)
"""


def test_rows_about_trends(tmp_path: Path) -> None:
    query, events = tmp_path / "q.cep", tmp_path / "events"
    query.write_text(TRENDS)
    rows = [*ROWS, {"id": "b3", "type": "B", "t": 4, "k": "p", "x": 7}]
    events.write_text("\n".join(map(json.dumps, rows)))
    printed = {"window_start": 0, "window_end": 10, "group": {"k": "p"}, "values": {"count": 3, "sum_x": 22}}
    for runtime in ("auto", "oracle"):
        result = run("match", str(query), str(events), "--runtime", runtime)
        assert [json.loads(line) for line in result.stdout.splitlines()] == [printed]
    table = run("match", str(query), str(events), "--format", "table").stdout
    assert all(word in table for word in ("window_start", "k", "count", "sum_x", "22"))
    out = tmp_path / "rows.parquet"
    assert run("match", str(query), str(events), "--format", "parquet", "--out", str(out)).exit_code == 0
    assert pq.read_table(out).to_pylist() == [
        {
            "window_start_ms": 0,
            "window_end_ms": 10,
            "group": {"k": "p"},
            "values": {"count": {"decimal": "3", "value": 3.0}, "sum_x": {"decimal": "22", "value": 22.0}},
            "exact": True,
            "expected": None,
        }
    ]
    assert "an index of prefix aggregates" in run("explain", str(query), str(events)).stdout


def test_numbers_of_trends_are_written_whole(tmp_path: Path) -> None:
    """2^2000 - 1 trends: no double holds that."""
    query, events, out = tmp_path / "q.cep", tmp_path / "events", tmp_path / "rows.parquet"
    query.write_text("PATTERN A+ WITHIN 2000 SLIDE 2000 RETURN COUNT(*), MAX(A.x)")
    events.write_text("\n".join(json.dumps({"type": "A", "t": n + 1, "x": n}) for n in range(2000)))
    (line,) = run("match", str(query), str(events)).stdout.splitlines()
    assert json.loads(line)["exact"] is False
    assert json.loads(line)["values"]["count"].startswith("1.14813069527425")
    assert json.loads(line)["values"]["count"].endswith("e+602")
    run("match", str(query), str(events), "--format", "parquet", "--out", str(out))
    (row,) = pq.read_table(out).to_pylist()
    assert row["values"]["count"]["value"] is None
    assert row["values"]["count"]["decimal"] == json.loads(line)["values"]["count"]
    assert row["values"]["max_x"] == 1999
    assert "(rounded)" in run("match", str(query), str(events), "--format", "table").stdout


def test_trends_of_intervals_are_expected_values(tmp_path: Path) -> None:
    query, events, out = tmp_path / "q.cep", tmp_path / "events", tmp_path / "rows.parquet"
    query.write_text("PATTERN A+ WITHIN 10 SLIDE 10 RETURN COUNT(*), AVG(A.x)")
    events.write_text("\n".join(json.dumps({"type": "A", "t_lo": 1, "t_hi": 4, "x": x}) for x in (1, 2)))
    printed = {"window_start": 0, "window_end": 10, "group": {}, "values": {"count": 2.75, "avg_x": 1.5}}
    for runtime in ("auto", "oracle"):
        result = run("match", str(query), str(events), "--runtime", runtime)
        assert json.loads(result.stdout) == {**printed, "expected": "expected"}
    assert "(expected)" in run("match", str(query), str(events), "--format", "table").stdout
    assert run("match", str(query), str(events), "--format", "parquet", "--out", str(out)).exit_code == 0
    (row,) = pq.read_table(out).to_pylist()
    assert (row["values"]["count"]["value"], row["expected"], row["exact"]) == (2.75, "expected", False)


@pytest.mark.parametrize(
    ("pattern", "more", "told"),
    [
        ("SEQ(A, NOT B, A a2)", {}, "NOT in an aggregate over trends is not defined over imprecise events; found 2"),
        ("A+", {"skew_ms": 1}, "an aggregate over trends is not defined over imprecise events; found 2"),
        ("A+", {"clock_id": "k"}, "an aggregate over trends is not defined over imprecise events; found 1"),
    ],
)
def test_times_that_trends_cannot_have(tmp_path: Path, pattern: str, more: dict[str, Any], told: str) -> None:
    query, events = tmp_path / "q.cep", tmp_path / "events"
    query.write_text(f"PATTERN {pattern} WITHIN 10 SLIDE 10 RETURN COUNT(*)")
    rows = [{"type": "A", "t_lo": 1, "t_hi": 4, **more}, {"type": "A", "t_lo": 2, "t_hi": 5, **more}]
    events.write_text("\n".join(map(json.dumps, [*rows, {"type": "B", "t": 9}])))
    result = run("match", str(query), str(events))
    assert result.exit_code == 2
    assert told in result.stderr
