"""A signal to a command whose job on Spark runs: it is cancelled, nothing is half-visible and no process stays.

Each job waits for the checksum of a file that it reads: a FIFO that nobody writes to. Each is a JVM, so one command is
tried every day, and the others by `make live-spark` (`tests/live/test_ended_jobs.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deploy.minicluster.processes.guard import descendants, signal_all
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.local_append import LocalEventStore
from spark_jobs.event_store.schema import to_arrow_schema
from tests.collectors import histories
from tests.spark_jobs.event_store.test_bad_stores import snapshot
from tests.spark_jobs.event_store.test_store import frame, job_start
from tests.torture.processes.lives import is_dead

ROOT = Path(__file__).parents[2]
WITHIN_S = 240
HISTORY = "job_1700000000000_0007-x.jhist"
QUERY = """
PATTERN SEQ(JobStart a, JobStart b)
WHERE   skip_till_next_match { a.user = b.user }
WITHIN  1 hour
RETURN  a.user
"""
SMALL = (
    '{"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", '
    '"spark.sql.shuffle.partitions": "1"}'
)


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The command, in a process; it and what is below it end with the block."""
    environment = os.environ | {"CLUSTERCEP__SPARK__CONF": SMALL, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "app.cli", *words]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            signal_all([*descendants(process.pid), process.pid], signal.SIGKILL)


def opened_by_its_reader(fifo: Path, process: subprocess.Popen[str]) -> int:
    """The FIFO's other end, as soon as somebody reads it."""
    for _ in range(WITHIN_S * 20):
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
    told = process.communicate()[1] if process.poll() is not None else "not reached in time"
    raise AssertionError(f"{fifo} was never read: {told}")


def program(pid: int) -> str:
    """What a process runs; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except FileNotFoundError:
        return ""


def prepared(name: str, template: Path, folder: Path) -> tuple[Path, list[str]]:
    """(The FIFO at which a command waits, its words)."""
    shutil.copytree(template, folder)
    store = ["--store", str(folder), "--master", "local[1]"]
    if name == "ingest":
        source = folder.with_name("in") / HISTORY
        source.parent.mkdir()
        source.write_bytes(histories.whole_history())
        fifo, words = source.with_name(f".{HISTORY}.crc"), ["ingest", str(source.parent), *store]
    else:
        fifo = min((folder / "data").rglob(".*.crc"))
        fifo.unlink()
        query = folder.with_name("q.cep")
        query.write_text(QUERY)
        words = ["query", str(query), *store] if name == "query" else ["store", "compact", *store]
    os.mkfifo(fifo)
    return fifo, words


def cancel_jobs(spark: SparkSession, tmp_path: Path, commands: Mapping[str, signal.Signals]) -> None:
    """Start these commands at once; send each its signal while its job runs; look at what it leaves."""
    template = EventStore.create(spark, str(tmp_path / "store"))
    for number in range(2):
        template.append(frame(spark, [job_start(str(number), number)]))
    with ExitStack() as running:
        processes, fifos, before = {}, {}, {}
        for name in commands:
            fifos[name], words = prepared(name, tmp_path / "store", tmp_path / name)
            before[name] = snapshot(tmp_path / name)
            processes[name] = running.enter_context(started(words))
        for name, number in commands.items():
            process = processes[name]
            other_end = opened_by_its_reader(fifos[name], process)
            running.callback(os.close, other_end)
            (job, *below) = descendants(process.pid)
            (jvm,) = [pid for pid in below if program(pid) == "java"]
            process.send_signal(number)
            _, told = process.communicate(timeout=WITHIN_S)
            assert process.returncode == 128 + number, told
            assert told.rstrip().splitlines()[-1].startswith(f"clustercep: interrupted by {number.name}; what ran on")
            assert "Traceback" not in told
            assert not [word for word in ("log level", "incubator") if word in told]  # of Spark and Java themselves
            assert is_dead(job)
            assert is_dead(jvm)
            assert snapshot(tmp_path / name) == before[name]
            assert EventStore.open(spark, str(tmp_path / name)).version == 2


def test_a_signal_cancels_the_job(spark: SparkSession, tmp_path: Path) -> None:
    cancel_jobs(spark, tmp_path, {"ingest": signal.SIGINT})


def jvm_of(process: subprocess.Popen[str]) -> int:
    """The command's JVM, as soon as there is one."""
    for _ in range(WITHIN_S * 50):
        for pid in descendants(process.pid):
            if program(pid) == "java":
                return pid
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError("no JVM was seen")


@pytest.mark.parametrize(
    ("number", "is_jvm_there"), [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, True)]
)
def test_a_signal_while_it_starts_leaves_no_jvm(number: signal.Signals, is_jvm_there: bool, tmp_path: Path) -> None:
    LocalEventStore(str(tmp_path / "store"), ("job_history",)).append(to_arrow_schema().empty_table(), {})
    with started(["report", "stragglers", "--store", str(tmp_path / "store"), "--master", "local[1]"]) as process:
        if is_jvm_there:
            jvm = jvm_of(process)
            (job, *_) = descendants(process.pid)
        else:
            while not (below := descendants(process.pid)):
                assert process.poll() is None
            (job, *_), jvm = below, None
        process.send_signal(number)
        _, told = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 128 + number, told
    assert "Traceback" not in told
    assert told.rstrip().splitlines()[-1].startswith(f"clustercep: interrupted by {number.name}")
    assert all(is_dead(pid) for pid in (job, jvm) if pid is not None)
