"""The endpoints of the live process: health, readiness, reload and metrics, over plain HTTP on loopback.

No login stands before them, so a web page in an operator's browser must not reach them: the Host header has to name
this machine (a page may point its own name at 127.0.0.1), and a reload is refused to whatever says it is a page.
"""

from __future__ import annotations

import errno
import io
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from app.errors import AppError
from app.process.bounded_server import BoundedServer
from app.settings import Web

log = structlog.get_logger(__name__)

TEXT = "text/plain; charset=utf-8"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
RELOAD = "/-/reload"
HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[^\s:\[\]@/]+))(?::[0-9]*)?")
MAX_UNWANTED_READS = 64
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer, refusals and errors too: nobody's page has a use for them."""


class Health(Protocol):
    """What the process says about itself; neither call waits for a step."""

    def healthy(self) -> tuple[bool, str]:
        """Whether it works, and why not; a restart is the remedy."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Whether alerts would be found now, and why not."""
        ...


class Reloaded(Protocol):
    """What became of a reload."""

    @property
    def ok(self) -> bool:
        """Whether the new configuration is in use."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it is not."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing."""
        ...


@dataclass(frozen=True)
class Limits:
    """What one client may take."""

    request_s: float = 5.0
    """For the whole of a request, and then for the whole of the answer."""
    n_connections: int = 32
    n_head_bytes: int = 8_192
    n_body_bytes: int = 1_024


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: HTTPStatus
    body: bytes = b""
    kind: str = TEXT
    allow: str = ""

    @classmethod
    def text(cls, status: HTTPStatus, text: str, allow: str = "") -> Answer:
        """Lines of text."""
        return cls(status, f"{text}\n".encode(), allow=allow)


class Endpoints:
    """Answers on one address until it is stopped."""

    def __init__(
        self,
        settings: Web,
        registry: CollectorRegistry,
        health: Health,
        reload: Callable[[], Reloaded],
        *,
        limits: Limits | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._health = health
        self._reload = reload
        self._reloading = threading.Lock()
        self._limits = limits or Limits()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, once it is started: with port 0, the port that was free."""
        assert self._server is not None, "not started"
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        """Listen; raises AppError when the address cannot be used."""
        guard = RequestGuard(self._settings, self._limits, self._routes())
        self._server = _bound(self._settings, guard)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="endpoints", daemon=True
        )
        self._thread.start()
        if not ipaddress.ip_address(self.address[0]).is_loopback:
            log.warning("the endpoints need no login and are not on loopback alone", key="web.address")

    def stop(self) -> None:
        """Listen no more; requests under way are not waited for."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _routes(self) -> Mapping[str, tuple[str, Callable[[str], Answer]]]:
        """Path -> (method, answer to an Accept header)."""
        return {
            "/-/healthy": ("GET", lambda _: _state(self._health.healthy())),
            "/-/ready": ("GET", lambda _: _state(self._health.ready())),
            "/metrics": ("GET", self._metrics),
            RELOAD: ("POST", lambda _: self._do_reload()),
        }

    def _metrics(self, accept: str) -> Answer:
        encode, kind = choose_encoder(accept)
        return Answer(HTTPStatus.OK, encode(self._registry), kind)

    def _do_reload(self) -> Answer:
        if not self._reloading.acquire(blocking=False):
            return Answer.text(HTTPStatus.CONFLICT, "a reload is under way")
        try:
            outcome = self._reload()
        finally:
            self._reloading.release()
        if outcome.ok:
            return Answer.text(HTTPStatus.OK, _lines(("reloaded", *outcome.notes)))
        return Answer.text(HTTPStatus.BAD_REQUEST, _lines(outcome.problems))


def _state(state: tuple[bool, str]) -> Answer:
    good, reason = state
    return Answer.text(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, _lines((reason or "ok",)))


def _lines(texts: tuple[str, ...]) -> str:
    """One per line, whatever is in them."""
    return "\n".join(" ".join(text.split()) for text in texts)


class RequestGuard:
    """Which requests are answered, and by whom."""

    def __init__(
        self, settings: Web, limits: Limits, routes: Mapping[str, tuple[str, Callable[[str], Answer]]]
    ) -> None:
        self.limits = limits
        self._routes = routes
        named = (settings.address, *settings.allowed_hosts)
        self._hosts = LOOPBACK_NAMES | {host.strip("[]").lower() for host in named}

    def answer(self, method: str, target: str, headers: Message) -> Answer:
        """To one request; every defect of what answers ends here."""
        hosts = headers.get_all("Host") or []
        if len(hosts) != 1 or host_of(hosts[0]) not in self._hosts:
            return Answer.text(HTTPStatus.FORBIDDEN, "the Host header names another machine; see web.allowed_hosts")
        path = target.partition("?")[0]
        if path not in self._routes:
            return Answer.text(HTTPStatus.NOT_FOUND, "not found")
        allowed, respond = self._routes[path]
        if method != allowed and (method, allowed) != ("HEAD", "GET"):
            return Answer.text(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} answers {allowed} only", allow=allowed)
        if allowed == "POST" and _is_page(headers):
            return Answer.text(HTTPStatus.FORBIDDEN, "refused to web pages")
        try:
            return respond(headers.get("Accept") or "")
        except Exception:  # the boundary: a client is told nothing of the inside, the log everything
            log.exception("an endpoint failed", path=path)
            return Answer.text(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the process")


def host_of(header: str) -> str:
    """The name in a Host header: without its port, and an IPv6 address without its brackets; "" when it is none."""
    found = HOST.fullmatch(header.strip().lower())
    return (found["ipv6"] or found["name"]) if found else ""


def _is_page(headers: Message) -> bool:
    """Browsers name the page that a request comes from; tools do not."""
    return headers.get("Origin") is not None or (headers.get("Sec-Fetch-Site") or "none") != "none"


class _RequestRefused(Exception):  # noqa: N818  # an answer, not an error of the program
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status
        super().__init__(status.phrase)


class _Handler(BaseHTTPRequestHandler):
    """One request per connection, read whole within its limits before anything is done."""

    protocol_version = "HTTP/1.1"
    command = ""
    server: _Server

    def handle(self) -> None:
        """Read, answer, close."""
        limits = self.server.guard.limits
        deadline_s = time.monotonic() + limits.request_s
        try:
            head, rest = self._head(deadline_s)
            self.rfile = io.BytesIO(head)
            self.raw_requestline = self.rfile.readline(limits.n_head_bytes + 1)
            if not self.parse_request():
                return
            self._skip_body(len(rest), deadline_s)
            if not self.server.begin_answer(self.connection):
                return
            answer = self.server.guard.answer(self.command, self.path, self.headers)
            self.server.end_answer(self.connection)
        except _RequestRefused as refused:
            self._send(Answer.text(refused.status, refused.status.phrase.lower()))
            self._see_off(deadline_s)
        except (OSError, EOFError):
            return  # the client is gone, or too slow
        else:
            self._send(answer)

    def _head(self, deadline_s: float) -> tuple[bytes, bytes]:
        """Request line and headers, and what has come of the body."""
        received = bytearray()
        while True:
            for end in (b"\r\n\r\n", b"\n\n"):
                head, found, rest = received.partition(end)
                if found and len(head) <= self.server.guard.limits.n_head_bytes:
                    return bytes(head + found), bytes(rest)
            if len(received) > self.server.guard.limits.n_head_bytes:
                raise _RequestRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            received += self._receive(deadline_s)

    def _receive(self, deadline_s: float) -> bytes:
        self.connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        received: bytes = self.connection.recv(4_096)
        if not received:
            raise EOFError
        return received

    def _skip_body(self, n_read: int, deadline_s: float) -> None:
        """Nothing here has a use for a body; a small one is read, so that the client reads the answer."""
        if self.headers.get("Transfer-Encoding") is not None:
            raise _RequestRefused(HTTPStatus.LENGTH_REQUIRED)
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or len(length) > 10:
            raise _RequestRefused(HTTPStatus.BAD_REQUEST)
        if int(length) > self.server.guard.limits.n_body_bytes:
            raise _RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        while n_read < int(length):
            n_read += len(self._receive(deadline_s))

    def _see_off(self, deadline_s: float) -> None:
        """Take what is still being sent: to close before would tear the answer from the client's hands."""
        with suppress(OSError, EOFError):
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(MAX_UNWANTED_READS):
                self._receive(deadline_s)

    def _send(self, answer: Answer) -> None:
        lines = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Date: {self.date_time_string()}",
            f"Content-Type: {answer.kind}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in HEADERS.items()),
            *([f"Allow: {answer.allow}"] if answer.allow else []),
        ]
        body = b"" if self.command == "HEAD" else answer.body
        self.connection.settimeout(self.server.guard.limits.request_s)
        try:
            self.connection.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        except OSError:
            log.debug("a client went away before its answer")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that cannot be read: its own text is not repeated."""
        del message, explain
        status = HTTPStatus(code)
        self._send(Answer.text(status, status.phrase.lower()))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged; refusals have their status."""


class _Server(BoundedServer):
    """Knows which requests are answered."""

    def __init__(self, family: socket.AddressFamily, address: tuple[Any, ...], guard: RequestGuard) -> None:
        self.guard = guard
        super().__init__(family, address, _Handler, guard.limits.n_connections)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A defect; it ends one connection."""
        del request, client_address
        log.exception("a connection failed")


def _bound(settings: Web, guard: RequestGuard) -> _Server:
    try:
        found = socket.getaddrinfo(settings.address, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return _Server(family, address, guard)
    except OSError as error:
        raise AppError(_why_not(settings, error)) from error


def _why_not(settings: Web, error: OSError) -> str:
    off = "or switch the endpoints off (web.enabled: false)"
    if isinstance(error, PermissionError):
        return f"web.port: found {settings.port}, which this user may not use; expected one of 1024 or above, {off}"
    if error.errno == errno.EADDRINUSE and not isinstance(error, socket.gaierror):
        found = f"{settings.port}, which is taken on {settings.address}"
        remedy = f"stop the process that has it, choose another one (0: any free one), {off}"
        return f"web.port: found {found}; expected a free port; {remedy}"
    reason = error.strerror or str(error)
    return f"web.address: found {settings.address!r}: {reason}; expected an address of this machine, {off}"
