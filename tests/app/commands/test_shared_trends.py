"""`clustercep explain --with` and `clustercep check` say which queries about trends share what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli

RISING = (
    "PATTERN MapEnd+ m WHERE m.period_ms < NEXT(m).period_ms GROUP BY host WITHIN {} SLIDE {} HAVING COUNT(*) > {} "
    "RETURN host, {} REPORT '{{host}}'"
)
TEXTS = {
    "rising": RISING.format("10 minutes", "2 minutes", 9, "COUNT(*) AS n"),
    "longest": RISING.format("10 minutes", "2 minutes", 2, "MAX(m.period_ms) AS most"),
    "hourly": RISING.format("1 hour", "1 hour", 2, "SUM(m.period_ms) AS all_ms"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queries").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "queries" / f"{name}.cep").write_text(text)
    (tmp_path / "queries" / "RUNBOOK.md").write_text("".join(f"## {name}\n\nLook.\n\n" for name in TEXTS))
    (tmp_path / "config.yaml").write_text(f"queries: {{directory: {tmp_path / 'queries'}}}\n")
    return tmp_path


def output(*words: str | Path) -> str:
    result = CliRunner().invoke(cli, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_query_is_explained_beside_others(folder: Path) -> None:
    at = {name: folder / "queries" / f"{name}.cep" for name in TEXTS}
    told = output("explain", at["rising"], "--with", at["longest"], "--with", at["hourly"])
    assert told.rstrip().endswith("\nshared     one graph with longest; what is taken in of the stream with hourly")
    assert "\nshared " not in output("explain", at["rising"])


def test_check_tells_of_all(folder: Path) -> None:
    expected = [
        "hourly: what is taken in of the stream with longest, rising",
        "longest: one graph with rising; what is taken in of the stream with hourly",
        "rising: one graph with longest; what is taken in of the stream with hourly",
    ]
    told = output("check", "-c", folder / "config.yaml")
    assert [line for line in told.splitlines() if line.startswith("shared: ")] == [f"shared: {x}" for x in expected]
    assert json.loads(output("check", "-c", folder / "config.yaml", "--json"))["shared"] == expected
