"""The receiver of Prometheus' remote write: a request is answered with success once it is on the disk.

Off unless it is configured; beyond loopback only with TLS and a token. A sender keeps what is answered with 5xx or not
at all and sends it again, and throws away what is answered with 4xx: so that is for what would never be taken.
"""

from __future__ import annotations

import hmac
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from http import HTTPStatus
from pathlib import Path
from socketserver import BaseRequestHandler
from typing import Any

import structlog

from app.config import read_secret
from app.errors import AppError, ConfigError, ConfigProblem
from app.process.serving.bounded_server import BoundedServer
from app.settings import RemoteWriteSource
from collectors.printable import printable
from collectors.prometheus.spool import Record, RecordError, SpoolError, SpoolWriter
from collectors.prometheus.write_request import TooLargeError, WriteRequestError, parse_write_request, unpacked

log = structlog.get_logger(__name__)

PATH = "/api/v1/write"
KEY = "sources.remote_write"
MAX_HEAD_BYTES = 16_384
REQUEST_S = 30.0
"""For the whole of a request."""
N_DECODING = 2
"""Requests that are unpacked side by side: each may take `max_unpacked` and more."""
MAX_DRAIN_BYTES = 1 << 16
TOLD_PER_MIN = 6


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


LEAST_TOKEN_CHARS = 20
"""As of tokens for the API: a shorter one is guessed."""


@dataclass(frozen=True)
class Secrets:
    """What is needed before anybody is listened to."""

    token: str | None
    tls: ssl.SSLContext | None


def secrets_of(section: RemoteWriteSource) -> Secrets:
    """Read the files of the settings; raises ConfigError."""
    token = read_secret(None, section.token_file, f"{KEY}.token_file")
    if token is not None and len(token.get_secret_value()) < LEAST_TOKEN_CHARS:
        found = f"a token of {len(token.get_secret_value())} characters"
        expected = f"at least {LEAST_TOKEN_CHARS}, drawn at random: openssl rand -hex 32"
        raise ConfigError(str(section.token_file), (ConfigProblem(f"{KEY}.token_file", found, expected),))
    tls = None
    if section.cert_file is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            tls.load_cert_chain(section.cert_file, section.key_file, password="")
        except (OSError, ssl.SSLError) as error:
            problem = ConfigProblem(f"{KEY}.cert_file", str(error), "PEM files with a certificate and its key")
            raise ConfigError("configuration", (problem,)) from None
    return Secrets(None if token is None else token.get_secret_value(), tls)


class WriteReceiver:
    """Takes requests from start to stop."""

    def __init__(
        self,
        section: RemoteWriteSource,
        folder: Path,
        metrics: frozenset[str],
        now_ms: Callable[[], int],
        answered: Callable[[int], None] = lambda _status: None,
    ) -> None:
        """`metrics` are kept, others counted. Raises ConfigError."""
        self.section, self.metrics, self.now_ms, self.answered = section, metrics, now_ms, answered
        self.secrets = secrets_of(section)
        self.spool = SpoolWriter(folder, section.spool_size_bytes)
        self.decoding = threading.BoundedSemaphore(N_DECODING)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._told_s = -math.inf

    @property
    def port(self) -> int:
        """Where it listens, once it is started."""
        assert self._server is not None, "not started"
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Listen; raises AppError when the address cannot be used."""
        section = self.section
        try:
            found = socket.getaddrinfo(section.address, section.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, *_, address = found[0]
            self._server = _Server(family, address, self)
        except OSError as error:
            place = f"{section.address} port {section.port}"
            raise AppError(f"{KEY}: {place} cannot be listened to: {error.strerror or error}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="remote write", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; whoever is not answered sends again."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self.spool.close()

    def take(self, head: Message, body: bytes, sender: str) -> None:
        """One request, whole; raises RefusedError."""
        if (head.get("Content-Encoding") or "").strip().lower() != "snappy":
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Encoding: snappy")
        if "io.prometheus.write.v2" in (head.get("Content-Type") or ""):
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected remote write 1.0 (prometheus.WriteRequest)")
        with self.decoding:
            try:
                request = parse_write_request(unpacked(body, self.section.max_unpacked_bytes), self.metrics)
            except TooLargeError as error:
                raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
            except WriteRequestError as error:
                raise RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
            if not request.samples and not request.n_others:
                return  # metadata alone
            try:
                self.spool.append(Record(self.now_ms(), sender, request.samples, request.n_others))
            except RecordError as error:
                raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
            except SpoolError as error:
                raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
            if request.refused:  # for its sender to tell of: nothing of it is sent again
                raise RefusedError(HTTPStatus.BAD_REQUEST, f"{request.refused}: left out, the other series are kept")

    def tell_refused(self, sender: str, refused: RefusedError) -> None:
        """In the log, some a minute: whoever can connect must not fill the disk with it."""
        now_s = time.monotonic()
        if now_s - self._told_s >= 60.0 / TOLD_PER_MIN:
            self._told_s = now_s
            log.warning("remote write refused", sender=printable(sender), status=refused.status.value, why=str(refused))

    def lets_in(self, head: Message) -> bool:
        """Whether the request shows the token, where one is wanted."""
        if self.secrets.token is None:
            return True
        shown = head.get("Authorization") or ""
        return hmac.compare_digest(shown.encode("latin-1", "replace"), f"Bearer {self.secrets.token}".encode())


class _Handler(BaseRequestHandler):
    """One request per connection, read whole within its limits before anything is done."""

    server: _Server

    def handle(self) -> None:
        """Read, keep, answer, close."""
        receiver = self.server.receiver
        self.deadline_s = time.monotonic() + REQUEST_S
        connection: socket.socket = self.request
        try:
            if receiver.secrets.tls is not None:
                # A copy: the socket of before stays the server's, which hangs up on it to make room.
                secured = receiver.secrets.tls.wrap_socket(
                    connection.dup(), server_side=True, do_handshake_on_connect=False
                )
                connection = secured
                self._arm(secured)
                secured.do_handshake()
            self._serve(connection)
        except (OSError, EOFError):
            return  # the sender is gone, or too slow, and sends again
        finally:
            if connection is not self.request:
                with suppress(OSError):
                    connection.close()

    def _serve(self, connection: socket.socket) -> None:
        receiver = self.server.receiver
        try:
            sender = self._request(connection)
        except RefusedError as refused:
            receiver.tell_refused(str(self.client_address[0]), refused)
            receiver.answered(refused.status.value)
            self._answer(connection, refused.status, str(refused))
            return
        if sender:  # counted first: what is answered is in the metrics already
            receiver.answered(HTTPStatus.NO_CONTENT.value)
            self._answer(connection, HTTPStatus.NO_CONTENT, "")

    def _request(self, connection: socket.socket) -> str:
        """The sender of a request that is kept; "" where the connection had to make room."""
        receiver = self.server.receiver
        received = bytearray()
        while b"\r\n\r\n" not in received:
            if len(received) > MAX_HEAD_BYTES:
                raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "a head of more than 16 KiB")
            received += self._receive(connection)
        line, _, rest = bytes(received).partition(b"\r\n")
        fields, _, body = (b"\r\n" + rest).partition(b"\r\n\r\n")
        text = fields.lstrip(b"\r\n").decode("latin-1")  # as RFC 9110 has it: every value is a text, whatever its bytes
        head = Parser().parsestr(f"{text}\r\n\r\n", headersonly=True)
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "expected HTTP/1.1")
        if not receiver.lets_in(head):
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "expected the token of the settings as a bearer")
        if words[1].partition("?")[0] != PATH:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"expected {PATH}")
        if words[0] != "POST":
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "expected POST")
        if head.get("Origin") is not None or (head.get("Sec-Fetch-Site") or "none") != "none":
            raise RefusedError(HTTPStatus.FORBIDDEN, "refused to web pages")
        length = head.get("Content-Length") or ""
        if head.get("Transfer-Encoding") is not None or not (length.isascii() and length.isdigit()) or len(length) > 12:
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if int(length) > receiver.section.max_body_bytes:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {length} bytes; see {KEY}.max_body")
        if (head.get("Expect") or "").lower() == "100-continue":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        read = bytearray(body)
        while len(read) < int(length):
            read += self._receive(connection)
        if not self.server.begin_answer(self.request):
            return ""
        sender = str(self.client_address[0])
        receiver.take(head, bytes(read[: int(length)]), sender)
        return sender

    def _arm(self, connection: socket.socket) -> None:
        connection.settimeout(max(0.001, self.deadline_s - time.monotonic()))

    def _receive(self, connection: socket.socket) -> bytes:
        self._arm(connection)
        received = connection.recv(65_536)
        if not received:
            raise EOFError
        return received

    def _answer(self, connection: socket.socket, status: HTTPStatus, text: str) -> None:
        body = b"" if status is HTTPStatus.NO_CONTENT else f"{printable(text, 200)}\n".encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        self.deadline_s = max(self.deadline_s, time.monotonic() + 5.0)
        self._arm(connection)
        connection.sendall(head.encode() + body)
        if status is not HTTPStatus.NO_CONTENT:
            # What is still being sent is taken: to close before would tear the answer from the sender's hands.
            with suppress(OSError, EOFError):
                connection.shutdown(socket.SHUT_WR)
                n_bytes = 0
                while n_bytes < MAX_DRAIN_BYTES:
                    n_bytes += len(self._receive(connection))


class _Server(BoundedServer):
    """Knows what is done with requests."""

    def __init__(self, family: socket.AddressFamily, address: tuple[Any, ...], receiver: WriteReceiver) -> None:
        self.receiver = receiver
        super().__init__(family, address, _Handler, receiver.section.n_connections)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A defect; it ends one connection, and its sender sends again."""
        del request, client_address
        log.exception("a connection failed")


__all__ = ["PATH", "WriteReceiver", "secrets_of"]
