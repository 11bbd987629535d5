"""Every kind of receiver, against a service that answers 429, 5xx and redirects, hangs, or closes, and then is well.

What is told is that alerts fire, each by itself or in groups, by the real outbox, dispatcher and courier on an injected
clock, over real connections. Nothing is given up but what is answered with a redirect, which is followed by nobody;
what was refused is told when the service is well.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedReader
from itertools import product
from pathlib import Path
from typing import Any

from app.alerting.delivery import Courier, endpoint_of
from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.settings import RouteSettings
from app.alerting.dispatch.telling import Telling
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.settings import Alerting, Receiver
from app.store import Store, open_store
from tests.app.alerting.receivers.told import SETTINGS
from tests.app.alerting_fixtures import FakeMatch, kept, options
from tests.slow_servers import serving, wait_for_hang_up

T0_MS = 1_700_000_000_000
N_TOLD, N_REFUSALS = 2, 2
TIMEOUT_S, WELL_S = 0.5, 60.0
"""Of an attempt at a service that never comes to an end, and at one that answers whatever it is."""
ENDLESS = ("hangs", "drips")
APPRISE_S = 15.0
"""The same of one whose process has to begin."""
MOST_ROUNDS = 40
HARMS = ("429", "500", "503", "redirect", "hangs", "closes", "drips")
KINDS = tuple(SETTINGS)


@dataclass
class Peer:
    """A service of any kind: HTTP, or SMTP for `is_smtp`."""

    harm: str | None
    is_smtp: bool = False
    elsewhere: str = ""
    """Where a redirect leads."""
    n_requested: int = 0
    taken: list[bytes] = field(default_factory=list)
    """Bodies, and mails."""

    def serve(self, connection: socket.socket) -> None:
        """One connection."""
        self.n_requested += 1
        connection.settimeout(WELL_S)
        if self.harm == "closes":
            return
        if self.harm == "hangs":
            wait_for_hang_up(connection)
        elif self.is_smtp:
            self._mail(connection)
        else:
            self._http(connection)

    def _http(self, connection: socket.socket) -> None:
        body = _request(connection)
        status, more = {
            None: ("200 OK", ""),
            "429": ("429 Slow Down", "Retry-After: 2\r\n"),
            "500": ("500 Broken", ""),
            "503": ("503 Later", "Retry-After: 1\r\n"),
            "redirect": ("307 Elsewhere", f"Location: {self.elsewhere}/taken\r\n"),
            "drips": ("200 OK", ""),
        }[self.harm]
        if self.harm == "drips":
            _drip(connection, b"HTTP/1.1 200 ")
            return
        self._take(body)
        connection.sendall(f"HTTP/1.1 {status}\r\n{more}Connection: close\r\nContent-Length: 2\r\n\r\nok".encode())

    def _mail(self, connection: socket.socket) -> None:
        # A mail has no redirects; what 4xx is to HTTP is 5xx there, so all that is wrong is for now.
        if self.harm == "drips":
            _drip(connection, b"220-")
            return
        greeting = {"429": "421 too many connections", "503": "421 later"}.get(self.harm or "", "220 ready")
        connection.sendall(f"{greeting}\r\n".encode())
        lines = connection.makefile("rb")
        while line := lines.readline():
            word = line[:4].upper()
            answer = {b"DATA": "354 go on", b"QUIT": "221 bye"}.get(word, "250 fine")
            if self.harm in ("500", "redirect") and word == b"MAIL":
                answer = "451 not now"
            connection.sendall(f"{answer}\r\n".encode())
            if answer.startswith("354"):
                mail = b"".join(iter(partial(_line, lines), b".\r\n"))
                self._take(mail)
                connection.sendall(b"250 taken\r\n")

    def _take(self, body: bytes) -> None:
        if self.harm is None:
            self.taken.append(body)


def _line(lines: BufferedReader) -> bytes:
    """Of a mail; raises ConnectionAbortedError when the client hangs up within."""
    if not (line := lines.readline()):
        raise ConnectionAbortedError("the client has hung up within a mail")
    return line


def _drip(connection: socket.socket, start: bytes) -> None:
    connection.sendall(start)
    connection.settimeout(0.05)
    while True:
        with suppress(TimeoutError):
            if not connection.recv(65_536):
                return
        connection.sendall(b"x")


def _request(connection: socket.socket) -> bytes:
    """Of an HTTP request its body; raises ConnectionAbortedError when the client hangs up before, as one may whose time
    is over, or that is killed."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            raise ConnectionAbortedError("the client has hung up before it asked")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    n_bytes = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    while len(body) < n_bytes:
        part = connection.recv(65_536)
        if not part:
            raise ConnectionAbortedError("the client has hung up within what it sends")
        body += part
    return body


@dataclass(frozen=True)
class Seen:
    """What came of one kind and one harm."""

    kind: str
    harm: str
    n_messages: int
    n_refused: int
    """Attempts while it was not well."""
    n_taken: int
    """Messages that it has in the end, each counted once."""
    n_given_up: int
    n_waiting: int
    n_followed: int
    """Requests at where redirects lead to."""
    routed: bool = False

    def failures(self) -> list[str]:
        """Which rules do not hold."""
        what = f"{self.kind}, a service that {self.harm}{', told of groups' if self.routed else ''}"
        is_refused = self.harm == "redirect" and self.kind not in ("email", "apprise")
        told, given_up = (0, N_TOLD) if is_refused else (N_TOLD, 0)
        found = []
        if self.n_followed:
            found.append(f"{what}: {self.n_followed} requests came to where it leads; expected none")
        if self.n_refused < (1 if is_refused else N_REFUSALS):
            found.append(f"{what}: asked {self.n_refused} times; expected {N_REFUSALS} at least")
        if self.n_given_up != given_up:
            found.append(f"{what}: {self.n_given_up} messages given up; expected {given_up}")
        if self.n_waiting or self.n_taken < told:
            found.append(f"{what}: {self.n_taken} told, {self.n_waiting} wait; expected {told} at least, and none")
        return found


def tried_kind(kind: str, harm: str, folder: Path, *, routed: bool = False) -> Seen:
    """One kind, one harm; `routed`: alerts are told in groups."""
    clock, peer = SetClock(T0_MS), Peer(harm, is_smtp=kind == "email")
    trap = Peer(None)
    folder.mkdir(parents=True)
    with (
        serving(trap.serve) as peer.elsewhere,
        serving(peer.serve) as url,
        open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store,
    ):
        for name, seconds in (("not well", TIMEOUT_S if harm in ENDLESS else WELL_S), ("well", WELL_S)):
            known = receiver_at(kind, url, APPRISE_S if kind == "apprise" else seconds)
            if name == "not well":
                fire(store, known, routed=routed)
            else:
                peer.harm = None
            courier = Courier(store, endpoint_of("ops", known, ""), clock, draw=lambda: 0.0)
            for _ in range(MOST_ROUNDS):
                courier.deliver_pending()
                wait_ms = courier.wait_ms()
                if wait_ms is None or (peer.harm is not None and peer.n_requested >= N_REFUSALS):
                    break
                clock.advance_to(clock.now_ms() + wait_ms)
            if name == "not well":
                n_refused = peer.n_requested
        messages = store.notifications()
    return Seen(
        kind, harm, len(messages), n_refused, len(set(peer.taken)),
        sum(n.status == "failed" for n in messages), sum(n.status == "pending" for n in messages),
        trap.n_requested, routed,
    )  # fmt: skip


def receiver_at(kind: str, url: str, timeout_s: float) -> Receiver:
    """One of this kind there."""
    place = url.removeprefix("http://")
    given: dict[str, Any] = {"email": {"smarthost": place}, "apprise": {"url": f"gotify://{place}/token"}}.get(
        kind, {"url": url}
    )
    retries = {"first_retry": "1 s", "max_retry": "10 s", "timeout": f"{timeout_s} s"}
    read = Alerting.model_validate({"receivers": {"ops": {**SETTINGS[kind], **given, **retries}}})
    return read.receivers["ops"]


def fire(store: Store, known: Receiver, *, routed: bool = False) -> None:
    """N_TOLD messages of alerts for this receiver; `routed`: each of a group of two."""
    hosts = [f"n{n}" for n in range(N_TOLD)]
    keys = [(("host", host), ("task_id", f"t{n}")) for host in hosts for n in range(2 if routed else 1)]
    matches = [FakeMatch(T0_MS - 9, T0_MS - 8, key=key) for key in keys]
    route = RouteSettings.model_validate({"receiver": "ops", "group_by": ["host"], "group_wait": "0s"})
    routing = Routing.of(Alerting(receivers={"ops": known}, route=route)) if routed else None
    with store.transaction() as writer:
        Recorder(replace(options(ops=known), routing=routing), writer, kept, T0_MS).live(matches, 0)
    Dispatcher(store, Telling(routing, {"ops": known}), SetClock(T0_MS)).dispatch_due()


def all_kinds(folder: Path, is_over: Callable[[], bool] = lambda: False) -> Iterator[Seen]:
    """Each kind with each harm, alert by alert and in groups."""
    for kind, harm, routed in product(KINDS, HARMS, (False, True)):
        if is_over():
            return
        yield tried_kind(kind, harm, folder / f"{kind}-{harm}-{routed}", routed=routed)


__all__ = ["HARMS", "KINDS", "Peer", "Seen", "all_kinds", "fire", "receiver_at", "tried_kind"]
