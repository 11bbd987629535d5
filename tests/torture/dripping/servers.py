"""Servers that drip, flood or fall silent, before those who poll them: what the others tell is there."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from collectors.base import Collected, SourceUnavailableError
from collectors.ganglia.gmond import GmondCollector, GmondOptions
from collectors.ganglia.gmond_link import Ask
from collectors.jmx.jmx import JmxCollector, JmxOptions
from collectors.network.http import HttpOptions, HttpTransport
from collectors.prometheus.prometheus import HTTP as SCRAPE_HTTP
from collectors.prometheus.prometheus import PrometheusCollector, PrometheusOptions
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from collectors.rest.yarn_timeline import YarnTimelineCollector, YarnTimelineOptions
from tests.collectors import rest_server as rest
from tests.collectors.ganglia import reports
from tests.collectors.jmx.daemons import T0, Daemon, recorded
from tests.collectors.prometheus.exporters import recorded as recorded_exporter
from tests.collectors.rest import timeline_server
from tests.collectors.rest.test_turns import EVENTS, cluster, told
from tests.slow_servers import Behaviour, requested_path, serving
from tests.torture.dripping.tally import LIMIT_S, MASTER_S, POLL_S, Tally, Tls

MOST_POLLS = 2
"""By then what the others tell is there. Tests give it more: a busy machine may be too slow for what is well, too."""
SLOW = [f"application_1700000000000_{number:04}" for number in (1, 2, 3)]


def document(tally: Tally, name: str, behaviour: Behaviour, tls: Tls | None, handshake: bool = False) -> None:
    """One document of such a server."""
    context, ca_file = (None, True) if tls is None else (None if handshake else tls[0], str(tls[1]))
    with serving(behaviour, context) as served:
        url = served.replace("http:", "https:") if handshake else served
        options = HttpOptions(total_timeout_s=LIMIT_S, verify_tls=ca_file, max_answer_bytes=1 << 20)
        with tally.timed("REST document", name, LIMIT_S), suppress(SourceUnavailableError):
            HttpTransport((url,), options).get(url, "/x", 0)


def poll(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Polls of a cluster in which some ApplicationMasters are such servers: what the others tell is there."""
    script = cluster(*SLOW)

    def serve(connection: socket.socket) -> None:
        path = requested_path(connection)
        if any(application in path for application in SLOW):
            behaviour(connection)
            return
        connection.recv(65_536)
        answered = script.get("", path, 0)
        head = f"HTTP/1.1 {answered.status} X\r\nConnection: close\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(answered.body)}\r\n\r\n".encode() + answered.body)

    with serving(serve) as url:
        http = HttpOptions(total_timeout_s=LIMIT_S, max_answer_bytes=1 << 20)
        options = YarnRestOptions(
            (url,), url, master_timeout_ms=round(1000 * MASTER_S), poll_timeout_ms=round(1000 * POLL_S), http=http
        )
        yarn = YarnRestCollector(options, HttpTransport((url,), http))
        polls: list[Collected] = []
        for number in range(MOST_POLLS):
            if number >= 2 and told(*polls) == EVENTS:
                break
            with tally.timed("REST poll", name, POLL_S), suppress(SourceUnavailableError):
                polls.append(yarn.poll(rest.NOW_MS + 5_000 * number))
    if told(*polls) != EVENTS:
        tally.failures.append(f"masters that {name}: the others have told {told(*polls).keys() ^ EVENTS.keys()}")


def timeline(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Polls of a timeline server that is so about the containers of one application: the others are told meanwhile."""
    script = timeline_server.Timeline()

    def serve(connection: socket.socket) -> None:
        asked = requested_path(connection)
        if f"{timeline_server.KILLED}/" in asked:
            behaviour(connection)
            return
        connection.recv(65_536)
        answered = script.get("", asked, 0)
        head = f"HTTP/1.1 {answered.status} X\r\nConnection: close\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(answered.body)}\r\n\r\n".encode() + answered.body)

    with serving(serve) as url:
        http = HttpOptions(total_timeout_s=LIMIT_S, max_answer_bytes=1 << 20, n_attempts=1)
        options = YarnTimelineOptions(url, lookback_ms=3_600_000, poll_timeout_ms=round(1000 * POLL_S), http=http)
        yarn, told = YarnTimelineCollector(options), set[str | None]()
        expected = {app["appId"] for app in script.apps}
        for number in range(max(3, MOST_POLLS)):
            if number >= 3 and told | {timeline_server.KILLED} == expected:
                break
            with tally.timed("timeline poll", name, POLL_S), suppress(SourceUnavailableError):
                polled = yarn.poll(timeline_server.AFTER_MS + 30_000 * number)
                told |= set(polled.events.strings("application_id").to_pylist()) if len(polled.events) else set()
    if told | {timeline_server.KILLED} != expected:
        tally.failures.append(f"a timeline server that {name}: {len(told)} of {len(expected)} applications are told")


def daemons(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Polls of daemons over JMX, one of them such a server: what the other tells is there."""
    well = Daemon(recorded("DataNode"))

    def serve(connection: socket.socket) -> None:
        asked = requested_path(connection)
        connection.recv(65_536)
        body = well.get("", asked, 0).body
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    with serving(behaviour) as slow, serving(serve) as url:
        http = HttpOptions(total_timeout_s=LIMIT_S, max_answer_bytes=1 << 20, n_attempts=1, max_redirects=0)
        options = JmxOptions(
            {"DataNode": (url,), "NameNode": (slow,)},
            daemon_timeout_ms=round(1000 * MASTER_S),
            poll_timeout_ms=round(1000 * POLL_S),
            n_workers=1,
            http=http,
        )
        jmx = JmxCollector(options)

        def polled(number: int) -> Collected:
            with tally.timed("JMX poll", name, POLL_S):
                return jmx.poll(T0 + 30_000 * number)

        _told_twice(tally, f"a daemon that {name}", "DataNodeSample", polled)


def scrapes(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Polls of exporters, one of them such a server, and so is who lists more: what the other tells is there."""
    body = recorded_exporter(1).encode()

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        head = (
            f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)

    with serving(behaviour) as slow, serving(serve) as url:
        options = PrometheusOptions(
            (url, slow),
            servers=(f"{slow}/targets",),
            target_timeout_ms=round(1000 * MASTER_S),
            poll_timeout_ms=round(1000 * POLL_S),
            n_workers=1,
            http=replace(SCRAPE_HTTP, total_timeout_s=LIMIT_S, max_answer_bytes=1 << 20, n_attempts=1),
        )
        exporters = PrometheusCollector(options)

        def polled(number: int) -> Collected:
            with tally.timed("scrape", name, LIMIT_S + POLL_S):  # the first one waits for the lists
                return exporters.poll(T0 + 30_000 * number)

        _told_twice(tally, f"an exporter that {name}", "Metric", polled)


def ganglia(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Polls of gmonds, one of them such a server: what the other tells is there."""
    with serving(behaviour) as slow, reports.listening(lambda link: link.sendall(reports.recorded("gmetad"))) as well:
        options = GmondOptions(
            (f"{slow.removeprefix('http://')}/asked", well),
            reports.METRICS,
            answer_timeout_ms=round(1000 * MASTER_S),
            poll_timeout_ms=round(1000 * POLL_S),
            n_workers=1,
        )
        gmond = GmondCollector(options, Ask(silence_s=MASTER_S, max_bytes=1 << 20))

        def polled(number: int) -> Collected:
            with tally.timed("Ganglia poll", name, POLL_S):
                return gmond.poll(T0 + 60_000 * number)

        _told_twice(tally, f"a gmond that {name}", "Metric", polled)


def _told_twice(tally: Tally, what: str, event_type: str, polled: Callable[[int], Collected]) -> None:
    """Two polls, of MOST_POLLS at most, have to bring events of the other: the second knows who answers."""
    n_told = 0
    for number in range(MOST_POLLS):
        with suppress(SourceUnavailableError):
            n_told += event_type in polled(number).events.strings("type").to_pylist()
        if n_told == 2:
            return
    tally.failures.append(f"{what}: {n_told} of {MOST_POLLS} polls have something of the other; expected 2")
