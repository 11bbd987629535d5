"""A process beside a storm: people who acknowledge alerts, and a receiver. Told over standard input when to end."""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from app.alerting import operations
from app.alerting.people import Person
from app.errors import AppError
from app.store import open_store
from app.store.alert_pages import AlertFilter

PAUSE_S = 0.05


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


def main(store_url: str) -> None:
    """The port on standard output, then one line of JSON: how long each acknowledgement took, and what failed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    over = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=until_told, daemon=True).start()
    seconds: list[float] = []
    failures: list[str] = []
    with open_store(store_url) as store:
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
    print(json.dumps({"seconds": seconds, "failures": failures}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
