"""Servers, clients and writers that never come to an end: every attempt keeps its limit, and nobody else waits for it.

Servers drip, flood or fall silent (`tests.slow_servers`), plain and over TLS, towards a document of the REST source, a
poll of it in which other masters are well, a poll of a timeline server, a poll of daemons over JMX, one of exporters
and of who lists them, of gmonds, and a webhook beside a receiver that is well. Clients do so towards the endpoints,
whose health, metrics and reload go on being answered, towards Alertmanager's API, plain and over TLS, which goes on
answering and making silences, and towards the receiver of remote write, which goes on taking samples. Files come byte
by byte, or as a line without end, beside others; packets without end, beside those of a gmond that is well.
"""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.alerting.delivery import DeliveryError, Endpoint, endpoint_of, send
from app.alerting.links import Links
from app.alerting.notifier import Notifier
from app.alerting.receivers.sample import sample_news
from app.alerting.receivers.service import Message
from app.alertmanager.api import LIMITS
from app.clock import SystemClock
from app.process.serving.web import Limits
from app.process.serving.write_receiver import PATH as WRITE_PATH
from app.settings import Receiver
from app.store import open_store
from collectors.base import Collected, SourceUnavailableError
from collectors.ganglia.gmond import GmondCollector, GmondOptions
from collectors.ganglia.gmond_link import Ask
from collectors.jmx.jmx import JmxCollector, JmxOptions
from collectors.network import http_attempt
from collectors.network.http import HttpOptions, HttpTransport
from collectors.prometheus.prometheus import HTTP as SCRAPE_HTTP
from collectors.prometheus.prometheus import PrometheusCollector, PrometheusOptions
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from collectors.rest.yarn_timeline import YarnTimelineCollector, YarnTimelineOptions
from tests.app.alerting.receivers.told import SETTINGS, service
from tests.app.alerting.test_delivery import fill_outbox
from tests.app.alerting_fixtures import FakeMatch, receiver
from tests.app.alertmanager.served import TOKEN, fire, served, slow
from tests.app.alertmanager.test_silences import body as silence_body
from tests.app.process.serving.test_web import Site, site
from tests.app.process.serving.test_write_receiver import running as receiving
from tests.app.webhook import webhook
from tests.collectors import rest_server as rest
from tests.collectors.ganglia import reports
from tests.collectors.jmx.daemons import T0, Daemon, recorded
from tests.collectors.prometheus.exporters import recorded as recorded_exporter
from tests.collectors.prometheus.writes import request, series
from tests.collectors.rest import timeline_server
from tests.collectors.rest.test_turns import EVENTS, cluster, told
from tests.slow_servers import BODIES, FLOODS, HANDSHAKES, HEADS, Behaviour, certificate, serving
from tests.torture.campaign import Given, Verdict
from tests.torture.campaigns import poison
from tests.torture.inputs import packets
from tests.torture.processes import pages

LIMIT_S = 0.5
"""Of an attempt at a document, and of one to tell a receiver."""
SLACK_S = 2.0
"""For a machine that has other things to do."""
MASTER_S, POLL_S = 1.0, 3.0
N_MESSAGES = 20
N_DRIPS = 8
WRITTEN = (
    "container logs", "daemon logs", "HDFS audit logs", "job client logs", "Spark event logs", "job history", "RRDs",
)  # fmt: skip
"""Files that somebody writes while they are followed; kinds of the campaign `poison`."""
N_CLIENTS = 300
ANSWER_S = 5.0
"""Within which endpoints have to answer beside so many."""

SLOW = [f"application_1700000000000_{number:04}" for number in (1, 2, 3)]

RELOAD = ("POST", "/-/reload")

WAYS = HEADS | BODIES | FLOODS
"""Of servers, after the handshake."""

Tls = tuple[ssl.SSLContext, Path]


@dataclass
class Tally:
    """What was tried, and the longest of each kind."""

    n_attempts: int = 0
    longest_s: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, kind: str, name: str, limit_s: float) -> Iterator[None]:
        """What is done inside has to end within its limit."""
        started_s = time.monotonic()
        yield
        took_s = time.monotonic() - started_s
        self.n_attempts += 1
        self.longest_s[kind] = max(self.longest_s.get(kind, 0.0), took_s)
        if took_s > limit_s + SLACK_S:
            self.failures.append(f"{kind}, a server that {name}: {took_s:.1f} s, its limit is {limit_s:g} s")


def document(tally: Tally, name: str, behaviour: Behaviour, tls: Tls | None, handshake: bool = False) -> None:
    """One document of such a server."""
    context, ca_file = (None, True) if tls is None else (None if handshake else tls[0], str(tls[1]))
    with serving(behaviour, context) as served:
        url = served.replace("http:", "https:") if handshake else served
        options = HttpOptions(total_timeout_s=LIMIT_S, verify_tls=ca_file, max_answer_bytes=1 << 20)
        with tally.timed("REST document", name, LIMIT_S), suppress(SourceUnavailableError):
            HttpTransport((url,), options).get(url, "/x", 0)


def message(tally: Tally, name: str, behaviour: Behaviour, tls: Tls | None, handshake: bool = False) -> None:
    """One attempt to tell such a receiver."""
    context, ca_file = (None, None) if tls is None else (None if handshake else tls[0], tls[1])
    with serving(behaviour, context) as served:
        url = served.replace("http:", "https:") if handshake else served
        with tally.timed("webhook", name, LIMIT_S), suppress(Exception):
            http_attempt.post(url, b"{}", {}, LIMIT_S, ca_file)


def poll(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Two polls of a cluster in which some ApplicationMasters are such servers: what the others tell is there."""
    script = cluster(*SLOW)

    def serve(connection: socket.socket) -> None:
        path = connection.recv(65_536, socket.MSG_PEEK).split(b" ")[1].decode()
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
        polls = []
        for number in range(2):
            with tally.timed("REST poll", name, POLL_S):
                polls.append(yarn.poll(rest.NOW_MS + 5_000 * number))
    if told(*polls) != EVENTS:
        tally.failures.append(f"masters that {name}: the others have told {told(*polls).keys() ^ EVENTS.keys()}")


def timeline(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Polls of a timeline server that is so about the containers of one application: the others are told meanwhile."""
    script = timeline_server.Timeline()

    def serve(connection: socket.socket) -> None:
        asked = connection.recv(65_536, socket.MSG_PEEK).split(b" ")[1].decode()
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
        for number in range(3):
            with tally.timed("timeline poll", name, POLL_S):
                polled = yarn.poll(timeline_server.AFTER_MS + 30_000 * number)
            told |= set(polled.events.strings("application_id").to_pylist()) if len(polled.events) else set()
    expected = {app["appId"] for app in script.apps}
    if told | {timeline_server.KILLED} != expected:
        tally.failures.append(f"a timeline server that {name}: {len(told)} of {len(expected)} applications are told")


def daemons(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Two polls of daemons over JMX, one of them such a server: what the other tells is there."""
    well = Daemon(recorded("DataNode"))

    def serve(connection: socket.socket) -> None:
        asked = connection.recv(65_536).split(b" ")[1].decode()
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
        for number in range(2):
            with tally.timed("JMX poll", name, POLL_S):
                polled = jmx.poll(T0 + 30_000 * number)
            if "DataNodeSample" not in polled.events.strings("type").to_pylist():
                tally.failures.append(f"a daemon that {name}: poll {number} has nothing of the other")


def scrapes(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Two polls of exporters, one of them such a server, and so is who lists more: what the other tells is there."""
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
        for number in range(2):
            with tally.timed("scrape", name, LIMIT_S + POLL_S):  # the first one waits for the lists
                polled = exporters.poll(T0 + 30_000 * number)
            if "Metric" not in polled.events.strings("type").to_pylist():
                tally.failures.append(f"an exporter that {name}: poll {number} has nothing of the other")


def ganglia(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """Two polls of gmonds, one of them such a server: what the other tells is there."""
    with serving(behaviour) as slow, reports.listening(lambda link: link.sendall(reports.recorded("gmetad"))) as well:
        options = GmondOptions(
            (f"{slow.removeprefix('http://')}/asked", well),
            reports.METRICS,
            answer_timeout_ms=round(1000 * MASTER_S),
            poll_timeout_ms=round(1000 * POLL_S),
            n_workers=1,
        )
        gmond = GmondCollector(options, Ask(silence_s=MASTER_S, max_bytes=1 << 20))
        for number in range(2):
            with tally.timed("Ganglia poll", name, POLL_S):
                polled = gmond.poll(T0 + 60_000 * number)
            if "Metric" not in polled.events.strings("type").to_pylist():
                tally.failures.append(f"a gmond that {name}: poll {number} has nothing of the other")


def writers(tally: Tally, name: str, chosen: random.Random, folder: Path) -> None:
    """Polls of files of a kind, one of which comes byte by byte and one of which is a line without end.

    What the third tells is what it tells alone.
    """
    kind = poison.KINDS[name]
    right = kind.right(chosen)

    def put(root: Path, file: int, data: bytes) -> None:
        path = root.joinpath(*kind.place(file))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as growing:
            growing.write(data)

    alone, beside = folder / "alone", folder / "beside"
    for root in (alone, beside):
        put(root, 0, right)
    expected, found = set[str](), set[str]()
    by_itself, reader = kind.reader(alone), kind.reader(beside)
    end = chosen.randrange(len(right))
    for number in range(N_DRIPS):
        now_ms = poison.NOW_MS + 1_000 * number
        put(beside, 1, right[end : end + 1] if number else right[:end])
        end += 1
        put(beside, 2, right[:20] + b"x" * (1 << 20) if number == 0 else b"x" * (1 << 20))
        expected |= _ids(by_itself.poll(now_ms))
        with tally.timed(f"poll of {name}", "is written byte by byte", POLL_S):
            polled = reader.poll(now_ms)
        found |= _ids(polled)
    if not expected or expected - found:
        tally.failures.append(
            f"{name} beside a file that drips: {len(expected - found)} of {len(expected)} are missing"
        )


def _ids(polled: Collected) -> set[str]:
    batches = [polled.events, *(history.events for history in polled.finished)]
    return {str(found) for batch in batches if len(batch) for found in batch.strings("event_id").to_pylist()}


def receivers(tally: Tally, name: str, behaviour: Behaviour, folder: Path) -> None:
    """Messages for such a receiver and for one that is well: the latter has them at once."""

    def post(endpoint: Endpoint, message: Message, idempotency_key: str) -> None:
        if endpoint.name == "good":
            send(endpoint, message, idempotency_key)
            return
        with tally.timed("webhook", name, LIMIT_S):
            try:
                send(endpoint, message, idempotency_key)
            except DeliveryError as error:
                failed.append(error)
        if failed:
            raise failed[-1]

    failed: list[DeliveryError] = []
    with ExitStack() as opened:
        url = opened.enter_context(serving(behaviour))
        hook = opened.enter_context(webhook())
        store = opened.enter_context(open_store(f"sqlite:///{folder / 'store.db'}", durable=False))
        known = {"slow": receiver(url=url, timeout=f"{LIMIT_S} s"), "good": receiver(url=hook.url)}
        fill_outbox(store, [FakeMatch(n, n + 1, key=(("task_id", f"t{n}"),)) for n in range(N_MESSAGES)], 0, **known)
        notifier = Notifier(store, _endpoints(known), SystemClock(), post=post)
        opened.callback(notifier.stop)
        notifier.start()
        with tally.timed("receiver beside", name, ANSWER_S):
            if not hook.came(N_MESSAGES, 60):
                tally.failures.append(f"beside a receiver that {name}: {len(hook.received)} of {N_MESSAGES} messages")


def services(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """One message to such a server by each kind of receiver; apprise has a start of a process beside its limit."""
    for kind in SETTINGS:
        with serving(behaviour) as url:
            place = url.removeprefix("http://")
            given = {"email": {"smarthost": place}, "apprise": {"url": f"gotify://{place}/token"}}.get(
                kind, {"url": url}
            )
            told = service(kind, **given)
            content = told.message(sample_news("ops", Links(""), 0), None)
            with tally.timed(f"receiver {kind}", name, LIMIT_S), suppress(DeliveryError):
                told.send(content, "key", LIMIT_S, ask=True)


def _endpoints(known: dict[str, Receiver]) -> dict[str, Endpoint]:
    return {name: endpoint_of(name, settings, "") for name, settings in known.items()}


def endpoints(tally: Tally, chosen: random.Random, n_clients: int) -> None:
    """Clients of all kinds before those who ask for health, metrics and a reload."""
    starts = (
        b"",
        b"GET /-/healthy HTT",
        b"GET /metrics HTTP/1.1\r\nHost: ",
        b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
    with site(Limits(request_s=600.0)) as running, _dripping(running.connect, starts, chosen, n_clients):
        for method, path in (
            ("GET", "/-/healthy"),
            ("GET", "/-/ready"),
            ("GET", "/metrics"),
            ("POST", "/-/reload"),
        ):
            for _ in range(10):
                with tally.timed(f"{method} {path}", "drips", ANSWER_S):
                    if (status := _status(running, method, path)) != 200:
                        tally.failures.append(f"{method} {path} beside {n_clients} slow clients: {status}")


def api(tally: Tally, chosen: random.Random, n_clients: int, folder: Path, tls: Tls | None) -> None:
    """Clients of all kinds before those who ask Alertmanager's API for alerts, and make silences."""
    write = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()
    starts = (
        b"",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /api/v2/alerts HTT",
        b"GET /api/v2/alerts HTTP/1.1\r\nHost: ",
        b"GET /api/v2/alerts HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/v2/silences HTTP/1.1\r\n" + write + b"Content-Length: 60000\r\n\r\n",
        b"POST /api/v2/silences HTTP/1.1\r\n" + write + b"Transfer-Encoding: chunked\r\n\r\n",
        b"POST /api/v2/silences HTTP/1.1\r\n" + write + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
    )
    files = {}
    if tls is not None:
        folder.joinpath("key.pem").chmod(0o600)
        files = {"cert_file": folder / "certificate.pem", "key_file": folder / "key.pem"}
    kind = "API" if tls is None else "API over TLS"
    limits = replace(LIMITS, request_s=600.0)
    with open_store(f"sqlite:///{folder / f'api-{tls is None}.db'}", durable=False) as store:
        fire(store, *(slow(f"t{n}", f"n{n % 5}") for n in range(500)))
        with served(store, folder, limits=limits, **files) as running:
            trusted = None if tls is None else ssl.create_default_context(cafile=str(tls[1]))

            def connect() -> socket.socket:
                return socket.create_connection(running.listener.address, ANSWER_S)

            def ask(method: str, path: str, body: bytes | None = None) -> int | str:
                try:
                    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
                    request = urllib.request.Request(f"{running.url}{path}", body, headers, method=method)
                    with urllib.request.urlopen(request, timeout=60, context=trusted) as answer:
                        answer.read()
                        return int(answer.status)
                except OSError as error:
                    return str(error)

            silence = json.dumps(silence_body()).encode()
            with _dripping(connect, starts, chosen, n_clients):
                for _ in range(10):
                    for method, path, body in (
                        ("GET", "/-/ready", None),
                        ("GET", "/api/v2/alerts", None),
                        ("GET", "/api/v2/alerts/groups?filter=host%3Dn1", None),
                        ("POST", "/api/v2/silences", silence),
                    ):
                        with tally.timed(f"{kind}: {method} {path.partition('?')[0]}", "drips", ANSWER_S):
                            if (status := ask(method, path, body)) != 200:
                                tally.failures.append(f"{kind}: {method} {path} beside {n_clients} slow ones: {status}")


def dashboard(tally: Tally, chosen: random.Random, n_clients: int, folder: Path) -> None:
    """Clients of all kinds, WebSockets among them, before those who open a page."""
    with pages.pages(folder / "pages") as port:

        def connect() -> socket.socket:
            return socket.create_connection(("127.0.0.1", port), ANSWER_S)

        with _dripping(connect, pages.STARTS, chosen, n_clients):
            for path in ("/", "/alerts", pages.HEALTH) * 4:
                with tally.timed(f"pages: GET {path}", "drips", ANSWER_S):
                    try:
                        status: int | str = pages.asked(port, path)
                    except OSError as error:
                        status = str(error)
                if status != 200:
                    tally.failures.append(f"pages: GET {path} beside {n_clients} slow clients: {status}")


def writes(tally: Tally, chosen: random.Random, n_clients: int, folder: Path, tls: Tls | None) -> None:
    """Clients of all kinds before a Prometheus that sends samples: they are taken, and kept."""
    head = f"POST {WRITE_PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()
    starts = (
        b"",
        b"\x16\x03\x01\x02\x00\x01",
        head,
        head + b"Content-Length: 4000000\r\nContent-Encoding: snappy\r\n\r\n",
        head + b"Expect: 100-continue\r\nContent-Length: 60\r\n\r\n",
        head + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
    )
    place, kind = folder / f"writes-{tls is None}", "remote write" if tls is None else "remote write over TLS"
    place.mkdir()
    files = {} if tls is None else {"cert_file": folder / "certificate.pem", "key_file": folder / "key.pem"}
    with receiving(place, **files) as running:

        def connect() -> socket.socket:
            return socket.create_connection(("127.0.0.1", running.receiver.port), ANSWER_S)

        n_taken = 0
        with _dripping(connect, starts, chosen, n_clients):
            for number in range(10):
                with tally.timed(kind, "drips", ANSWER_S):
                    answered = running.post(request(series("node_load1", float(number), T0)), verify=_trusted(tls))
                n_taken += answered.status_code == 204
        kept = [value for _, value in running.kept()]
    if n_taken != 10 or kept != [float(number) for number in range(10)]:
        tally.failures.append(f"{kind} beside {n_clients} slow clients: {n_taken} of 10 taken, kept {kept}")


def _trusted(tls: Tls | None) -> bool | str:
    return True if tls is None else str(tls[1])


@contextmanager
def _dripping(
    connect: Callable[[], socket.socket], starts: Sequence[bytes], chosen: random.Random, n_clients: int
) -> Iterator[None]:
    """So many clients that have begun, and go on byte by byte for ever."""
    with ExitStack() as opened:
        clients = []
        for _ in range(n_clients):
            client = opened.enter_context(connect())
            with suppress(OSError):
                client.sendall(chosen.choice(starts))
            clients.append(client)
        is_over = threading.Event()

        def go_on() -> None:
            while not is_over.wait(0.01):
                for client in clients:
                    with suppress(OSError):
                        client.send(b"x", socket.MSG_DONTWAIT)

        dripping = threading.Thread(target=go_on, daemon=True)
        dripping.start()
        try:
            yield
        finally:
            is_over.set()
            dripping.join()


def _status(running: Site, method: str, path: str) -> int | str:
    try:
        return running.ask(method, path).status
    except OSError as error:
        return str(error)


def run(given: Given) -> Verdict:
    """All ways towards all that asks, again until the time is over."""
    chosen, tally = random.Random(given.seed), Tally()
    tls = certificate(given.folder)
    started_s, n_rounds = time.monotonic(), 0
    while not n_rounds or time.monotonic() - started_s < 60 * given.minutes * n_rounds / (n_rounds + 1):
        n_rounds += 1
        of_api = given.folder / f"{n_rounds}-api"
        of_api.mkdir()
        own = certificate(of_api)
        work: list[Callable[[], None]] = [
            lambda: endpoints(tally, chosen, N_CLIENTS),
            lambda f=of_api: api(tally, chosen, N_CLIENTS, f, None),  # type: ignore[misc]
            lambda f=of_api, t=own: api(tally, chosen, N_CLIENTS, f, t),  # type: ignore[misc]
            lambda f=of_api: dashboard(tally, chosen, N_CLIENTS, f),  # type: ignore[misc]
            *(
                lambda n=name, f=given.folder / f"{n_rounds}-{name}": writers(tally, n, chosen, f)  # type: ignore[misc]
                for name in WRITTEN
            ),
            lambda f=of_api: writes(tally, chosen, N_CLIENTS, f, None),  # type: ignore[misc]
            lambda f=of_api, t=own: writes(tally, chosen, N_CLIENTS, f, t),  # type: ignore[misc]
            *(lambda n=name: packets.packets(tally, n, POLL_S) for name in packets.SENT),  # type: ignore[misc]
        ]
        for number, (name, behaviour) in enumerate(WAYS.items()):
            for given_tls in (None, tls):
                work.append(lambda n=name, b=behaviour, t=given_tls: document(tally, n, b, t))  # type: ignore[misc]
                work.append(lambda n=name, b=behaviour, t=given_tls: message(tally, n, b, t))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: poll(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: timeline(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: daemons(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: scrapes(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: ganglia(tally, n, b))  # type: ignore[misc]
            folder = given.folder / f"{n_rounds}-{number}"
            folder.mkdir()
            work.append(lambda n=name, b=behaviour, f=folder: receivers(tally, n, b, f))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: services(tally, n, b))  # type: ignore[misc]
        for name, behaviour in HANDSHAKES.items():
            work.append(lambda n=name, b=behaviour: document(tally, n, b, tls, True))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: message(tally, n, b, tls, True))  # type: ignore[misc]
        chosen.shuffle(work)
        for one in work:
            one()
    longest = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in sorted(tally.longest_s.items()))
    return Verdict(
        f"{tally.n_attempts} attempts at {len(WAYS) + len(HANDSHAKES)} kinds of server, {n_rounds} rounds; the "
        f"longest: {longest} (limits: {LIMIT_S:g} s for documents and webhooks, {POLL_S:g} s for a poll, "
        f"{ANSWER_S:g} s for whoever is beside; {SLACK_S:g} s of slack)",
        tuple(tally.failures[:20]),
    )
