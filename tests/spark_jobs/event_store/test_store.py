"""The store: what goes in comes out, once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

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


def test_rows_of_many_tasks_become_few_files(spark: SparkSession, tmp_path: Path) -> None:
    store = EventStore.create(spark, str(tmp_path))
    rows = frame(spark, [job_start(str(number), number) for number in range(40)]).repartition(5)
    twice = rows.unionAll(rows.filter("t_lo_ms >= 30"))
    assert store.append(twice) == Appended(50, 40, 10, 0, 1)
    (file,) = store.files()
    assert (file.n_rows, file.min_lo_ms, file.max_lo_ms) == (40, 0, 39)
    kept = pq.read_table(tmp_path / file.path)
    assert kept.column("t_lo_ms").to_pylist() == list(range(40))  # in stream order
    # Some rows are new: those that are not are left out, of files of one type and date alone.
    more = [job_start(str(number), number) for number in range(39, 42)]
    assert store.append(frame(spark, [*more, metric("39", 39, 40)])) == Appended(4, 3, 1, 0, 2)
    assert [row[0] for row in stored(store, "t_lo_ms", "type")] == sorted([*range(42), 39])


def test_files_of_different_columns_are_one_store(spark: SparkSession, tmp_path: Path) -> None:
    """Files of an older version lack columns: they are read, compacted and replaced as if these were null."""
    store = EventStore.create(spark, str(tmp_path))
    for number in (1, 2):
        store.append(frame(spark, [job_start(str(number), number)], "yarn_rest"))
    place = tmp_path / min(store.files(), key=lambda file: file.min_lo_ms).path
    older = pq.read_table(place).select(["event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq"])
    place.with_name(f".{place.name}.crc").unlink()
    pq.write_table(older, place)
    before = [("1", None, None), ("2", "ann", "yarn_rest")]
    assert stored(store, "event_id", "user", "source") == before
    nobody = store.read(columns=["event_id", "user"]).filter(sf.col("user").isNull())
    assert [row["event_id"] for row in nobody.collect()] == ["1"]
    assert store.compact().n_files_after == 1
    assert stored(store, "event_id", "user", "source") == before
    # Of an unknown source: any known one is better.
    again = [job_start("1", 1, "bob"), job_start("2", 2, "bob")]
    assert store.append(frame(spark, again, "yarn_rest")) == Appended(2, 0, 1, 1, 1)
    assert stored(store, "event_id", "user", "source") == [("1", "bob", "yarn_rest"), ("2", "ann", "yarn_rest")]
