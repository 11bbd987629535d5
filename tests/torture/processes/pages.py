"""The dashboard's pages as a process, and who writes to it what nobody would."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.commands.dashboard import command, environment, place_of
from app.settings import Settings
from app.store import open_store
from tests.ports import own_port

WAIT_S, N_WAITS = 0.1, 4_000
ANSWER_S, READ_S = 300.0, 0.5
HEALTH = "/_stcore/health"


@contextmanager
def pages(folder: Path) -> Iterator[int]:
    """The port of loopback that they have, over an empty store."""
    with own_port() as port:
        yield from _on(port, folder)


def _on(port: int, folder: Path) -> Iterator[int]:
    store = folder / "store"
    store.mkdir(parents=True)
    with open_store(f"sqlite:///{store / 'clustercep.db'}", durable=False):
        pass
    config = folder / "config.yaml"
    config.write_text(json.dumps({"store": {"directory": str(store)}, "dashboard": {"port": port}}))
    settings = Settings.model_validate({"store": {"directory": store}, "dashboard": {"port": port}})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command(settings, place_of(settings.dashboard)),
            env=environment(settings, config, None),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _until_it_answers(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


def _until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(N_WAITS):
        with suppress(OSError):
            if asked(port, HEALTH) == 200:
                return
        with suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"the dashboard has ended with {process.wait(WAIT_S)}")
    raise RuntimeError("the dashboard does not answer")


def asked(port: int, path: str) -> int:
    """The status of what it answers; raises OSError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


UPGRADE = (
    b"GET /_stcore/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
STARTS = (
    b"",
    b"\x16\x03\x01\x02\x00\x01",
    b"GET / HTT",
    b"GET /alerts HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ",
    b"POST /_stcore/upload_file/a/b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
    UPGRADE + b"X-A: ",
    UPGRADE + b"\r\n\x82\xff",
)
"""Of clients that never come to an end."""
REQUESTS = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n\r\n",
    b"GET /_stcore/host-config HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n",
    b"PUT /_stcore/upload_file/a/b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}",
    UPGRADE + b"Origin: http://127.0.0.1\r\n\r\n\x82\x85abcdefghi",
)


@contextmanager
def written(folder: Path) -> Iterator[Callable[[bytes, Path], None]]:
    """Who sends bytes to them: whatever they are, the next one is answered."""
    with pages(folder / "pages") as port:

        def send(data: bytes, _folder: Path) -> None:
            with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection, suppress(OSError):
                connection.settimeout(READ_S)
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass
            assert asked(port, HEALTH) == 200

        yield send


__all__ = ["HEALTH", "REQUESTS", "STARTS", "asked", "pages", "written"]
