"""Reports in the terminal."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from app.reports.printing import print_report
from app.reports.tables import LIFE_TIMES, QUEUING, REPORTS, STRAGGLERS
from tests.dashboard.report_fixtures import REPORT_ROWS, straggler


def printed(name: str, rows: dict[str, list[dict[str, Any]]], n_rows: int = 10) -> str:
    tables = {
        table: pa.table({column: [row.get(column) for row in rows[table]] for column in schema.names}, schema)
        for table, schema in REPORTS[name].items()
    }
    console = Console(file=io.StringIO(), width=200)
    print_report(console, name, tables, n_rows)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(c.isprintable() or c == "\n" for c in text)
    return str(text)


def test_the_worst_stragglers_first() -> None:
    text = printed(STRAGGLERS, REPORT_ROWS[STRAGGLERS] | {"attempts": [straggler(n) for n in range(12)]})
    assert "10 worst stragglers" in text
    lines = [line for line in text.splitlines() if "attempt_1700000000000_0001_m_" in line]
    assert ["0001_m_00000" + str(n) in line for n, line in enumerate(lines)] == [True] * 10
    assert "1 min 30 s" in lines[0]
    assert "10.0" in lines[0]
    assert "1.90" in text


def test_a_killed_attempt_is_marked_and_names_are_no_markup() -> None:
    text = printed(STRAGGLERS, REPORT_ROWS[STRAGGLERS])
    assert "(killed)" in text
    assert "<script>alert(1)</script>" in text


def test_without_stragglers_it_says_so() -> None:
    assert "No attempt took longer" in printed(STRAGGLERS, {"attempts": [], "hosts": []})


@pytest.mark.parametrize(
    ("name", "words"), [(LIFE_TIMES, ("mapper", "KILLED", "1 min 30 s")), (QUEUING, ("5.0 MiB", "arrivals missing"))]
)
def test_the_other_reports(name: str, words: tuple[str, ...]) -> None:
    text = printed(name, REPORT_ROWS[name])
    assert all(word in text for word in words)
