"""The job as a whole: from a store to the tables that the dashboard reads; what it says when it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.errors import AppError
from app.reports.folder import read_report
from app.reports.tables import REPORTS, STRAGGLERS
from spark_jobs.event_store import EventStore
from spark_jobs.reports import job as report
from spark_jobs.reports import publish as publishing
from tests.spark_jobs.reports.history import frame, history


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a history."""
    url = str(tmp_path_factory.mktemp("store") / "events")
    EventStore.create(spark, url).append(frame(spark, history(11)))
    return url


@pytest.fixture(autouse=True)
def _session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run in the tests' own session."""

    @contextmanager
    def session(*_args: Any, **_more: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(report, "spark_session", session)


@pytest.mark.usefixtures("shipped_expressions")
def test_all_reports_are_there_for_the_dashboard(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(["--store", stored, "--out", str(tmp_path), "--format", "json", "--min-attempts", "2"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [summary["report"] for summary in told] == list(REPORTS)
    for summary in told:
        found = read_report(tmp_path, summary["report"])
        assert found is not None
        assert found.summary == summary
        assert {name: table.num_rows for name, table in found.tables.items()} == summary["n_rows"]
        assert all(summary["n_rows"].values())
    stragglers = told[list(REPORTS).index(STRAGGLERS)]
    assert stragglers["options"]["min_attempts"] == 2
    assert len(stragglers["figures"]["worst_attempts"]) == 10
    found = read_report(tmp_path, STRAGGLERS)
    assert found is not None
    assert stragglers["figures"]["worst_hosts"] == found.tables["hosts"].slice(0, 10).to_pylist()


def test_ten_worst_stragglers_in_the_terminal(stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.main(["--store", stored, "--out", str(tmp_path), "stragglers"])
    printed = capsys.readouterr().out
    assert "10 worst stragglers" in printed
    assert "hosts, the slowest first" in printed
    assert read_report(tmp_path, "queuing") is None


def test_nothing_to_report_on_is_told_with_what_to_do(spark: SparkSession, stored: str, tmp_path: Path) -> None:
    empty = str(tmp_path / "empty")
    EventStore.create(spark, empty)
    for words in (["--store", empty], ["--store", stored, "--to", "1971-01-01"]):
        with pytest.raises(AppError, match=r"no event of the types .* clustercep ingest FOLDER"):
            report.main([*words, "--out", str(tmp_path / "out"), "stragglers"])
    with pytest.raises(AppError, match="no event store there"):
        report.main(["--store", str(tmp_path / "nowhere"), "stragglers"])
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_the_report_before(stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--store", stored, "--out", str(tmp_path), "--format", "json", "stragglers"]
    report.main(words)
    before = read_report(tmp_path, STRAGGLERS)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publishing, "latest_text", full)
    with pytest.raises(AppError, match=r"No space left on device.*the one before still counts"):
        report.main(words)
    after = read_report(tmp_path, STRAGGLERS)
    assert before is not None
    assert after is not None
    assert after.folder == before.folder
    assert [path.name for path in (tmp_path / STRAGGLERS / "runs").iterdir()] == [before.folder.name]


def test_by_hadoops_file_systems_too_and_old_runs_go(
    spark: SparkSession, stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on HDFS: what names a scheme goes through Hadoop's own classes."""
    monkeypatch.setattr(publishing, "local_folder", lambda _: None)
    target = tmp_path.as_uri()
    rows = report.main(["--store", stored, "--out", target, "--format", "json", "stragglers"])
    assert rows == 0
    found = read_report(tmp_path, STRAGGLERS)
    assert found is not None
    for n in range(4):
        summary = {**found.summary, "made_ms": found.made_ms + n + 1}
        publishing.publish(spark, target, STRAGGLERS, found.tables, summary)
    latest = read_report(tmp_path, STRAGGLERS)
    assert latest is not None
    assert latest.made_ms == found.made_ms + 4
    assert len(list((tmp_path / STRAGGLERS / "runs").iterdir())) == publishing.N_RUNS_KEPT
