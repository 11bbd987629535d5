"""`clustercep run` as an operator starts, asks, signals and ends it."""

from __future__ import annotations

import http.client
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.minicluster.processes import processes
from deploy.minicluster.processes.guard import descendants
from deploy.minicluster.processes.processes import Process

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Answer:
    """What an endpoint said, and when."""

    at_s: float
    path: str
    status: int
    """0 when nobody answered."""
    text: str


class Clustercep:
    """The process, below a guard that ends it when the tests end, however they do."""

    def __init__(self, config: Path, log: Path, port: int) -> None:
        self.config = config
        self.log = log
        self.port = port
        self._process: Process | None = None

    def start(self) -> None:
        """Start it; its log is appended to."""
        self._process = start(["run", "--config", str(self.config)], self.log)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to clustercep itself."""
        (pid, *_) = descendants(self._running.pid)
        os.kill(pid, number)

    def wait(self, timeout_s: float) -> int | None:
        """Its exit status (128 and the signal that ended it); None when it still runs."""
        return self._running.wait(timeout_s)

    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.is_running()

    def end(self) -> None:
        """End it by force, if it is still there."""
        if self._process is not None:
            processes.stop_all([self._process])

    def ask(self, path: str, method: str = "GET", timeout_s: float = 30.0) -> Answer:
        """What an endpoint answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return Answer(time.monotonic(), path, response.status, response.read().decode("utf-8"))
        except (OSError, http.client.HTTPException) as error:
            return Answer(time.monotonic(), path, 0, str(error))
        finally:
            connection.close()

    def wait_until_ready(self, timeout_s: float) -> float:
        """Seconds until /-/ready said so. Raises AssertionError with the end of its log."""
        started_s = time.monotonic()
        while (answer := self.ask("/-/ready")).status != 200:
            waited_s = time.monotonic() - started_s
            ended = f"ended with status {self.wait(0)}" if not self.is_running() else f"not ready in {waited_s:.0f} s"
            assert self.is_running(), f"clustercep {ended}:\n{processes.tail(self.log, 40)}"
            assert waited_s < timeout_s, f"clustercep {ended} ({answer.text!r}):\n{processes.tail(self.log, 40)}"
            time.sleep(0.25)
        return time.monotonic() - started_s

    @property
    def _running(self) -> Process:
        assert self._process is not None, "not started"
        return self._process


def start(arguments: list[str], log: Path) -> Process:
    """Start the command line below a guard, with nothing set by the environment but where its cache is."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CLUSTERCEP__")}
    environment.pop("CLUSTERCEP_CONFIG", None)
    command = [sys.executable, "-m", "app.cli", *arguments]
    return processes.start(f"clustercep {arguments[0]}", command, log, environment, cwd=ROOT)


def run_to_end(arguments: list[str], log: Path, timeout_s: float) -> str:
    """What a command printed. Raises AssertionError when it fails or takes too long."""
    process = start(arguments, log)
    status = process.wait(timeout_s)
    processes.stop_all([process])
    assert status == 0, f"clustercep {' '.join(arguments)}: status {status}: {processes.tail(log)}"
    return log.read_text(encoding="utf-8").strip()
