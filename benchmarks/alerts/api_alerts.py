"""`clustercep api` over many alerts that fire: how long GET /api/v2/alerts takes, and what detection notices of it.

    CLUSTERCEP_BENCH_API=100000    alerts that are not over
    CLUSTERCEP_BENCH_ROUNDS=30     of detection: in turn alone, beside a process that only computes, and beside a client
                                   that asks without a pause

Detection is what a step does with matches: alerts with evidence, in parts, into the same store; its processor time is
that of its process. The API and the client are processes of their own, as they are in use. Beside a process that only
computes it is dearer by what processors share (caches, clock), which is no cost of the API.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from app.alerting.recording.found import found_in
from app.alerting.recording.recorder import Recorder
from app.commands.dashboard import free_port
from app.live.unstored import Unstored
from app.store.api import Store, open_store
from benchmarks.alerts.dispatch import quiet
from benchmarks.alerts.storm import OPTIONS, START_MS, storm
from benchmarks.measure import show, size

FILTERS = {
    "one host": 'host="node7"',
    "a tenth of the hosts": 'host=~"node[0-9]*7"',
    "one task": 'task_id="task_1790000000000_0001_m_000007"',
    "none": 'host="nowhere"',
}
N_RAISED = 1_000
"""Alerts of one round of detection."""
UNCHANGED, CHANGED = "as before", "one alert more before each"
ALONE, BESIDE_COMPUTING, BESIDE_REQUESTS = "alone", "beside a process that computes", "beside requests"
CHUNK = 5_000


def main() -> dict[str, Any]:
    """Measure, print the tables, return the figures."""
    quiet()
    n_alerts, n_rounds, n_requests = size("API", 100_000), size("ROUNDS", 30), size("REQUESTS", 60)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with open_store(f"sqlite:///{folder / 'clustercep.db'}", durable=False) as store:
            for first in range(0, n_alerts, CHUNK):
                raise_alerts(store, min(CHUNK, n_alerts - first), first)
            with api(folder) as (url, pid):
                figures = {name: asked(url, pid, text, n_requests) for name, text in FILTERS.items()}
                places = count(n_alerts)
                changed = {
                    name: asked(url, pid, text, n_requests, lambda: raise_alerts(store, 1, next(places)))
                    for name, text in FILTERS.items()
                }
                rows = [
                    [name, since, *found.values()]
                    for since, of in ((UNCHANGED, figures), (CHANGED, changed))
                    for name, found in of.items()
                ]
                columns = ("matcher", "the store", "alerts", "KiB", "p50, ms", "p95, ms", "processor time, ms")
                show(f"GET /api/v2/alerts at {n_alerts:,} alerts", columns, rows)
                cost = detection(store, url, next(places), n_rounds)
    show("a step that raises alerts", ("", "processor, ms per alert", "wall, ms per alert"), cost["rows"])
    print(
        f"processor time beside requests: {cost['more_percent']:+.1f} % of alone, "
        f"{cost['more_than_computing_percent']:+.1f} % of beside a process that computes; "
        f"{cost['n_requests']} requests meanwhile"
    )
    requests = {UNCHANGED: figures, CHANGED: changed}
    return {"n_alerts": n_alerts, "load": os.getloadavg(), "requests": requests, "detection": cost}


def raise_alerts(store: Store, n_alerts: int, first: int) -> tuple[float, float]:
    """As a step does; returns (processor, wall) milliseconds per alert."""
    given = storm(n_alerts, 2, first)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    rest = Unstored(START_MS, found_in(given.matches, OPTIONS.queries))
    while not rest.is_stored:
        with store.transaction() as writer:
            rest.store_part(Recorder(OPTIONS, writer, given.recent.lookup, START_MS, rest.effort))
    per_alert = 1e3 / n_alerts
    return (time.process_time() - cpu_s) * per_alert, (time.perf_counter() - wall_s) * per_alert


@contextmanager
def api(folder: Path) -> Iterator[tuple[str, int]]:
    """`clustercep api` over the store of the folder: its address, and the number of its process."""
    config, port = folder / "config.yaml", free_port("127.0.0.1")
    url = f"sqlite:///{folder / 'clustercep.db'}"
    route = {"receiver": "ops", "group_by": ["alertname"]}
    alerting = {"receivers": {"ops": {"url": "http://127.0.0.1:9/hook"}}, "route": route}
    config.write_text(json.dumps({"store": {"directory": str(folder)}, "alerting": alerting}))
    words = [sys.executable, "-m", "app.cli", "api", "-c", str(config), "--port", str(port)]
    environment = {**os.environ, "CLUSTERCEP__STORE__URL": url}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            until_s = time.monotonic() + 300
            while not _is_ready(f"http://127.0.0.1:{port}"):
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError("clustercep api does not answer")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def asked(
    url: str, pid: int, text: str, n_requests: int, before: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """So many answers to one filter, after one that is not counted; `before` each something is done."""
    body = _get(url, text)
    seconds = []
    cpu_s = _processor_s(pid)
    for _ in range(n_requests):
        before()
        began_s = time.perf_counter()
        body = _get(url, text)
        seconds.append(time.perf_counter() - began_s)
    cpu_s = _processor_s(pid) - cpu_s
    return {
        "n_found": len(json.loads(body)),
        "kib": len(body) / 1024,
        "p50_ms": 1e3 * statistics.median(seconds),
        "p95_ms": 1e3 * statistics.quantiles(seconds, n=20, method="inclusive")[18],
        "processor_ms": 1e3 * cpu_s / n_requests,
    }


def _get(url: str, text: str) -> bytes:
    with urllib.request.urlopen(f"{url}/api/v2/alerts?filter={quote(text)}", timeout=120) as answer:
        return bytes(answer.read())


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def detection(store: Store, url: str, first: int, n_rounds: int) -> dict[str, Any]:
    """Rounds of each way in turn, of which the medians are compared."""
    ways = {ALONE: None, BESIDE_COMPUTING: "", BESIDE_REQUESTS: url}
    cost: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    n_requests = 0
    for number in range(n_rounds + len(ways)):
        name, asks = list(ways.items())[number % len(ways)]
        other = None if asks is None else _other(asks)
        took = raise_alerts(store, N_RAISED, first + number * N_RAISED)
        n_done = 0 if other is None else int(other.communicate("")[0].splitlines()[-1])
        if number >= len(ways):  # the first of each is not counted
            cost[name].append(took)
            n_requests += n_done if asks else 0
    rows = [[name, *(statistics.median(values) for values in zip(*cost[name], strict=True))] for name in ways]
    cpu = {name: float(cpu) for name, cpu, _ in rows}
    return {
        "rows": rows,
        "more_percent": 100 * (cpu[BESIDE_REQUESTS] / cpu[ALONE] - 1),
        "more_than_computing_percent": 100 * (cpu[BESIDE_REQUESTS] / cpu[BESIDE_COMPUTING] - 1),
        "n_requests": n_requests,
    }


def _other(url: str) -> subprocess.Popen[str]:
    """A process that asks without a pause, or computes where there is no address, until its standard input ends, and
    tells how often it did."""
    words = [sys.executable, "-m", "benchmarks.alerts.api_alerts", url]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    other.stdout.readline()  # it has begun
    return other


def go_on(url: str) -> None:
    """What that process does."""
    n_done = 0
    print("begun", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        if url:
            _get(url, FILTERS["one host"])
        else:
            sum(range(100_000))
        n_done += 1
    print(n_done, flush=True)


if __name__ == "__main__":
    go_on(sys.argv[1])
