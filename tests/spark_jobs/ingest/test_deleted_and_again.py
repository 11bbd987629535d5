"""What was read wrongly is deleted and read again: the store is then as if it had been read rightly at once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from deploy.minicluster.recording import packing
from spark_jobs.event_store import EventStore
from spark_jobs.event_store import job as store_job
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import EVENTS
from spark_jobs.heuristics import job as report_job
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from spark_jobs.ingest.report import IngestReport
from spark_jobs.ingest.time_zones import KIND
from tests.collectors.spark.logs import APPLICATION, NAME, recorded
from tests.conftest import RECORDING

LIMITS, PRECEDENCE = Limits(1_000, 1 << 26), ("job_history", "container_log", "spark_events")
ADDED_LATER = {"settings": "SparkApplicationStart", "stages": "SparkJobStart", "memory_spilled_bytes": "SparkTaskEnd"}
"""Attribute -> type of the events that had none of it in stores of before."""


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take that of the tests, which goes on after them."""

    @contextmanager
    def session(*_: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(store_job, "spark_session", session)


def ingested(store: Path, *paths: Path, **options: Any) -> IngestReport:
    report = ingest_here(str(store), PRECEDENCE, [*map(str, paths)], replace(IngestOptions(), **options), LIMITS)
    assert report is not None
    assert report.exit_code == 0
    return report


def deleted(capsys: pytest.CaptureFixture[str], store: Path, *words: str) -> Mapping[str, Any]:
    """What the command tells."""
    capsys.readouterr()
    assert store_job.main(["delete", f"--store={store}", "--format=json", *words]) == 0
    told: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return told


def stored(store: Path) -> list[Mapping[str, Any]]:
    """All events, whole."""
    types = {path.name.removeprefix("type=") for path in store.glob("data/*/*")}
    table = read_few(str(store), types, tuple(EVENTS.names), None, None, 1 << 30)
    assert table is not None
    return sorted(table.to_pylist(), key=lambda row: (row["event_id"], row["t_lo_ms"]))


@pytest.mark.parametrize("order", ["histories first", "logs first"])
def test_logs_of_a_wrong_time_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str) -> None:
    recording, store = tmp_path / "recording", tmp_path / "store"
    packing.unpack(RECORDING, recording)
    shutil.rmtree(recording / "rrds")
    histories, logs = recording / "history", recording / "userlogs"
    ingested(tmp_path / "right", histories, logs)
    # Read as those of Kiritimati they are of the day before.
    wrong = {"container_zone": "Pacific/Kiritimati"}
    if order == "logs first":
        ingested(store, logs, **wrong)
        told = ingested(store, histories)
    else:
        ingested(store, histories)
        told = ingested(store, logs, **wrong)
        assert KIND in {problem.kind for problem in told.problem_list}
    before = [row for row in stored(store) if row["source"] == "container_log"]
    span = [
        f"--from={iso(min(row['t_lo_ms'] for row in before))}", f"--to={iso(max(row['t_hi_ms'] for row in before))}"
    ]  # fmt: skip
    assert deleted(capsys, store, "--source=container_log", *span, "--dry-run")["n_events"] == len(before)
    assert deleted(capsys, store, "--source=container_log", *span)["n_events"] == len(before) > 200
    ingested(store, logs)
    assert stored(store) == stored(tmp_path / "right")


def test_logs_of_spark_that_an_older_version_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, right, store = tmp_path / "logs", tmp_path / "right", tmp_path / "store"
    logs.mkdir()
    (logs / NAME).write_bytes(recorded())
    ingested(right, logs)
    older = EventStore.open(spark, str(right)).read()
    for name in ADDED_LATER:
        older = older.withColumn(name, sf.lit(None).cast(EVENTS[name].dataType))
    EventStore.create(spark, str(store)).append(older.select(*EVENTS.names))
    assert not any(row[name] for row in stored(store) for name in ADDED_LATER)
    # To read them again alone changes nothing: a second copy does not count.
    assert ingested(store, logs).n_new == 0
    assert "not known" in judged(capsys, store)
    n_events = len(stored(right))
    assert deleted(capsys, store, "--source=spark_events", "--from=2020-01-01")["n_events"] == n_events
    assert ingested(store, logs).n_new == n_events
    assert stored(store) == stored(right)
    assert judged(capsys, store) == judged(capsys, right)


def iso(t_ms: int) -> str:
    return str(np.datetime64(t_ms, "ms"))


def judged(capsys: pytest.CaptureFixture[str], store: Path) -> str:
    capsys.readouterr()
    assert report_job.main([f"--store={store}", "--format=json", "--", APPLICATION]) == 0
    return capsys.readouterr().out
