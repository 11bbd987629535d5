"""How fast logs of daemons and clients, audit logs and event logs of Spark are read, beside a plain scan of them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collectors.base import Collector
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.logs.daemon_lines import CLIENT_TRACE, READERS
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from collectors.spark.spark_events import SparkEventsCollector, SparkEventsOptions
from tests.collectors.client.consoles import HADOOP3, console

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"
RECORDED = FIXTURES / "daemon_logs"
SPARK_LOG = FIXTURES / "spark_events" / "application_1795748346000_0007_1"
NOW_MS = 4_000_000_000_000
N_BYTES = 8 << 20
MARKS = tuple(mark for mark, _ in (CLIENT_TRACE, *READERS))


def main(n_bytes: int = N_BYTES) -> list[list[Any]]:
    """Rows: what is read, MB, events, MB/s of the collector, of a scan line by line, of splitting alone."""
    namenode = (RECORDED / "hadoop-hdfs-namenode-nn1.log").read_bytes()
    datanode = (RECORDED / "hadoop-hdfs-datanode-node1.log").read_bytes()
    audit = (RECORDED / "hdfs-audit.log").read_bytes()
    spark = SPARK_LOG.read_bytes()
    dull = b"".join(line for line in datanode.splitlines(keepends=True) if not any(map(line.__contains__, MARKS)))
    return [
        _row("nothing to tell", "hadoop-hdfs-datanode-n1.log", dull, n_bytes, _daemon),
        _row("NameNode, low thresholds", "hadoop-hdfs-namenode-n1.log", namenode, n_bytes, _daemon),
        _row("DataNode, low thresholds", "hadoop-hdfs-datanode-n1.log", datanode, n_bytes, _daemon),
        _row("audit log", "hdfs-audit.log", audit, n_bytes, _audit),
        _row("job client log", "job.log", console(HADOOP3).encode(), n_bytes, _client),
        _row("Spark event log", SPARK_LOG.name, spark, n_bytes, _spark),
    ]


def _daemon(root: Path, n_bytes: int) -> Collector:
    return DaemonLogCollector(DaemonLogOptions(root, max_bytes_per_poll=n_bytes))


def _audit(root: Path, n_bytes: int) -> Collector:
    return HdfsAuditCollector(HdfsAuditOptions(root, max_bytes_per_poll=n_bytes))


def _client(root: Path, n_bytes: int) -> Collector:
    return JobClientLogCollector(JobClientLogOptions(root, max_bytes_per_poll=n_bytes))


def _spark(root: Path, n_bytes: int) -> Collector:
    return SparkEventsCollector(SparkEventsOptions(root, max_bytes_per_poll=n_bytes))


def _row(what: str, name: str, once: bytes, n_bytes: int, made: Callable[[Path, int], Collector]) -> list[Any]:
    data = once * max(1, n_bytes // len(once))
    megabytes = len(data) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        collector, started_s = made(Path(folder), len(data) + 1), time.process_time()
        polled = collector.poll(NOW_MS)
        n_events = len(polled.events) + sum(len(history.events) for history in polled.finished)
        read_s = time.process_time() - started_s
    started_s = time.process_time()
    found = [line for line in data.split(b"\n") if any(map(line.__contains__, MARKS))]
    scanned_s = time.process_time() - started_s
    started_s = time.process_time()
    lines = data.split(b"\n")
    split_s = time.process_time() - started_s
    assert len(lines) > len(found)
    rates = [round(megabytes / seconds, 1) for seconds in (read_s, scanned_s, split_s)]
    return [what, round(megabytes, 1), n_events, *rates]
