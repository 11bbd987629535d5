"""A webhook receiver on loopback that answers as told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from app.process.serving.loopback import serving


@dataclass
class Webhook:
    """What came, and what is answered: statuses in order, then 200; "hang" waits for `release`."""

    url: str = ""
    answers: list[int | str] = field(default_factory=list)
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def came(self, n: int, timeout_s: float = 120.0) -> bool:
        """Wait until `n` messages came in all; False when the time is over first."""
        with self.arrived:
            return self.arrived.wait_for(lambda: len(self.received) >= n, timeout_s)


@contextmanager
def webhook(*answers: int | str, retry_after: str | None = None) -> Iterator[Webhook]:
    """Listen on a free port of loopback; `retry_after`: a header of every answer but 200."""
    hook = Webhook(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.headers.append(dict(self.headers))
            with hook.arrived:
                hook.received.append((self.headers["Idempotency-Key"], json.loads(body)))
                answer = hook.answers.pop(0) if hook.answers else 200  # in the order in which they came
                hook.arrived.notify_all()
            if answer == "hang":
                hook.release.wait(120)
                self.close_connection = True
                return
            self.send_response(int(answer))
            if 300 <= int(answer) < 400:
                self.send_header("Location", hook.url)
            if retry_after is not None and answer != 200:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Be quiet."""

    with serving(Handler) as url:
        hook.url = f"{url}/hook"
        try:
            yield hook
        finally:
            hook.release.set()
