"""A cluster whose logs and histories grow while processes follow them, with an alert to be raised for each incident."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.replay.webhook_sink import listening
from tests.collectors.histories import T0, end_records, history, map_records, reduce_records, start_records
from tests.torture.receivers.told_groups import Told

LOG = "yarn-yarn-resourcemanager-rm.log"
LATENESS = "2 s"
"""Of the sources: a writer that gets no processor for so long makes its events late."""

QUERIES = {
    "lost-after": """
        PATTERN SEQ(NodeUnhealthy+ a[], NodeLost b) WHERE skip_till_next_match { [host] } WITHIN 1 minute
        RETURN b.host, b.reason, count(a[]) AS n_reports ALERT warning '{host}: {reason}, {n_reports} reports before'
        GROUP_GAP 1500 ms""",
    "lost": """
        PATTERN NodeLost a WHERE skip_till_any_match { [host] } WITHIN 1 minute
        RETURN a.host, a.reason ALERT critical '{host}: {reason}' GROUP_GAP 1500 ms""",
    "slow-map": """
        PATTERN SEQ(JobStart a, Mapper b) WHERE skip_till_next_match { [job_id] AND b.period_ms >= 100 }
        WITHIN 1 hour RETURN a.job_id, b.task_id, b.period_ms ALERT info '{job_id}: {task_id} took {period_ms} ms'
        GROUP_GAP 1500 ms""",
}
MEANWHILE = """
    PATTERN NodeLost a WHERE skip_till_any_match { [host] } WITHIN %d minutes RETURN a.host REPORT '{host}'"""
"""A query that reloads change; what it reports depends on when."""


class GrowingCluster:
    """Files below a folder, which a thread writes."""

    def __init__(self, folder: Path, seed: int, n_per_s: float) -> None:
        self.folder = folder
        self.logs, self.histories = folder / "logs", folder / "history"
        for made in (self.logs, self.histories):
            made.mkdir(parents=True)
        self.n_incidents = 0
        self.last_ms = 0
        """Of the last event."""
        self._chosen = random.Random(seed)
        self._pause_s = 1 / n_per_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._grow, name="cluster", daemon=True)

    def start(self) -> None:
        """Grow from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Nothing more happens."""
        self._stopping.set()
        self._thread.join()

    def _grow(self) -> None:
        with (self.logs / LOG).open("a", encoding="utf-8") as log:
            while not self._stopping.is_set():
                self.n_incidents += 1
                if self._chosen.random() < 0.15:
                    self._job(self.n_incidents)
                else:
                    log.write(self._loss(f"n{self.n_incidents}"))
                    log.flush()
                self._stopping.wait(self._pause_s * self._chosen.uniform(0.2, 1.8))

    def _loss(self, host: str) -> str:
        now_ms = self.last_ms = time.time_ns() // 1_000_000
        before = "".join(
            line(now_ms - ago_ms, f"Node {host}:8041 reported UNHEALTHY with details: disk {ago_ms}")
            for ago_ms in sorted(self._chosen.sample(range(1, 40), self._chosen.randrange(3)), reverse=True)
        )
        return before + line(now_ms, f"{host}:8041 Node Transitioned from RUNNING to LOST")

    def _job(self, number: int) -> None:
        """A job that is over; of every other one the live path has heard nothing before, and too late."""
        end_ms = self.last_ms = time.time_ns() // 1_000_000
        started_ms = end_ms - (12_500 if number % 2 else 600)
        scale = (end_ms - started_ms) / 12_500
        job_id = "job_1600000000000_0007"
        attempts = [start_records(job_id), *(map_records(f"attempt_1600000000000_0007_m_00000{n}_0") for n in range(2))]
        content = history(*attempts, reduce_records("attempt_1600000000000_0007_r_000000_0"), end_records(job_id))
        moved = re.sub(
            rf"\b{T0 // 100_000}\d{{5}}\b",
            lambda found: str(started_ms + round((int(found[0]) - T0) * scale)),
            content.decode().replace("1600000000000_0007", f"1600000000000_{number:04}"),
        )
        name = f"job_1600000000000_{number:04}-{started_ms}-ann-count-{end_ms}-2-1-SUCCEEDED-etl-{started_ms}.jhist"
        (self.histories / f".{name}").write_text(moved, encoding="utf-8")
        (self.histories / f".{name}").rename(self.histories / name)


def line(at_ms: int, message: str) -> str:
    """One line of the ResourceManager's log."""
    time_text = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{time_text},{at_ms % 1000:03} INFO org.apache.hadoop.yarn.rmnode.RMNodeImpl: {message}\n"


ROUTE: dict[str, Any] = {
    "receiver": "ops",
    "group_by": ["alertname"],
    "group_wait": "200ms",
    "group_interval": "1s",
    "repeat_interval": "4h",
    "routes": [{"matchers": ['alertname="lost-after"'], "group_by": ["..."]}],
}
"""Alerts of one query are told together, those of `lost-after` each alone."""


def configure(
    folder: Path, cluster: GrowingCluster, receiver_url: str, *, retention: str, routed: bool = False
) -> Path:
    """A configuration for `clustercep run` in a folder of its own, with ROUTE if `routed`; returns its file."""
    (folder / "queries").mkdir(parents=True)
    for name, text in QUERIES.items():
        (folder / f"queries/{name}.cep").write_text(text)
    change_query(folder, 1)
    names = [*QUERIES, "meanwhile"]
    (folder / "queries/RUNBOOK.md").write_text("".join(f"# {name}\nLook.\n" for name in names))
    source = {"enabled": True, "interval": "200 ms", "lateness": LATENESS}
    receiver = {"url": receiver_url, "first_retry": "50 ms", "max_retry": "200 ms", "timeout": "5 s"}
    settings = {
        "sources": {
            "daemon_log": {**source, "directory": str(cluster.logs)},
            "job_history": {**source, "directories": [str(cluster.histories)]},
        },
        "store": {"directory": "store", "retention": {"notifications": retention, "late_events": retention}},
        "alerting": {"receivers": {"ops": receiver}, **({"route": ROUTE} if routed else {})},
        "log": {"format": "json"},
        "web": {"enabled": False},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))  # which YAML is, too
    return folder / "config.yaml"


def change_query(folder: Path, number: int) -> None:
    """So that the next reload has something to do."""
    (folder / "queries/meanwhile.cep").write_text(MEANWHILE % number)


class Inbox:
    """What a receiver was sent, in order; `before_answer` may end the sender."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[tuple[str, str, str]] = []
        """Idempotency-Key, state, id of the alert, of each alert of a message."""
        self.messages: list[Told] = []
        """The same by message."""
        self.before_answer = threading.Event()
        """Set: the next message is told to `taken` before it is answered."""
        self._lock = threading.Lock()
        self.taken: Callable[[], None] = lambda: None

    def take(self, key: str, payload: Any) -> None:
        """One message."""
        told = Told.of(key, payload)
        with self._lock:
            self.messages.append(told)
            self.received += [(key, state, alert_id) for alert_id, state in sorted(told.alerts)]
            is_awaited = self.before_answer.is_set()
            self.before_answer.clear()
        if is_awaited:
            self.taken()


@contextmanager
def inbox() -> Iterator[Inbox]:
    """A receiver on loopback."""
    opened = Inbox()
    with listening(opened.take) as opened.url:
        yield opened
