"""HTTP for a few known clients, plain or over TLS: a request is read whole, within its limits, before it is answered.

One request per connection, a bounded number of connections (`bounded_server.py`), a deadline for each part.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

import structlog

from app.errors import AppError
from app.process.serving.bounded_server import BoundedServer

log = structlog.get_logger(__name__)

TEXT = "text/plain; charset=utf-8"
HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[^\s:\[\]@/]+))(?::[0-9]*)?")
MAX_UNWANTED_READS = 64
MAX_CHUNK_LINE = 64
"""Bytes of the line before a chunk of a body: its length, and extensions that nobody sends."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer, refusals and errors too: nobody's page has a use for them."""


@dataclass(frozen=True)
class Limits:
    """What one client may take."""

    request_s: float = 5.0
    """For the whole of a request, and then for the whole of the answer, or each part of one that comes in parts."""
    n_connections: int = 32
    n_head_bytes: int = 8_192
    n_body_bytes: int = 1_024
    takes_chunks: bool = False
    """Whether a body may come without its length before it."""
    answer_s: float = 120.0
    """For the whole of an answer that comes in parts."""


@dataclass(frozen=True)
class Request:
    """One request, whole."""

    method: str
    target: str
    headers: Message
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: HTTPStatus
    body: bytes = b""
    kind: str = TEXT
    allow: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """Beside those of every answer."""
    parts: Iterator[bytes] | None = None
    """In place of `body`: what is too large to be held at once, made while it is sent."""

    @classmethod
    def text(cls, status: HTTPStatus, text: str, allow: str = "") -> Answer:
        """Lines of text."""
        return cls(status, f"{text}\n".encode(), allow=allow)


class Answering(Protocol):
    """What answers the requests of a server; no call raises."""

    @property
    def limits(self) -> Limits:
        """What one client may take."""
        ...

    def answer(self, request: Request) -> Answer:
        """To one request."""
        ...

    def refused(self, status: HTTPStatus) -> Answer:
        """To one that cannot be read."""
        ...


def host_of(header: str) -> str:
    """The name in a Host header: without its port, and an IPv6 address without its brackets; "" when it is none."""
    found = HOST.fullmatch(header.strip().lower())
    return (found["ipv6"] or found["name"]) if found else ""


class _RequestRefused(Exception):  # noqa: N818  # an answer, not an error of the program
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status
        super().__init__(status.phrase)


class _Handler(BaseHTTPRequestHandler):
    """One request per connection."""

    protocol_version = "HTTP/1.1"
    command = ""
    server: HttpServer

    def handle(self) -> None:
        """Read, answer, close."""
        self._wire: socket.socket = self.connection
        try:
            self._serve()
        finally:
            if self._wire is not self.connection:
                self._wire.close()

    def _serve(self) -> None:
        answering = self.server.answering
        self._deadline_s = time.monotonic() + answering.limits.request_s
        try:
            self._shake_hands()
            head, rest = self._head()
            self.rfile = io.BytesIO(head)
            self.raw_requestline = self.rfile.readline(answering.limits.n_head_bytes + 1)
            if not self.parse_request():
                return
            body = self._body(rest)
            if not self.server.begin_answer(self.connection):
                return
            answer = answering.answer(Request(self.command, self.path, self.headers, body))
            # An answer in parts is made while the client takes it: whoever takes it slowly makes room for others, too.
            self.server.end_answer(self.connection)
        except _RequestRefused as refused:
            self._send(answering.refused(refused.status))
            self._see_off()
        except (OSError, EOFError):
            return  # the client is gone, or too slow
        else:
            self._send(answer)

    def _shake_hands(self) -> None:
        """Over TLS from here on, if at all. The socket of before stays the server's to hang up on."""
        if self.server.tls is None:
            return
        self._wire = self.server.tls.wrap_socket(
            self.connection.dup(), server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
        self._wire.settimeout(self._left_s())
        self._wire.do_handshake()

    def _left_s(self) -> float:
        return max(0.001, self._deadline_s - time.monotonic())

    def _head(self) -> tuple[bytes, bytes]:
        """Request line and headers, and what has come of the body."""
        received, most = bytearray(), self.server.answering.limits.n_head_bytes
        while True:
            ends = [(at, end) for end in (b"\r\n\r\n", b"\n\n") if (at := received.find(end)) >= 0]
            if ends and min(ends)[0] <= most:
                at, end = min(ends)  # the first: a body may have the other one
                return bytes(received[: at + len(end)]), bytes(received[at + len(end) :])
            if len(received) > most:
                raise _RequestRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            received += self._receive()

    def _receive(self) -> bytes:
        self._wire.settimeout(self._left_s())
        received: bytes = self._wire.recv(4_096)
        if not received:
            raise EOFError
        return received

    def _body(self, rest: bytes) -> bytes:
        """All of it; a refusal when it is longer than it may be."""
        most = self.server.answering.limits.n_body_bytes
        if (codings := self.headers.get_all("Transfer-Encoding")) is not None:
            if not self.server.answering.limits.takes_chunks:
                raise _RequestRefused(HTTPStatus.LENGTH_REQUIRED)
            is_chunked = len(codings) == 1 and codings[0].strip().lower() == "chunked"
            if not is_chunked or self.headers.get("Content-Length") is not None:
                raise _RequestRefused(HTTPStatus.BAD_REQUEST)  # two lengths are how requests are smuggled
            return self._chunks(bytearray(rest), most)
        lengths = self.headers.get_all("Content-Length") or ["0"]
        if len(lengths) != 1 or not (lengths[0].isascii() and lengths[0].isdecimal()) or len(lengths[0]) > 10:
            raise _RequestRefused(HTTPStatus.BAD_REQUEST)
        if (length := int(lengths[0])) > most:
            raise _RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body = bytearray(rest)
        while len(body) < length:
            body += self._receive()
        return bytes(body[:length])

    def _chunks(self, received: bytearray, most: int) -> bytes:
        body = bytearray()
        while (length := self._chunk_length(received)) > 0:
            if len(body) + length > most:
                raise _RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            while len(received) < length + 2:
                received += self._receive()
            body += received[:length]
            if received[length : length + 2] != b"\r\n":
                raise _RequestRefused(HTTPStatus.BAD_REQUEST)
            del received[: length + 2]
        return bytes(body)  # nobody has a use for what may follow, and the connection is closed

    def _chunk_length(self, received: bytearray) -> int:
        while b"\r\n" not in received:
            if len(received) > MAX_CHUNK_LINE:
                raise _RequestRefused(HTTPStatus.BAD_REQUEST)
            received += self._receive()
        line, _, rest = bytes(received).partition(b"\r\n")
        digits = line.partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", digits):
            raise _RequestRefused(HTTPStatus.BAD_REQUEST)
        received[:] = rest
        return int(digits, 16)

    def handle_expect_100(self) -> bool:
        """The client waits to be asked for the body."""
        self._wire.settimeout(self._left_s())
        self._wire.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _see_off(self) -> None:
        """Take what is still being sent: to close before would tear the answer from the client's hands."""
        with suppress(OSError, EOFError):
            self._wire.shutdown(socket.SHUT_WR)
            for _ in range(MAX_UNWANTED_READS):
                self._receive()

    def _send(self, answer: Answer) -> None:
        is_whole = answer.parts is None
        lines = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Date: {self.date_time_string()}",
            *([f"Content-Type: {answer.kind}"] if answer.kind else []),
            f"Content-Length: {len(answer.body)}" if is_whole else "Transfer-Encoding: chunked",
            "Connection: close",
            *(f"{name}: {value}" for name, value in (*HEADERS.items(), *answer.headers)),
            *([f"Allow: {answer.allow}"] if answer.allow else []),
        ]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        try:
            if self.command == "HEAD":
                self._send_within(head)
            elif answer.parts is None:
                self._send_within(head + answer.body)
            else:
                self._send_parts(head, answer.parts)
        except OSError:
            log.debug("a client went away before its answer")

    def _send_within(self, data: bytes) -> None:
        """All of it within the limit; by hand, since over TLS each record would have a limit of its own."""
        self._deadline_s = time.monotonic() + self.server.answering.limits.request_s
        left = memoryview(data)
        while left:
            if time.monotonic() > self._deadline_s:
                raise TimeoutError
            self._wire.settimeout(self._left_s())
            left = left[self._wire.send(left) :]

    def _send_parts(self, head: bytes, parts: Iterator[bytes]) -> None:
        """In chunks: an answer that is cut off has no last one, so that nobody takes it for whole."""
        ends_s = time.monotonic() + self.server.answering.limits.answer_s
        self._send_within(head)
        try:
            for part in parts:
                if time.monotonic() > ends_s:
                    raise TimeoutError
                self._send_within(b"%x\r\n%b\r\n" % (len(part), part))
            self._send_within(b"0\r\n\r\n")
        except OSError:
            raise
        except AppError as error:
            log.error("an answer broke off", reason=str(error))
        except Exception:  # the boundary: what is under way cannot become another answer, so it breaks off
            log.exception("an answer broke off")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that cannot be read: its own text is not repeated."""
        del message, explain
        self._send(self.server.answering.refused(HTTPStatus(code)))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged; refusals have their status."""


class HttpServer(BoundedServer):
    """Knows what answers; `tls`: the certificate that it shows, None: it speaks plain HTTP."""

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[Any, ...],
        answering: Answering,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answering = answering
        self.tls = tls
        super().__init__(family, address, _Handler, answering.limits.n_connections)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A defect; it ends one connection."""
        del request, client_address
        log.exception("a connection failed")


__all__ = ["HEADERS", "TEXT", "Answer", "Answering", "HttpServer", "Limits", "Request", "host_of"]
