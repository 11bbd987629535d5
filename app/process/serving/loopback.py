"""HTTP servers of this process on loopback: the demo's REST answers and its webhook receiver."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from app.process.serving.bounded_server import BoundedServer

N_CONNECTIONS = 64


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Listen on a free port, each connection in a thread of its own; gives the base URL."""

    class Counted(handler):  # type: ignore[misc, valid-type]
        server: BoundedServer

        def parse_request(self) -> bool:
            return super().parse_request() and self.server.begin_answer(self.connection)

        def handle_one_request(self) -> None:
            super().handle_one_request()
            self.server.end_answer(self.connection)

    server = BoundedServer(socket.AF_INET, ("127.0.0.1", 0), Counted, N_CONNECTIONS)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


__all__ = ["serving"]
