"""The event store on a real NameNode and DataNode: appends, two writers, a kill before the commit, sweep."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.event_store.commits import EMPTY, Commit, CommitLog
from deploy.minicluster import settings
from deploy.minicluster.hdfs import Hdfs
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.session import spark_session
from tests.spark_jobs.event_store.test_store import frame, job_start, stored

KILLED = """
import os, signal, sys
from spark_jobs.event_store import EventStore
from app.event_store.commits import CommitLog
from spark_jobs.session import spark_session
from tests.live.test_event_store_on_hdfs import CONF
from tests.spark_jobs.event_store.test_store import frame, job_start

CommitLog.try_commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with spark_session("killed", "local[1]", CONF) as spark:
    EventStore.open(spark, sys.argv[1]).append(frame(spark, [job_start("9", 90)]))
"""

CONF = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.hadoop.dfs.client.use.datanode.hostname": "false",
    "spark.hadoop.dfs.replication": "1",
}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """In a folder of its own, so that it can run beside a whole cluster."""
    chosen = dataclasses.replace(settings.load(), work_dir=tmp_path_factory.mktemp("hdfs") / "work")
    started = Hdfs(chosen)
    with started:
        yield started


@pytest.fixture(scope="module")
def spark(hdfs: Hdfs) -> Iterator[SparkSession]:
    """A session that writes as the user whom the NameNode knows as its own."""
    with spark_session("hdfs", "local[2]", CONF) as session:
        yield session


def test_a_store_on_hdfs(spark: SparkSession, hdfs: Hdfs) -> None:
    url = f"{hdfs.url}/tests/events"
    store = EventStore.create(spark, url)
    assert store.append(frame(spark, [job_start("1", 10), job_start("2", 20)], "yarn_rest")).n_new == 2
    again = store.append(frame(spark, [job_start("2", 21), job_start("3", 30)], "job_history"))
    assert (again.n_new, again.n_replaced) == (1, 1)
    content = [("1", 10), ("2", 21), ("3", 30)]
    assert stored(store, "event_id", "t_lo_ms") == content

    root = Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, url],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=300,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    reopened = EventStore.open(spark, url)
    assert (reopened.version, stored(reopened, "event_id", "t_lo_ms")) == (2, content)
    files = StoreFiles(spark, url)
    left_over = {file.path for file in files.files("data")} - {file.path for file in reopened.files()}
    assert len(left_over) == 2  # of the kill, and the file that was rewritten
    assert reopened.append(frame(spark, [job_start("9", 90)])).n_new == 1
    reopened.compact()
    assert [file.n_rows for file in reopened.files()] == [4]

    swept = EventStore.open(spark, url, clock=lambda: 2**42).sweep(older_than_ms=0)
    assert swept.n_files >= 4
    assert [file.path for file in files.files("data")] == [file.path for file in reopened.files()]
    assert stored(EventStore.open(spark, url), "event_id", "t_lo_ms") == [*content, ("9", 90)]


def test_of_many_writers_at_once_one_wins(spark: SparkSession, hdfs: Hdfs) -> None:
    logs = [CommitLog(StoreFiles(spark, f"{hdfs.url}/tests/race")) for _ in range(8)]
    state = EMPTY
    with ThreadPoolExecutor(len(logs)) as pool:
        for turn in range(5):
            base = state
            told = list(pool.map(lambda at: logs[at].try_commit(base, Commit("append", at)), range(len(logs))))  # noqa: B023  # all are done within the turn
            (winner,) = [at for at, found in enumerate(told) if found is not None]
            found = logs[winner - 1].read(state)
            assert found.number == turn
            assert logs[winner - 1].commit(turn).time_ms == winner
            state = found
