"""A webhook receiver on loopback that takes what it is sent: the demo's notifications are really delivered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from app.process.serving.loopback import serving

MAX_BODY_BYTES = 2**20


@dataclass
class Sink:
    """What came, by Idempotency-Key: what is sent twice counts once."""

    url: str = ""
    received: dict[str, Any] = field(default_factory=dict)


@contextmanager
def webhook_sink() -> Iterator[Sink]:
    """Keep what comes."""
    sink = Sink()
    with listening(sink.received.__setitem__) as sink.url:
        yield sink


@contextmanager
def listening(take: Callable[[str, Any], object]) -> Iterator[str]:
    """Listen on a free port of loopback; gives the address.

    `take` gets the Idempotency-Key and the body of each request, also of one that comes again, in a thread of its own
    per request; it is called before the answer.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            n_bytes = int(self.headers.get("Content-Length") or 0)
            if not 0 < n_bytes <= MAX_BODY_BYTES:
                self._answer(413)
                return
            try:
                payload = json.loads(self.rfile.read(n_bytes))
            except ValueError:
                self._answer(400)
                return
            take(self.headers.get("Idempotency-Key") or "", payload)
            self._answer(200)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """What came is told by who takes it."""

    with serving(Handler) as url:
        yield f"{url}/alerts"
