"""From a line that a Hadoop daemon writes to an alert stored and to a webhook received.

A real `clustercep run` follows a NodeManager's log that grows; each line of a killed container is one alert. The times
between come from the process' own log: which poll could release a line (the first one later than the line's time and
the lateness), and when its step began. The baseline is a process that does nothing but follow the file and post.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests
import yaml

from app.replay.webhook_sink import listening
from benchmarks.measure import resident_mib, show, size

LOG_NAME = "hadoop-yarn-nodemanager-node1.log"
QUERY = """
PATTERN SEQ(ContainerKilled a)
WHERE   skip_till_next_match { [container_id] }
WITHIN  1 minute
RETURN  a.container_id, a.host, a.reason
ALERT   warning 'container {container_id} was killed'
"""
START_TIMEOUT_S = 180.0
NEW_ALERTS = "SELECT rowid, json_extract(\"key\", '$.container_id') FROM alerts WHERE rowid > ? ORDER BY rowid"
TAIL_POLL_S = 0.01
WATCH_S = 0.005
SEED = 7

Times = dict[str, float]
"""Seconds since the epoch, by container."""


@dataclass(frozen=True)
class Case:
    """One configuration."""

    name: str
    interval_ms: int
    lateness_ms: int
    n_lines: int
    gap_s: float
    """Lines come at random times, so far apart on average: they fall into every part of the poll interval."""


def main() -> dict[str, Any]:
    """Print the tables and return their figures; sizes: CLUSTERCEP_BENCH_LATENCY_LINES, ..._DEFAULT_LINES."""
    n_lines = size("LATENCY_LINES", 240)
    cases = [
        Case("1 s, 0.1 s late", 1_000, 100, n_lines, 0.2),
        Case("15 s, 5 s late (as shipped)", 15_000, 5_000, size("LATENCY_DEFAULT_LINES", 90), 2.0),
    ]
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
        results = {"follow and post alone": baseline(Path(folder) / "baseline", n_lines)}
        for number, case in enumerate(cases):
            results[case.name] = measure(Path(folder) / str(number), case)
    print_tables(results)
    return {"seed": SEED, **results}


# ------------------------------------------------------------------------- what is written and received


def container(number: int) -> str:
    """An id of YARN's form."""
    return f"container_1700000000000_0001_01_{number:06}"


def write_lines(path: Path, n_lines: int, gap_s: float) -> Times:
    """Append lines at random times; returns when each was written (its time stamp, to the millisecond)."""
    rng = random.Random(SEED)
    written: Times = {}
    next_s = time.time() + 1.0
    with path.open("a", buffering=1) as log:
        for number in range(1, n_lines + 1):
            next_s += rng.uniform(0, 2 * gap_s)
            time.sleep(max(0.0, next_s - time.time()))
            now_ms = time.time_ns() // 1_000_000
            stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            log.write(
                f"{stamp},{now_ms % 1000:03} INFO org.apache.hadoop.yarn.server.nodemanager.containermanager.container."
                f"ContainerImpl: Container {container(number)} transitioned from RUNNING to KILLING\n"
            )
            written[container(number)] = now_ms / 1000
    return written


@dataclass
class Hook:
    """When the message about each container came."""

    url: str = ""
    received: Times = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, n: int, timeout_s: float) -> None:
        """Until so many have come; raises TimeoutError."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.received) >= n, timeout_s):
                raise TimeoutError(f"{len(self.received)} of {n} messages came within {timeout_s:.0f} s")


@contextmanager
def hooked() -> Iterator[Hook]:
    """A webhook receiver on loopback."""
    hook = Hook()

    def take(_idempotency_key: str, body: Any) -> None:
        now_s = time.time()
        with hook.changed:
            for alert in body["alerts"]:
                hook.received.setdefault(alert["labels"]["container_id"], now_s)
            hook.changed.notify_all()

    with listening(take) as hook.url:
        yield hook


# ------------------------------------------------------------------------------------------- baseline


def follow_and_post(path: Path, url: str) -> None:
    """The least that can be done: read what is new every 10 ms, post each line."""
    with path.open() as log, requests.Session() as session:
        while True:
            for line in log:
                name = line.split("Container ")[1].split()[0]
                session.post(url, json={"alerts": [{"labels": {"container_id": name}}]}, timeout=5)
            time.sleep(TAIL_POLL_S)


def baseline(folder: Path, n_lines: int) -> dict[str, Any]:
    """The floor on this machine now."""
    folder.mkdir()
    path = folder / LOG_NAME
    path.touch()
    with hooked() as hook:
        process = multiprocessing.get_context("spawn").Process(target=follow_and_post, args=(path, hook.url))
        process.start()
        try:
            written = write_lines(path, n_lines, 0.05)
            hook.wait_for(n_lines, 60)
            memory_mib = resident_mib(process.pid, peak=True)
        finally:
            process.terminate()
            process.join()
    received = [hook.received[name] - at_s for name, at_s in written.items()]
    return {"n_lines": n_lines, "received_s": spread(received), "memory_mib": round(memory_mib)}


# ------------------------------------------------------------------------------------------- the process


def measure(folder: Path, case: Case) -> dict[str, Any]:
    """One run of the real process."""
    store = folder / "data"
    log_folder = folder / "logs"
    log_folder.mkdir(parents=True)
    (log_folder / LOG_NAME).touch()
    with hooked() as hook:
        port = free_port()
        config = write_configuration(folder, case, log_folder, store, hook.url, port)
        with running(config, folder / "log.json", port) as process:
            stop = threading.Event()
            stored: Times = {}
            watcher = threading.Thread(target=watch_store, args=(store / "clustercep.db", stored, stop), daemon=True)
            watcher.start()
            written = write_lines(log_folder / LOG_NAME, case.n_lines, case.gap_s)
            hook.wait_for(case.n_lines, 3 * case.interval_ms / 1000 + case.lateness_ms / 1000 + 60)
            time.sleep(4 * WATCH_S)
            stop.set()
            watcher.join()
            memory_mib = resident_mib(process.pid, peak=True)
            cpu_s = cpu_seconds(process.pid)
        polls = poll_times(folder / "log.json")
        created = created_times(store / "clustercep.db")
    return {
        "n_lines": case.n_lines,
        "interval_s": case.interval_ms / 1000,
        "lateness_s": case.lateness_ms / 1000,
        "stored_s": spread([stored[name] - at_s for name, at_s in written.items()]),
        "received_s": spread([hook.received[name] - at_s for name, at_s in written.items()]),
        "parts_s": parts(case, written, polls, created, stored, hook.received),
        "memory_mib": round(memory_mib),
        "cpu_s": round(cpu_s, 2),
    }


def write_configuration(folder: Path, case: Case, logs: Path, store: Path, url: str, port: int) -> Path:
    """One source, one query, one receiver; all else as shipped."""
    queries = folder / "queries"
    queries.mkdir()
    (queries / "container-killed.cep").write_text(QUERY)
    (queries / "RUNBOOK.md").write_text("# container-killed\n\nSee why the NodeManager killed it.\n")
    source = {
        "enabled": True,
        "directory": str(logs),
        "interval": f"{case.interval_ms} ms",
        "lateness": f"{case.lateness_ms} ms",
    }
    config = {
        "sources": {"daemon_log": source},
        "queries": {"directory": str(queries)},
        "alerting": {"receivers": {"ops": {"url": url, "send_resolved": False}}},
        "store": {"directory": str(store)},
        "web": {"port": port},
        "log": {"level": "debug", "format": "json"},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(config: Path, log: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`clustercep run`, from ready to a clean stop."""
    command = [str(Path(sys.executable).with_name("clustercep")), "run", "--config", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, env=dict(os.environ))
    try:
        wait_until_ready(process, port, log)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until /-/ready says 200; raises RuntimeError when the process ends, or takes too long."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            if requests.get(f"http://127.0.0.1:{port}/-/ready", timeout=5).ok:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"clustercep run is not ready: {log.read_text()[-2_000:]}")


def watch_store(path: Path, stored: Times, stop: threading.Event) -> None:
    """Note when another process first sees each alert; asks the file whether it changed, every 5 ms."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        version = None
        last_rowid = 0
        while not stop.is_set():
            (now,) = connection.execute("PRAGMA data_version").fetchone()
            if now != version:
                version, now_s = now, time.time()
                for rowid, name in connection.execute(NEW_ALERTS, (last_rowid,)).fetchall():
                    stored.setdefault(name, now_s)
                    last_rowid = rowid
            stop.wait(WATCH_S)
    connection.close()


def poll_times(log: Path) -> list[float]:
    """When each poll began, in order, from the process' log."""
    begun = []
    for line in log.read_text().splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        if entry.get("event") == "polled":
            begun.append(datetime.fromisoformat(entry["timestamp"]).timestamp() - entry["seconds"])
    return sorted(begun)


def created_times(path: Path) -> Times:
    """When the step of each alert began."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT json_extract(\"key\", '$.container_id'), created_ms FROM alerts").fetchall()
    finally:
        connection.close()
    return {name: created_ms / 1000 for name, created_ms in rows}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ------------------------------------------------------------------------------------------- figures


def parts(
    case: Case, written: Times, polls: list[float], created: Times, stored: Times, received: Times
) -> dict[str, dict[str, float]]:
    """Where the time goes, line by line; the parts of a line add up to its time to the webhook."""
    lateness_s = case.lateness_ms / 1000
    found: dict[str, list[float]] = {name: [] for name in ("lateness", "poll", "step_start", "step", "delivery")}
    for name, at_s in written.items():
        # A watermark releases what lies before it: the poll has to be a millisecond later.
        poll_s = polls[min(bisect_left(polls, at_s + lateness_s + 0.001), len(polls) - 1)]
        found["lateness"].append(lateness_s)
        found["poll"].append(poll_s - at_s - lateness_s)
        found["step_start"].append(created[name] - poll_s)
        found["step"].append(stored[name] - created[name])
        found["delivery"].append(received[name] - stored[name])
    return {part: spread(seconds) for part, seconds in found.items()}


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 99 %, maximum."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    figures = {"median": statistics.median(seconds), "p99": cuts[98], "max": max(seconds)}
    return {name: round(value, 4) for name, value in figures.items()}


def print_tables(results: dict[str, dict[str, Any]]) -> None:
    """Latencies, and what they are made of."""
    rows = []
    for name, found in results.items():
        for what in ("stored", "received"):
            if f"{what}_s" in found:
                rows.append([name, what, found["n_lines"], *_texts(found[f"{what}_s"]), found["memory_mib"]])
    show("seconds from a line written", ("", "until", "lines", "median", "99 %", "max", "MiB"), rows)
    meanings = {
        "lateness": "waiting for later lines (lateness)",
        "poll": "waiting for a poll (interval)",
        "step_start": "reading, until the step begins",
        "step": "matching, checkpoint and store",
        "delivery": "webhook",
    }
    for name, found in results.items():
        if "parts_s" in found:
            part_rows = [[meanings[part], *_texts(figures)] for part, figures in found["parts_s"].items()]
            show(f"seconds of each part at {name}", ("part", "median", "99 %", "max"), part_rows)


def _texts(figures: dict[str, float]) -> list[str]:
    return [f"{value:.3f}" for value in figures.values()]
