"""What can be wrong with a store or a batch: told early, with the place; nothing is half-visible."""

from __future__ import annotations

import os
import random
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.event_store.commits import Commit
from spark_jobs.event_store import EventStore, StoreError
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.event_store.staging import Staging
from tests.spark_jobs.event_store.test_store import FIRST, frame, job_start, stored


def snapshot(folder: Path) -> list[str]:
    """What a reader can see."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_batch_that_cannot_be_stored(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EventStore.create(spark, str(tmp_path))
    before = snapshot(tmp_path)
    good = frame(spark, FIRST[:1])
    with pytest.raises(StoreError, match=r"n_maps: string; expected bigint; source: no such column; .*; x: "):
        store.append(good.withColumn("n_maps", sf.lit("3")).drop("source").withColumn("x", sf.lit(1)))
    with pytest.raises(StoreError, match=r"1 of 1 events cannot be stored; found .*'t_lo_ms': 11, 't_hi_ms': 10"):
        store.append(good.withColumn("t_lo_ms", sf.lit(11).cast("bigint")))
    # A disk that is full when the files are written, and when the commit is.
    monkeypatch.setattr(StoreFiles, "move", failing)
    with pytest.raises(StoreError, match="No space left on device"):
        store.append(good)
    monkeypatch.undo()
    monkeypatch.setattr(StoreFiles, "create_new", failing)
    with pytest.raises(StoreError, match="No space left on device"):
        store.append(good)
    monkeypatch.undo()
    assert snapshot(tmp_path) == before
    assert EventStore.open(spark, str(tmp_path)).version == store.version == 0


@contextmanager
def largest_file(pid: int, n_bytes: int) -> Iterator[None]:
    """What a process writes beyond `n_bytes` of a file fails, as on a full disk: with EFBIG."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_no_room_for_a_write(spark: SparkSession, tmp_path: Path) -> None:
    # A JVM unpacks its library for zstd at the first write, and never again where there was no room for that.
    EventStore.create(spark, str(tmp_path / "other")).append(frame(spark, [job_start("0", 0)]))
    store = EventStore.create(spark, str(tmp_path / "store"))
    jvm: Any = spark._jvm
    events = frame(spark, [job_start(f"{n}-{random.Random(n).randbytes(99).hex()}", n) for n in range(400)])
    before = snapshot(tmp_path / "store")
    for pid, n_bytes, place in (
        (int(jvm.java.lang.ProcessHandle.current().pid()), 16_384, f"file://{tmp_path}/store: cannot be written"),
        (os.getpid(), 128, f"{tmp_path}/store/_commits/{1:020d}.json: cannot be written"),  # the commit itself
    ):
        with largest_file(pid, n_bytes), pytest.raises(StoreError) as told:
            store.append(events)
        assert str(told.value).startswith(f"{place}: File too large; nothing of it is visible")
        assert snapshot(tmp_path / "store") == before
    assert store.append(events).n_new == 400


def failing(*_: object) -> bool:
    raise StoreError("No space left on device")


def test_files_that_are_damaged_or_lack_columns(spark: SparkSession, tmp_path: Path) -> None:
    store = EventStore.create(spark, str(tmp_path / "good"))
    store.append(frame(spark, [job_start("1", 10), job_start("2", 20)]))
    (file,) = store.files()
    place = tmp_path / "good" / file.path
    older = pq.read_table(place).drop_columns(["queue", "host"])

    def changed(name: str) -> tuple[EventStore, Path]:
        shutil.copytree(tmp_path / "good", tmp_path / name)
        target = tmp_path / name / file.path
        target.with_name(f".{target.name}.crc").unlink()
        return EventStore.open(spark, str(tmp_path / name)), target

    other, target = changed("older")
    pq.write_table(older, target)
    assert stored(other, "event_id", "queue", "user") == [("1", None, "ann"), ("2", None, "ann")]

    other, target = changed("lacking")
    pq.write_table(older.drop_columns(["t_hi_ms"]), target)
    with pytest.raises(PySparkException, match=rf"{file.path}: no column t_hi_ms"):
        other.read(from_ms=5).collect()

    other, target = changed("cut")
    target.write_bytes(target.read_bytes()[:-9])
    with (
        pytest.raises(StoreError, match=rf"asked: {file.path} is damaged or missing .*not a Parquet.*backup"),
        job_errors("asked"),
    ):
        other.read().collect()

    other, target = changed("gone")
    target.unlink()
    with pytest.raises(StoreError, match=rf"{file.path}.*missing.*backup"):
        other.read()


def test_a_store_of_a_newer_version(spark: SparkSession, tmp_path: Path) -> None:
    store = EventStore.create(spark, str(tmp_path))
    log, state = store._log, store._state
    newer = log.try_commit(state, Commit("append", 1, (), (), {"event_id": "string", "colour": "string"}))
    assert newer is not None
    store.refresh()
    with pytest.raises(StoreError, match=r"do not know.*colour|does not know \(colour\).*newer version"):
        store.compact()


def test_what_stays_after_a_write_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    store = EventStore.create(spark, str(tmp_path))
    staging = Staging(spark, StoreFiles(spark, str(tmp_path)))
    with staging.opened():
        staging.keep(spark.createDataFrame(pa.table({"x": [1]})), "x")
        assert StoreFiles(spark, str(tmp_path)).files(staging.path)
    assert store.version == 0
    assert not any((tmp_path / "_staging").iterdir())
