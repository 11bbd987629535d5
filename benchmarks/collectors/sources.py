"""What polls of daemons, exporters, gmonds and timeline servers cost: per host and core here, in requests there."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.collectors import log_files
from benchmarks.measure import show
from collectors.jmx.jmx import JmxCollector, JmxOptions
from collectors.prometheus.readings import READINGS, ReadingSet
from collectors.prometheus.spool import Place, Record, SpoolReader, SpoolWriter
from collectors.prometheus.write_request import parse_write_request, unpacked
from engine.events import HEADER_NAMES
from tests.collectors.ganglia import reports
from tests.collectors.jmx.daemons import T0, URLS, Daemon, recorded
from tests.collectors.prometheus import exporters, writes
from tests.collectors.rest import timeline_server

INTERVAL_MS = 30_000
N_POLLS = 5


def main(n_daemons: int = 200) -> dict[str, Any]:
    """Print two tables and return their figures."""
    answered = {kind: measure(kind, n_daemons) for kind in URLS}
    show(
        f"JMX: {n_daemons} daemons of one kind, a poll of all; processor time of this process alone",
        ("daemon", "transport", "events/poll", "values/poll", "CPU s", "wall s", "hosts x metrics/s and core"),
        [[kind, *row] for kind, rows in answered.items() for row in rows["rows"]],
    )
    show(
        f"What a daemon is asked for at an interval of {INTERVAL_MS // 1000} s",
        ("daemon", "requests/min", "bytes of answers/min"),
        [[kind, rows["requests_per_min"], rows["bytes_per_min"]] for kind, rows in answered.items()],
    )
    scraped = [scrape(n_daemons, n_others) for n_others in (0, 1_000, 20_000)]
    show(
        f"Prometheus: a poll of {n_daemons} node_exporters of 2 processors, from memory; the whole table is chosen",
        ("samples/answer", "events/poll", "CPU s", "hosts x metrics/s and core", "MB/s", "scan MB/s"),
        scraped,
    )
    written = [write(n_chosen) for n_chosen in (0, 50, 500)]
    show(
        "Remote write: requests of 500 series of 8 labels, taken apart, kept on the disk and read again, in one thread",
        ("chosen of 500", "samples/s and core", "MB/s unpacked", "snappy alone MB/s"),
        written,
    )
    reported = [report(n_daemons, n_others) for n_others in (0, 30)]
    show(
        f"gmond: an answer of {n_daemons} hosts, 6 metrics of each chosen and reported anew, from memory",
        ("others/host", "events/poll", "CPU s", "hosts x metrics/s and core", "MB/s", "scan MB/s"),
        reported,
    )
    ended = timelines(200, 50)
    show(
        "YARN's timeline server: a poll in which 200 applications of 50 containers have ended, answers from memory",
        (
            "events/poll",
            "requests",
            "CPU s",
            "applications/s and core",
            "containers/s and core",
            "MB/s",
            "JSON alone MB/s",
        ),
        [ended],
    )
    read = log_files.main()
    show(
        "Logs of daemons, audits and Spark, read once, and plain scans of the same bytes; processor time of one core",
        ("log", "MB", "events", "MB/s", "scan for the texts, line by line MB/s", "split into lines MB/s"),
        read,
    )
    told = {"prometheus": {"rows": scraped}, "remote_write": {"rows": written}, "logs": {"rows": read}}
    told["gmond"] = {"rows": reported}
    told["yarn_timeline"] = {"rows": [ended]}
    return answered | told


def write(n_chosen: int, n_requests: int = 200) -> list[Any]:
    """Requests of which so many series are chosen."""
    metrics = {"node_load1"}
    labels = {f"label_{n}": f"value-{n}" for n in range(5)}
    names = ["node_load1" if n < n_chosen else "node_other" for n in range(500)]
    told = [writes.series(name, 0.5, T0, cpu=str(n), **labels) for n, name in enumerate(names)]
    body, data = writes.request(*told), writes.message(told)
    with tempfile.TemporaryDirectory() as folder:
        spool, cpu_s = SpoolWriter(Path(folder), 1 << 30), time.process_time()
        for _ in range(n_requests):
            found = parse_write_request(unpacked(body, 1 << 25), metrics)
            spool.append(Record(T0, "a", found.samples, found.n_others))
        SpoolReader(Path(folder)).read(Place(), 1 << 30)
        cpu_s = time.process_time() - cpu_s
    alone_s = time.process_time()
    for _ in range(n_requests):
        unpacked(body, 1 << 25)
    alone_s = time.process_time() - alone_s
    megabytes = n_requests * len(data) / 1e6
    return [n_chosen, round(n_requests * 500 / cpu_s), round(megabytes / cpu_s, 1), round(megabytes / alone_s, 1)]


def scrape(n_hosts: int, n_others: int) -> list[Any]:
    """`n_others`: samples of each answer that nobody chooses, as those of a JVM."""
    others = "".join(f'jvm_metric_{n}{{pool="p{n % 7}",area="heap"}} {n}.5\n' for n in range(n_others))
    text = exporters.recorded(1) + others
    told = {f"n{i}:9100": exporters.Exporter(text) for i in range(n_hosts)}
    collector = exporters.collector_of(told)
    collector.poll(T0)
    for exporter in told.values():
        exporter.text = exporters.recorded(2) + others
    collector.poll(T0 + 15_000)
    cpu_s, n_events = time.process_time(), 0
    for number in range(2, 2 + N_POLLS):
        n_events = len(collector.poll(T0 + number * 15_000).events)
    cpu_s = (time.process_time() - cpu_s) / N_POLLS
    body = text.encode()
    n_samples = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    megabytes = n_hosts * len(body) / 1e6
    figures = (round(cpu_s, 3), round(n_events / cpu_s), round(megabytes / cpu_s, 1))
    return [n_samples, n_events, *figures, round(_scanned(body), 1)]


def report(n_hosts: int, n_others: int) -> list[Any]:
    """`n_others`: metrics of each host that nobody chooses."""
    others = [reports.metric(f"other_{n}", n) for n in range(n_others)]

    def body_of(number: int) -> bytes:
        chosen = [reports.metric(name, number + 0.5, 3) for name in reports.METRICS]
        return reports.answer(*(reports.host(f"n{n}", *chosen, *others) for n in range(n_hosts)))

    answers = reports.Answers(g1=body_of(0))
    gmond = reports.collector_of(answers)
    gmond.poll(T0)
    cpu_s, n_events = 0.0, 0
    for number in range(1, 1 + N_POLLS):
        answers.bodies["g1:8649"] = body_of(number)
        started_s = time.process_time()
        n_events = len(gmond.poll(T0 + number * 15_000).events)
        cpu_s += (time.process_time() - started_s) / N_POLLS
    body = body_of(0).replace(b"><", b">\n<")
    figures = (round(cpu_s, 3), round(n_events / cpu_s), round(len(body) / 1e6 / cpu_s, 1))
    names = tuple(f'<METRIC NAME="{name}"' for name in reports.METRICS)
    return [n_others, n_events, *figures, round(_scanned(body, names), 1)]


def timelines(n_apps: int, n_containers: int) -> list[Any]:
    """One poll of so many applications, each with a master and so many containers like one that was recorded."""
    recorded = timeline_server.Timeline()
    app, container = recorded.app(timeline_server.GREEDY), recorded.containers(timeline_server.GREEDY)[0]
    documents: dict[str, tuple[int, Any]] = {}
    apps = [app | {"appId": f"application_1795806762812_{1_000 + n}"} for n in range(n_apps)]
    for one in apps:
        base = f"{timeline_server.APPS}/{one['appId']}/appattempts"
        attempt_id = one["appId"].replace("application", "appattempt") + "_000001"
        one["currentAppAttemptId"] = attempt_id
        listed = [container | {"containerId": f"container_1795806762812_1_01_{n:06}"} for n in range(n_containers)]
        documents[base] = 200, json.dumps({"appAttempt": [{"appAttemptId": attempt_id}]}).encode()
        documents[f"{base}/{attempt_id}/containers"] = 200, json.dumps({"container": listed}).encode()
    documents[timeline_server.APPS] = 200, json.dumps({"app": apps}).encode()
    timeline = timeline_server.Timeline(documents)
    cpu_s = time.process_time()
    polled = timeline_server.collector(timeline).poll(timeline_server.AFTER_MS)
    cpu_s = time.process_time() - cpu_s
    bodies = [body for _, body in documents.values()]
    plain_s = time.process_time()
    for body in bodies:
        json.loads(body)
    plain_s = time.process_time() - plain_s
    megabytes = sum(map(len, bodies)) / 1e6
    rates = (round(n_apps / cpu_s), round(n_apps * n_containers / cpu_s))
    return [
        len(polled.events), len(timeline.asked), round(cpu_s, 3), *rates,
        round(megabytes / cpu_s, 1), round(megabytes / plain_s, 1),
    ]  # fmt: skip


def _scanned(body: bytes, names: tuple[str, ...] = tuple(ReadingSet(list(READINGS.values())).metrics)) -> float:
    """MB/s of lines that are only split and looked at for the names that are chosen."""
    started_s = time.process_time()
    n_rounds = max(1, (8 << 20) // len(body))
    for _ in range(n_rounds):
        found = [line for line in body.decode().split("\n") if line.startswith(names)]
        assert found
    return n_rounds * len(body) / 1e6 / (time.process_time() - started_s)


def measure(kind: str, n_daemons: int) -> dict[str, Any]:
    """Over memory and over loopback."""
    rows: list[list[Any]] = []
    daemon = Daemon(recorded(kind))
    rows.append(["memory", *_polled(_collector(kind, [f"http://n{i}" for i in range(n_daemons)], daemon))])
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(kind, there), daemon=True)
    server.start()
    port = here.recv()
    urls = [f"http://127.0.0.1:{port}/n{i}" for i in range(n_daemons)]  # a connection each
    rows.append(["loopback", *_polled(_collector(kind, urls, None))])
    server.terminate()
    server.join()
    paths = list(dict.fromkeys(daemon.asked))
    n_bytes = sum(len(daemon.get("", path, 0).body) for path in paths)
    per_min = 60_000 / INTERVAL_MS
    return {"rows": rows, "requests_per_min": len(paths) * per_min, "bytes_per_min": n_bytes * per_min}


def _collector(kind: str, urls: list[str], daemon: Daemon | None) -> JmxCollector:
    options = JmxOptions({kind: urls})
    return JmxCollector(options) if daemon is None else JmxCollector(options, lambda _url, _http: daemon)


def _polled(collector: JmxCollector) -> list[Any]:
    collector.poll(T0)
    wall_s, cpu_s, n_events, n_values = time.perf_counter(), time.process_time(), 0, 0
    for number in range(1, N_POLLS + 1):
        events = collector.poll(T0 + number * INTERVAL_MS).events
        n_events = len(events)
        attributes = [name for name in events.table.column_names if name not in HEADER_NAMES]
        n_values = sum(n_events - events.table.column(name).null_count for name in attributes)
    wall_s, cpu_s = (time.perf_counter() - wall_s) / N_POLLS, (time.process_time() - cpu_s) / N_POLLS
    return [n_events, n_values, round(cpu_s, 3), round(wall_s, 3), round(n_values / cpu_s)]


def _serve(kind: str, told: Connection) -> None:
    daemon = Daemon(recorded(kind))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece

        def do_GET(self) -> None:
            body = daemon.get("", self.path, 0).body
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.send(server.server_port)
    server.serve_forever()
