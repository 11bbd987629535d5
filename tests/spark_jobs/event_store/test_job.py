"""`clustercep store`: what is told, and what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.errors import AppError
from spark_jobs.event_store import EventStore, job
from tests.spark_jobs.event_store.test_store import DAY_MS, FIRST, frame


def test_what_a_store_holds(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = EventStore.create(spark, str(tmp_path / "events"))
    store.append(frame(spark, FIRST))
    told = job.described(store)
    n_bytes = sum(file.n_bytes for file in store.files())
    assert {name: told[name] for name in ("version", "n_dates", "n_events", "n_files", "n_bytes")} == {
        "version": 1, "n_dates": 3, "n_events": 4, "n_files": 4, "n_bytes": n_bytes
    }  # fmt: skip
    found = told["types"]["Metric"]
    assert (found["n_events"], found["first_ms"], found["last_ms"]) == (2, -1, DAY_MS + 5)
    job._show(told)
    shown = capsys.readouterr().out
    assert "1969-12-31T23:59:59" in shown
    assert "4 events on 3 days in 4 files" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["compact", "--target=1 KiB"], "--target: found 1 KiB; expected at least 1 MiB"),
        (["compact", "--target=big"], "--target: "),
        (["sweep", "--older-than=5 min"], "--older-than: found 5 min; expected at least 1 h"),
        (["sweep", "--older-than=old"], "--older-than: "),
        (["delete"], "found no --source; expected the source whose events shall go"),
        (["delete", "--source=x", "--from=yesterdayish"], "--from: "),
        (["delete", "--source=x", "--from=2024-01-02", "--to=2024-01-01"], "expected it later"),
    ],
)
def test_what_cannot_be_meant(words: list[str], problem: str) -> None:
    with pytest.raises(AppError, match=problem):
        job.main(words)
