"""`clustercep store delete`: what of one source lies in a span goes, in one commit, and nothing else."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.event_store.commits import CommitReader
from app.event_store.folder import LocalFolder
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.store import Deleted
from tests.spark_jobs.event_store.test_store import DAY_MS, frame, job_start, metric, stored


def test_the_events_of_a_source_in_a_span_go(spark: SparkSession, tmp_path: Path) -> None:
    store = EventStore.create(spark, str(tmp_path / "s"))
    store.append(frame(spark, [job_start("1", 10), job_start("2", 20), metric("3", 30, 40)], "container_log"))
    store.append(frame(spark, [job_start("4", 20), job_start("5", DAY_MS + 1)], "job_history"))
    store.append(frame(spark, [job_start("6", 15)], "container_log").withColumn("source", sf.lit(None).cast("string")))
    other, version = EventStore.open(spark, store.url), store.version
    assert store.delete("container_log", from_ms=15, to_ms=29, dry_run=True) == Deleted(1, 1)
    assert store.version == version
    assert store.delete("container_log", from_ms=15, to_ms=29) == Deleted(1, 1)
    assert store.version == version + 1
    assert stored(store, "event_id") == [("1",), ("3",), ("4",), ("5",), ("6",)]
    assert len(stored(other, "event_id")) == 6  # a reader that was there before still has its files
    assert store.delete("container_log", from_ms=15, to_ms=29) == Deleted(0, 0)
    assert store.version == version + 1  # not even a commit
    assert store.delete("container_log") == Deleted(2, 2)
    assert stored(store, "event_id") == [("4",), ("5",), ("6",)]
    commit = CommitReader(LocalFolder(store.url)).commit(store.version)
    assert (commit.operation, commit.info["source"], commit.info["n_events"]) == ("delete", "container_log", 2)
    # What was read in a wrong time zone is read again in the right one.
    assert store.append(frame(spark, [job_start("1", 9)], "container_log")).n_new == 1
    other.refresh()
    assert stored(other, "event_id") == [("1",), ("4",), ("5",), ("6",)]
