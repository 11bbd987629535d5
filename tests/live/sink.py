"""A webhook receiver that keeps every delivery, also those that come again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def now_ms() -> int:
    """Wall clock in ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Delivery:
    """One request."""

    received_ms: int
    key: str
    """Its Idempotency-Key."""
    payload: dict[str, Any]

    @property
    def alert_id(self) -> str:
        """The alert it tells of."""
        return str(self.payload["alerts"][0]["annotations"]["alert_id"])

    @property
    def status(self) -> str:
        """firing or resolved."""
        return str(self.payload["status"])


@dataclass
class Deliveries:
    """What came, in order."""

    url: str = ""
    received: list[Delivery] = field(default_factory=list)

    def first(self, alert_id: str) -> Delivery | None:
        """The first that told of the alert."""
        return next((delivery for delivery in list(self.received) if delivery.alert_id == alert_id), None)


@contextmanager
def listening() -> Iterator[Deliveries]:
    """Answer on a free port of loopback."""
    deliveries = Deliveries()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            deliveries.received.append(Delivery(now_ms(), self.headers["Idempotency-Key"], payload))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """What came is in `deliveries`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    deliveries.url = f"http://127.0.0.1:{server.server_address[1]}/alerts"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield deliveries
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
