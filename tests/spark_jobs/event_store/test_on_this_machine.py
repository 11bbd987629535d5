"""A store read without a JVM gives what it gives with one, or nothing, for Spark to say what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs.event_store import EventStore, StoreError
from spark_jobs.event_store.on_this_machine import read_few
from tests.spark_jobs.event_store.test_store import DAY_MS, FIRST, frame, job_start, metric

COLUMNS = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", "user", "value", "skew_ms")
MANY = 1_000


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventStore:
    """With what commits can say: files added, replaced and merged."""
    made = EventStore.create(spark, str(tmp_path_factory.mktemp("few") / "a store, 100%"))
    made.append(frame(spark, FIRST, "yarn_rest"))
    made.append(frame(spark, [job_start("1", 12, "bob"), job_start("5", 11), metric("6", 5, 2 * DAY_MS)]))
    made.compact()
    return made


def rows(found: pa.Table | None) -> list[tuple[Any, ...]]:
    assert found is not None
    listed = found.to_pylist()
    return sorted((tuple(row.get(name) for name in COLUMNS) for row in listed), key=repr)


@pytest.mark.parametrize("types", [["JobStart", "Metric"], ["Metric"], ["Load"]])
@pytest.mark.parametrize(
    ("from_ms", "to_ms"), [(None, None), (DAY_MS + 5, None), (None, -1), (12, 12), (DAY_MS + 6, 2 * DAY_MS)]
)
def test_the_same_events(store: EventStore, types: list[str], from_ms: int | None, to_ms: int | None) -> None:
    wanted = store.read(types, COLUMNS, from_ms, to_ms).collect()
    place = store.url.removeprefix("file://")
    for url in (store.url, place):
        found = read_few(url, types, COLUMNS, from_ms, to_ms, MANY)
        assert rows(found) == sorted((tuple(row) for row in wanted), key=repr)


def test_many_events_and_stores_elsewhere(store: EventStore) -> None:
    n_events = sum(file.n_rows for file in store.files())
    assert read_few(store.url, ["JobStart", "Metric"], COLUMNS, None, None, n_events) is not None
    assert read_few(store.url, ["JobStart", "Metric"], COLUMNS, None, None, n_events - 1) is None
    assert read_few("hdfs://master:8020/events", ["JobStart"], COLUMNS, None, None, MANY) is None


def test_what_is_wrong_with_a_store(store: EventStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no event store there; .*`clustercep ingest`"):
        read_few(str(tmp_path / "nowhere"), ["JobStart"], COLUMNS, None, None, MANY)
    shutil.copytree(store.url.removeprefix("file://"), tmp_path / "newer")
    (commit,) = (tmp_path / "newer").glob("_commits/*2.json")
    commit.write_text(commit.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(StoreError, match=r"found format 2; .*update this one"):
        read_few(str(tmp_path / "newer"), ["JobStart"], COLUMNS, None, None, MANY)


def test_what_spark_shall_tell(store: EventStore, tmp_path: Path) -> None:
    file = next(file for file in store.files() if file.type == "JobStart")

    def read(name: str, change: Any) -> pa.Table | None:
        shutil.copytree(store.url.removeprefix("file://"), tmp_path / name)
        change(tmp_path / name / file.path)
        return read_few(str(tmp_path / name), ["JobStart"], COLUMNS, None, None, MANY)

    def without(name: str) -> Any:
        return lambda path: pq.write_table(pq.read_table(path).drop_columns([name]), path)

    def nulled(path: Path) -> None:
        table = pq.read_table(path)
        at = table.column_names.index("t_hi_ms")
        pq.write_table(table.set_column(at, "t_hi_ms", pa.nulls(len(table), pa.int64())), path)

    assert all(row[6] is None for row in rows(read("older", without("user"))) if row[0] in ("1", "5"))
    assert read("lacking", without("t_hi_ms")) is None
    assert read("nulled", nulled) is None
    assert read("cut", lambda path: path.write_bytes(path.read_bytes()[:-9])) is None
    assert read("gone", lambda path: path.unlink()) is None
