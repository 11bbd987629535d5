"""Servers on loopback that never come to an end by themselves: each connection lasts until the client hangs up."""

from __future__ import annotations

import datetime
import ipaddress
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_T = TypeVar("_T")

GUARD_S = 600.0
"""Far beyond what any of it takes on a machine that has other things to do: whoever is not through by then never will
be."""

PAUSE_S = 0.02
"""A dripping server looks for so long whether the client has hung up, then sends on."""

Behaviour = Callable[[socket.socket], object]


def wait_for_hang_up(connection: socket.socket) -> None:
    """Answer nothing and read nothing; not for requests that fill the buffers, whose end would stay behind them."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll(GUARD_S * 1000)


def drip(start: bytes, *, again: bytes) -> Behaviour:
    """Take a request, send `start`, and then `again`, again and again."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(start)
        connection.settimeout(PAUSE_S)
        while True:
            with suppress(TimeoutError):
                if not connection.recv(65_536):
                    return
            connection.sendall(again)

    return serve


def flood(start: bytes, *, again: bytes) -> Behaviour:
    """As `drip`, as fast as it goes."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(start)
        while True:
            connection.sendall(again)

    return serve


def answer(connection: socket.socket) -> None:
    """What is asked for, at once."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
    while connection.recv(65_536):
        pass  # to close before all has been read would tear the answer from the client's hands


OK = b"HTTP/1.1 200 OK\r\n"
HEADS = {
    "accepts and never answers": wait_for_hang_up,
    "drips its status line": drip(b"HTTP/1.1 200 ", again=b"O"),
    "drips a header": drip(OK + b"X-Long: ", again=b"x"),
    "drips headers": drip(OK, again=b"X: y\r\n"),
    "never ends to continue": drip(b"", again=b"HTTP/1.1 100 Continue\r\n\r\n"),
}
BODIES = {
    "drips a body of known length": drip(OK + b"Content-Length: 1000000\r\n\r\n", again=b"x"),
    "drips a body until it closes": drip(OK + b"Connection: close\r\n\r\n", again=b"x"),
    "drips chunks": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", again=b"1\r\nx\r\n"),
    "drips the size of a chunk": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n1", again=b"0"),
    "drips what follows the chunks": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", again=b"X: y\r\n"),
}
FLOODS = {
    "continues as fast as it goes": flood(b"", again=b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
    "a header without end": flood(OK + b"X-Long: ", again=b"x" * 65_536),
    "a body without end": flood(OK + b"\r\n", again=b"x" * 65_536),
    "chunks without end": flood(OK + b"Transfer-Encoding: chunked\r\n\r\n", again=b"1\r\nx\r\n" * 10_000),
    "a chunk's size without end": flood(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", again=b"x" * 65_536),
}
HANDSHAKES = {
    "stalls in the handshake": wait_for_hang_up,
    "drips the handshake": drip(b"\x16\x03\x03\x40\x00", again=b"\x02"),
}


def requested_path(connection: socket.socket) -> str:
    """The path that the request's first line names; the request stays to be read.

    Raises:
        ConnectionAbortedError: The client has hung up before it asked, as one may whose time is over.
    """
    seen = b""
    while b"\r\n" not in seen:
        seen = connection.recv(65_536, socket.MSG_PEEK)
        if not seen:
            raise ConnectionAbortedError("the client has hung up before it asked")
    return seen.split(b" ")[1].decode()


@contextmanager
def serving(behaviour: Behaviour, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve each connection so, in a thread of its own; with a context over TLS. Gives the address.

    Ends when all connections have ended, which is when the clients have hung up.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if context is None:
                behaviour(connection)
            else:
                with context.wrap_socket(connection, server_side=True) as wrapped:
                    behaviour(wrapped)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        scheme = "http" if context is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(GUARD_S)
        for thread in threads:
            thread.join(GUARD_S)


def ends(work: Callable[[], _T]) -> _T:
    """What `work` gives or raises; fails when it does not end."""
    outcome: list[tuple[_T | None, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:  # noqa: BLE001  # raised again in the test's thread
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(GUARD_S)
    assert not thread.is_alive(), "it does not end"
    ((result, error),) = outcome
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context for 127.0.0.1, and the file of its own certificate, for whoever shall trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    ca_file, key_file = folder / "certificate.pem", folder / "key.pem"
    ca_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    return context, ca_file
