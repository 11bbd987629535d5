"""Who sends samples by remote write as Prometheus does: in order, each again until it was taken."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from app.process.serving.write_receiver import PATH
from tests.collectors.prometheus import writes

PAUSE_S = 0.02
"""Before a request is sent again."""
MOST_SAMPLES = 100
"""Of one request."""
HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


Sample = tuple[str, float, int]
"""Host, load, time in ms."""


class RemoteSender:
    """Sends what is put into it."""

    def __init__(self, port: int) -> None:
        self.n_taken = self.n_retries = 0
        """Requests."""
        self.before_answer: list[Callable[[], None]] = []
        """What is done once, when the next request is sent and before it is answered."""
        self._port = port
        self._waiting: list[Sample] = []
        self._is_there = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._send_all, name="remote sender", daemon=True)

    def put(self, sample: Sample) -> None:
        """Send it after those of before."""
        with self._is_there:
            self._waiting.append(sample)
            self._is_there.notify()

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
        with self._is_there:
            self._is_stopping = True
            self._is_there.notify()
        self._thread.join()

    def _send_all(self) -> None:
        while True:
            with self._is_there:
                self._is_there.wait_for(lambda: self._waiting or self._is_stopping)
                if self._is_stopping:
                    return
                samples = self._waiting[:MOST_SAMPLES]
            body = writes.request(
                *(writes.series("node_load1", load, t_ms, instance=f"{host}:9100") for host, load, t_ms in samples)
            )
            if self._is_taken(body):
                with self._is_there:
                    del self._waiting[: len(samples)]
            else:
                self.n_retries += 1
                with self._is_there:
                    self._is_there.wait_for(lambda: self._is_stopping, PAUSE_S)

    def _is_taken(self, body: bytes) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("POST", PATH, body, HEADERS)
            with suppress(IndexError):
                self.before_answer.pop()()
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if 400 <= status < 500:
            raise AssertionError(f"a sample was refused for good: {status}")
        self.n_taken += status < 300
        return status < 300


@contextmanager
def sending(port: int) -> Iterator[RemoteSender]:
    """One that sends meanwhile."""
    sender = RemoteSender(port)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()
