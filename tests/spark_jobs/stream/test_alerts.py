"""The transaction of a micro-batch: one after the other, each once, by the store's owner."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from app.errors import OwnershipError, StoreError
from app.queries.loading import Loaded
from app.settings import Settings
from app.store import open_store
from app.store.owner import this_process
from spark_jobs.stream.alerts import AlertSink
from spark_jobs.stream.job import StreamJob, StreamOptions, run
from spark_jobs.stream.sources import FolderInput
from tests.app.alerting_fixtures import options
from tests.new_store import placed

NOTHING = pa.table({})


def test_micro_batches_follow_each_other(tmp_path: Path) -> None:
    with open_store(placed(tmp_path / "store.db")) as store:
        sink = AlertSink(store, options(), "one", lambda: 5)
        repeated = [number for number in (0, 1, 1, 2, 1) if sink.write(NOTHING, number).is_repeated]
        assert repeated == [1, 1]
        with pytest.raises(StoreError, match=r"knows 3 micro-batches of this stream, its checkpoint 4: the database"):
            sink.write(NOTHING, 4)
        assert not AlertSink(store, options(), "two", lambda: 5).write(NOTHING, 7).is_repeated
    told = r"knows 0 micro-batches .*Put the newer one back; or start with another"
    with open_store(placed(tmp_path / "other.db")) as store, pytest.raises(StoreError, match=told):
        AlertSink(store, options(), "one", lambda: 5).write(NOTHING, 3)


def test_a_stream_that_lost_the_store_writes_nothing(tmp_path: Path) -> None:
    url = placed(tmp_path / "store.db")
    by = this_process("stream", tmp_path, "1:1")
    with open_store(url, by=by) as store, open_store(url) as second:
        sink = AlertSink(store, options(), "one", lambda: 5)
        sink.write(NOTHING, 0)
        second.own(by)  # holds what the first one held: that one is taken to be gone
        with pytest.raises(OwnershipError, match="'clustercep stream' with pid"):
            sink.write(NOTHING, 1)
        row = second.checkpoint("stream")
        assert row is not None
        assert row.number == 0
        assert isinstance(store.fatal, OwnershipError)


def test_an_idle_stream_ends_when_it_lost_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    class Query:
        def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802  # as Spark names it
            return False

        def stop(self) -> None:
            stopped.append("stopped")

    monkeypatch.setattr(StreamJob, "start", lambda *_: Query())
    with open_store(placed(tmp_path / "store.db")) as store:
        store.fatal = OwnershipError("of another")
        source = FolderInput("file:/in", "parquet")
        job = StreamJob(StreamOptions(source, str(tmp_path / "checkpoint")), Settings(), Loaded((), {}, ()), store)
        with pytest.raises(OwnershipError, match="of another"):
            run(job, cast("SparkSession", None), threading.Event())
    assert stopped == ["stopped"]
