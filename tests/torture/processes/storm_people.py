"""A process beside a storm: people who acknowledge alerts, others who ask Alertmanager's API and make silences, and
receivers. Told over standard input when to end."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import structlog

from app.alerting import operations
from app.alerting.people import Person
from app.clock import SystemClock
from app.errors import AppError
from app.store import Store, open_store
from app.store.alert_pages import AlertFilter
from tests.app.alertmanager.served import Served, served
from tests.app.alertmanager.test_silences import HOUR_MS, iso
from tests.app.alertmanager.test_silences import body as silence_body
from tests.slow_servers import serving
from tests.torture.receivers.kinds import Peer

PAUSE_S, API_PAUSE_S = 0.05, 0.2
SILENCE_EACH = 10
"""One silence for so many requests: each is held against all that is open."""


class Receiver(BaseHTTPRequestHandler):
    """Takes every message."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # the base class calls it so
        """Read it and say so."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # the base class names it so
        """Nothing."""


@contextmanager
def asking(store: Store, folder: Path, over: threading.Event, failures: list[str]) -> Iterator[list[float]]:
    """Ask the API meanwhile; how long each answer took."""
    seconds: list[float] = []

    def ask(api: Served) -> None:
        number = 0
        while not over.wait(API_PAUSE_S):
            number += 1
            started_s = time.perf_counter()
            if number % SILENCE_EACH:
                status = api.get("/api/v2/alerts?filter=host%3D%22node7%22").status
            else:
                now_ms = clock.now_ms()
                body = silence_body(startsAt=iso(now_ms), endsAt=iso(now_ms + HOUR_MS))  # of a host that has no alert
                status = api.write("POST", "/api/v2/silences", body).status
            seconds.append(time.perf_counter() - started_s)
            if status != 200:
                failures.append(f"the API answered {status}; expected 200")

    clock = SystemClock()
    with served(store, folder, clock=clock) as api:
        thread = threading.Thread(target=ask, args=(api,), daemon=True)
        thread.start()
        try:
            yield seconds
        finally:
            over.set()
            thread.join()


def main(store_url: str, folder: Path) -> None:
    """The ports on standard output, then one line of JSON: how long each acknowledgement and each answer of the API
    took, and what failed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with serving(Peer(None, is_smtp=True).serve) as mail:
        print(json.dumps({"http": server.server_port, "smtp": int(mail.rpartition(":")[2])}), flush=True)
        beside(store_url, folder)


def beside(store_url: str, folder: Path) -> None:
    """Those who acknowledge and ask, until they are told to end."""
    over = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=until_told, daemon=True).start()
    seconds: list[float] = []
    failures: list[str] = []
    with open_store(store_url) as store, asking(store, folder, over, failures) as api_seconds:
        while not over.is_set():
            for alert in store.alerts(AlertFilter(states=("firing",), limit=10)):
                started_s = time.perf_counter()
                try:
                    operations.acknowledge(store, alert.id, Person("mia"), "", 1)
                except AppError as error:
                    if "only firing" not in str(error):  # over meanwhile
                        failures.append(str(error))
                seconds.append(time.perf_counter() - started_s)
                time.sleep(PAUSE_S)
            time.sleep(PAUSE_S)
    print(json.dumps({"seconds": seconds, "api_seconds": api_seconds, "failures": failures}), flush=True)


if __name__ == "__main__":
    # Standard output is for what is told.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    main(sys.argv[1], Path(sys.argv[2]))
