"""The store: what goes in comes out, once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from collectors.schema import load_event_types
from engine.events import EventBatch
from spark_jobs.event_store import Appended, EventStore, StoreError
from spark_jobs.event_store.schema import EVENTS, to_rows

DAY_MS = 86_400_000


def job_start(event_id: str, lo_ms: int, user: str = "ann") -> dict[str, Any]:
    return {"event_id": event_id, "type": "JobStart", "t_lo_ms": lo_ms, "job_id": f"job_{event_id}", "user": user}


def metric(event_id: str, lo_ms: int, hi_ms: int) -> dict[str, Any]:
    return {"event_id": event_id, "type": "Metric", "t_lo_ms": lo_ms, "t_hi_ms": hi_ms, "value": 1.5}


def frame(spark: SparkSession, rows: Iterable[Mapping[str, Any]], source: str = "job_history") -> DataFrame:
    batch = EventBatch.from_rows(list(rows), load_event_types())
    return spark.createDataFrame(to_rows(batch, source), EVENTS)


def stored(store: EventStore, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in store.read(columns=columns).collect())


FIRST = [job_start("1", 10), metric("2", DAY_MS - 5, DAY_MS + 5), job_start("3", 3 * DAY_MS), metric("4", -1, -1)]


def test_a_better_source_wins_whatever_came_first(spark: SparkSession, tmp_path: Path) -> None:
    store = EventStore.create(spark, str(tmp_path / "a store, 100%"))
    assert store.append(frame(spark, FIRST, "yarn_rest")) == Appended(4, 4, 0, 0, 4)
    again = [*FIRST, job_start("5", 10), job_start("5", 10)]
    assert store.append(frame(spark, again, "yarn_rest")) == Appended(6, 1, 5, 0, 1)
    better = [job_start("1", 12, "bob"), job_start("5", 11, "bob")]
    # Two files of one type and date are rewritten as one.
    assert store.append(frame(spark, better, "job_history")) == Appended(2, 0, 0, 2, 1)
    assert store.append(frame(spark, [job_start("1", 9, "eve")], "ganglia_rrd")) == Appended(1, 0, 1, 0, 0)
    assert stored(store, "event_id", "t_lo_ms", "user", "source") == [
        ("1", 12, "bob", "job_history"),
        ("2", DAY_MS - 5, None, "yarn_rest"),
        ("3", 3 * DAY_MS, "ann", "yarn_rest"),
        ("4", -1, None, "yarn_rest"),
        ("5", 11, "bob", "job_history"),
    ]
    other = EventStore.open(spark, store.url)
    assert other.files() == store.files()
    assert [(f.date, f.type, f.n_rows, f.min_lo_ms, f.max_lo_ms, f.max_hi_ms) for f in other.files()] == [
        ("1969-12-31", "Metric", 1, -1, -1, -1),
        ("1970-01-01", "JobStart", 2, 11, 12, 12),
        ("1970-01-01", "Metric", 1, DAY_MS - 5, DAY_MS - 5, DAY_MS + 5),
        ("1970-01-04", "JobStart", 1, 3 * DAY_MS, 3 * DAY_MS, 3 * DAY_MS),
    ]
    # The span is closed and keeps what touches it; other files are not opened.
    touched = other.read(["Metric"], ["event_id", "value"], DAY_MS + 5, DAY_MS + 5)
    assert [tuple(row) for row in touched.collect()] == [("2", 1.5)]
    assert len(touched.inputFiles()) == 1
    assert other.read(["Metric"], None, DAY_MS + 6).isEmpty()
    assert other.read(["Metric"], None, DAY_MS + 6).schema.names == EVENTS.names


def test_no_store_or_one_already(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "events")
    with pytest.raises(StoreError, match="no event store there"):
        EventStore.open(spark, place)
    EventStore.create(spark, place)
    with pytest.raises(StoreError, match="a store already"):
        EventStore.create(spark, place)
    assert EventStore.open_or_create(spark, place).version == 0
