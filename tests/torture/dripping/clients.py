"""Clients that begin and go on byte by byte, beside those who are answered meanwhile."""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from app.alertmanager.api import LIMITS
from app.process.serving.web import Limits
from app.process.serving.write_receiver import PATH as WRITE_PATH
from app.store import open_store
from tests.app.alertmanager.served import TOKEN, fire, served, slow
from tests.app.alertmanager.test_silences import body as silence_body
from tests.app.process.serving.test_web import Site, site
from tests.app.process.serving.test_write_receiver import running as receiving
from tests.collectors.jmx.daemons import T0
from tests.collectors.prometheus.writes import request, series
from tests.torture.dripping.tally import ANSWER_S, CONNECT_S, Tally, Tls
from tests.torture.processes import pages


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
                return socket.create_connection(running.listener.address, CONNECT_S)

            def ask(method: str, path: str, body: bytes | None = None) -> int | str:
                try:
                    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
                    request = urllib.request.Request(f"{running.url}{path}", body, headers, method=method)
                    with urllib.request.urlopen(request, timeout=CONNECT_S, context=trusted) as answer:
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
            return socket.create_connection(("127.0.0.1", port), CONNECT_S)

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
            return socket.create_connection(("127.0.0.1", running.receiver.port), CONNECT_S)

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
