"""Sources whose first poll finds more than one poll may read: what is old takes part, and others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.live.intake import Intake, Source
from app.live.ordering.deduplicate import Deduplicator
from app.live.ordering.order import BEGAN_BEHIND, Order
from app.live.ordering.watermarks import NEVER_MS, Watermarks
from collectors.base import NO_PROMISE_MS, Collector
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from tests.app.pipeline_fixtures import batch, event
from tests.collectors.logs.test_hdfs_audit import line
from tests.collectors.reducer_logs import DAY_MS, stamp

HOUR_MS = 3_600_000
NOW = DAY_MS + 5 * HOUR_MS
N_HOURS = 4
FAULT = "WARN org.apache.hadoop.ipc.Client: Retrying connect to server: node3/10.0.0.3:8041. Already tried 9 time(s)"
LOST = (
    "INFO org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeImpl: node{n}:8041 "
    "Node Transitioned from RUNNING to LOST"
)


def daemon_logs(root: Path) -> Collector:
    for n in range(N_HOURS):
        text = f"{stamp(n * HOUR_MS)} {LOST.format(n=n)}\n"
        (root / f"hadoop-yarn-resourcemanager-m{n}.log").write_text(text)
    return DaemonLogCollector(DaemonLogOptions(root, max_bytes_per_poll=len(text)))


def audit_logs(root: Path) -> Collector:
    for n in range(N_HOURS):
        text = line(1).replace("2023-11-14 22:14", f"{stamp(n * HOUR_MS)[:16]}")
        (root / f"hdfs-audit-nn{n}.log").write_text(text)
    return HdfsAuditCollector(HdfsAuditOptions(root, max_bytes_per_poll=len(text)))


def container_logs(root: Path) -> Collector:
    for n in range(N_HOURS):
        folder = root / "node1" / "application_1700000000000_0007" / f"container_1700000000000_0007_01_00000{n + 2}"
        folder.mkdir(parents=True)
        text = f"{stamp(n * HOUR_MS)} {FAULT}\n"
        (folder / "syslog").write_text(text)
    return ContainerLogCollector(ContainerLogOptions(root, max_bytes_per_poll=len(text)))


@pytest.mark.parametrize("logs", [daemon_logs, audit_logs, container_logs])
def test_hours_that_take_several_polls_are_not_late(tmp_path: Path, logs: Callable[[Path], Collector]) -> None:
    """What others tell of now waits for it."""
    source = Source(logs(tmp_path))
    order = Order(Deduplicator({source.name: 0, "other": 1}, 10**9), Watermarks((source.name, "other"), HOUR_MS, NOW))
    released, promised, n_polls = list[int](), list[int](), 0
    while True:
        n_polls += 1
        now_ms = NOW + n_polls * 1_000
        intake = source.poll(now_ms)
        other = Intake("other", now_ms, batch(event(f"e{n_polls}", now_ms - 500)), now_ms, position={})
        step = order.advance([intake, other], now_ms)
        assert step.late == []
        assert intake.watermark_ms is not None
        promised.append(intake.watermark_ms)
        released += [row["t_lo_ms"] for row in step.events.rows()]
        if not intake.goes_on:
            break
        assert released == []
    assert n_polls == N_HOURS
    assert promised[:-1] == [NO_PROMISE_MS] * (N_HOURS - 1)
    assert promised[-1] > NOW - 10_000
    later_ms = NOW + HOUR_MS
    last = order.advance([source.poll(later_ms), Intake("other", later_ms, watermark_ms=later_ms)], later_ms)
    assert last.late == []
    released += [row["t_lo_ms"] for row in last.events.rows()]
    assert sum(t_ms < NOW - HOUR_MS // 2 for t_ms in released) == N_HOURS
    assert sum(t_ms >= NOW for t_ms in released) == n_polls


def test_one_that_does_not_come_to_its_end_holds_up_the_others_no_longer_than_the_timeout() -> None:
    order = Order(Deduplicator({"logs": 0, "other": 1}, 10**9), Watermarks(("logs", "other"), 300, 0))

    def step(now_ms: int, promised_ms: int) -> tuple[list[str], list[str]]:
        intakes = [
            Intake("logs", now_ms, batch(event(f"l{now_ms}", 1)), promised_ms, position={}),
            Intake("other", now_ms, batch(event(f"o{now_ms}", now_ms - 1)), now_ms, position={}),
        ]
        done = order.advance(intakes, now_ms)
        return [problem.message for problem in done.problems], list(done.events.strings("event_id").to_pylist())

    assert step(100, NO_PROMISE_MS) == ([], [])
    assert step(300, NO_PROMISE_MS) == ([], [])
    told, released = step(301, NO_PROMISE_MS)
    assert told == [BEGAN_BEHIND]
    assert sorted(released) == ["l100", "l300", "l301", "o100", "o300", "o301"]
    assert order.watermarks.by_source()["logs"] == (NEVER_MS, True)
    (late,), released = step(400, 390)
    assert "came after the watermark" in late
    assert released == []
    assert order.watermarks.by_source()["logs"] == (390, False)
