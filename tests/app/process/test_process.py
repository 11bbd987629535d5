"""`clustercep run` as a process of its own: signals, endpoints, lines of its log, exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.config import load_settings
from app.live.assembly import open_configured_store
from tests.app.process.test_runner import QUERY, write_settings

ROOT = Path(__file__).parents[3]
MAX_S = 300
"""After this a process that hangs is ended, and the test fails."""

JSON_LOG = "log: {level: debug, format: json}\n"


class Running:
    """The process and its log."""

    def __init__(self, config: Path) -> None:
        words = [sys.executable, "-m", "app.cli", "run", "-c", str(config)]
        self.process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.lines: list[dict[str, Any]] = []

    def until(self, event: str) -> dict[str, Any]:
        """Read the log up to a line."""
        assert self.process.stderr is not None
        for text in self.process.stderr:
            assert text.startswith("{"), text
            self.lines.append(json.loads(text))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        raise AssertionError(f"it ended without {event!r}: {self.lines[-5:]}")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Started, with one query and one source."""
    write_settings(tmp_path, more=JSON_LOG)
    started = Running(tmp_path / "config.yaml")
    patience = threading.Timer(MAX_S, started.process.kill)
    patience.start()
    yield started
    patience.cancel()
    started.process.kill()
    started.process.wait()
    assert started.process.stderr is not None
    started.process.stderr.close()


def ask(url: str, method: str = "GET") -> str:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=240) as answer:
        return str(answer.read().decode())


def until_ready(base: str) -> str:
    """What it says once it is: a busy machine may be late with a source that is polled ten times a second."""
    while True:
        try:
            return ask(f"{base}/-/ready")
        except urllib.error.HTTPError as error:  # of a process that has ended it is a URLError
            error.close()


def test_a_process_from_start_to_end(running: Running, tmp_path: Path) -> None:
    place = running.until("endpoints")
    base = f"http://{place['address']}:{place['port']}"
    assert running.until("running")["sources"] == "job_history"
    assert running.until("polled")["source"] == "job_history"
    running.until("step")
    assert "steps are made and stored" in until_ready(base)
    assert "steps are made" in ask(f"{base}/-/healthy")
    (tmp_path / "queries/pair.cep").write_text("PATTERN PATTERN")
    running.process.send_signal(signal.SIGHUP)
    assert "pair.cep" in running.until("reload refused; the process goes on unchanged")["problem"]
    assert "clustercep_last_reload_successful 0.0" in ask(f"{base}/metrics")
    (tmp_path / "queries/pair.cep").write_text(QUERY)
    (tmp_path / "queries/second.cep").write_text(QUERY)
    (tmp_path / "queries/RUNBOOK.md").write_text("# pair\nLook.\n# second\nLook.\n")
    assert "queries new: second" in ask(f"{base}/-/reload", "POST")
    assert running.until("reloaded")["queries"] == 2
    assert running.until("step")["rows"] == {}
    running.process.send_signal(signal.SIGTERM)
    running.until("stopped")
    assert running.process.wait(MAX_S) == 0
    assert all({"event", "level", "timestamp"} <= line.keys() for line in running.lines)
    assert all("source" in line for line in running.lines if line["event"] == "polled")
    with open_configured_store(load_settings(tmp_path / "config.yaml", {})) as store:
        status = store.process_status()
        assert status is not None
        assert status.value["pid"] == running.process.pid
        assert set(status.value["queries"]) == {"pair", "second"}


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    settings = write_settings(tmp_path)
    (settings.store.directory / "clustercep.db").mkdir(parents=True)
    words = [sys.executable, "-m", "app.cli", "run", "-c", str(tmp_path / "config.yaml")]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=MAX_S, check=False)
    assert ended.returncode == 2
    assert "clustercep: the store" in ended.stderr
    assert "cannot be opened" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_source_that_is_far_behind_holds_up_a_fast_one_up_to_a_bound(tmp_path: Path) -> None:
    """What the operator sees: the problem's text, and the figure."""
    logs, n = tmp_path / "logs", 60
    logs.mkdir()
    write_settings(tmp_path)
    (tmp_path / "config.yaml").write_text(
        "sources:\n"
        "  max_waiting_events: 50\n"
        "  job_history: {enabled: true, directories: [history], interval: 100 ms, lateness: 2 h}\n"
        "  daemon_log: {enabled: true, directory: logs, interval: 100 ms, hold_future: false}\n"
        "store: {directory: store}\nweb: {port: 0}\n" + JSON_LOG
    )
    lost = "INFO org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeImpl: "
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    (logs / "hadoop-yarn-resourcemanager-rm1.log").write_text(
        "".join(f"{at} {lost}node{k}:8041 Node Transitioned from RUNNING to LOST\n" for k in range(n))
    )
    started = Running(tmp_path / "config.yaml")
    patience = threading.Timer(MAX_S, started.process.kill)
    patience.start()
    try:
        place = started.until("endpoints")
        base = f"http://{place['address']}:{place['port']}"
        while started.until("step")["events"] < n:
            pass
        figures = ask(f"{base}/metrics")
        assert 'clustercep_source_left_out{source="job_history"} 1.0' in figures
        assert 'clustercep_source_left_out{source="daemon_log"} 0.0' in figures
        started.process.send_signal(signal.SIGTERM)
        started.until("stopped")
        assert started.process.wait(MAX_S) == 0
    finally:
        patience.cancel()
        started.process.kill()
        started.process.wait()
        assert started.process.stderr is not None
        started.process.stderr.close()
    with open_configured_store(load_settings(tmp_path / "config.yaml", {})) as store:
        (problem,) = [problem for problem in store.problems() if problem.kind == "left_out"]
    assert problem.source == "job_history"
    assert problem.message.startswith(
        f"{n} events wait for it, more than sources.max_waiting_events (50): it stands at "
    )
    assert "They go on without it until it is half as far behind" in problem.message
    assert problem.message.endswith("look at its lateness and at its machine's clock")
