"""What `clustercep report` hands to its job."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.commands import report as report_command
from app.commands.report import ReportName
from app.reports.tables import REPORTS


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[str]]]:
    """The jobs that were started."""
    found: list[tuple[str, Sequence[str]]] = []

    def start(module: str, words: Sequence[str]) -> int:
        found.append((module, words))
        return 0

    monkeypatch.setattr(report_command, "run_spark_job", start)
    return found


def test_words_of_the_job(started: list[tuple[str, Sequence[str]]]) -> None:
    arguments = [
        "report",
        "stragglers",
        "--store",
        "hdfs:///e",
        "--from",
        "2 h",
        "--min-period",
        "3 s",
        "--min-input",
        "0 B",
    ]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    ((module, words),) = started
    assert module == "reports"
    assert words[-2:] == ["--", "stragglers"]
    assert {"--store=hdfs:///e", "--from=2 h", "--min-period-ms=3000", "--min-input-bytes=0", "--top=10"} <= set(words)


@pytest.mark.parametrize(
    ("option", "value", "told"), [("--min-period", "soon", "a unit of time"), ("--window", "0 s", "above 0")]
)
def test_mistakes_start_nothing(started: list[tuple[str, Sequence[str]]], option: str, value: str, told: str) -> None:
    result = CliRunner().invoke(cli, ["report", option, value])
    assert result.exit_code == 2
    assert told in result.output
    assert started == []


def test_names_of_reports() -> None:
    assert [name.value for name in ReportName] == list(REPORTS)


def test_one_job(started: list[tuple[str, Sequence[str]]]) -> None:
    result = CliRunner().invoke(cli, ["report", "job", "job_1_1", "--store", "hdfs:///e", "--json", "--dr-elephant"])
    assert result.exit_code == 0, result.output
    assert started == [("heuristics", ["--store=hdfs:///e", "--format=json", "--dr-elephant", "--", "job_1_1"])]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["job"], "expected one"),
        (["job", "a", "b"], "expected one"),
        (["job", "job_1_1", "--top", "3"], "--top"),
        (["job", "job_1_1", "--from", "2 h"], "--from"),
        (["stragglers", "--dr-elephant"], "report job JOB"),
        (["nonsense"], "nonsense"),
        (["stragler"], "or job JOB, or jobs; did you mean 'stragglers'?"),
        (["jobs", "job_1_1"], "job_1_1"),
        (["jobs", "--out", "x"], "--out"),
    ],
)
def test_mistakes_about_one_job(started: list[tuple[str, Sequence[str]]], arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(cli, ["report", *arguments])
    assert result.exit_code == 2
    assert told in result.output
    assert started == []


def test_jobs_of_a_span(started: list[tuple[str, Sequence[str]]]) -> None:
    result = CliRunner().invoke(cli, ["report", "jobs", "--from", "2 h", "--top", "3"])
    assert result.exit_code == 0, result.output
    assert started == [("heuristics", ["--from=2 h", "--top=3", "--format=table", "--", "jobs"])]
