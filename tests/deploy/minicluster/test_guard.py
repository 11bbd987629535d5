"""The guard ends every process of its tree. A FIFO as log shows it: it closes when nobody can write to it any more."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from deploy.minicluster.processes.processes import GUARD

# Starts a process in a session of its own that ignores SIGTERM, tells its id and its guard's, and then ends or waits.
PARENT = """
import os, subprocess, sys
orphan = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", orphan], start_new_session=True)
print("pid", child.pid, flush=True)
if sys.argv[1] == "end":
    sys.exit(7)
child.wait()
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    os.mkfifo(path)
    return path


def start(fifo: Path, *command: str) -> tuple[subprocess.Popen[bytes], IO[str]]:
    guard = subprocess.Popen([sys.executable, str(GUARD), "--grace", "0.2", str(fifo), *command], stdin=subprocess.PIPE)
    return guard, fifo.open(encoding="utf-8")


def read_until(log: IO[str], *words: str) -> None:
    missing = set(words)
    while missing:
        line = log.readline()
        assert line, f"the log ended before {missing}"
        missing -= set(line.split())


def test_tree_ends_with_the_parents_pipe(fifo: Path) -> None:
    guard, log = start(fifo, sys.executable, "-c", PARENT, "wait")
    with log:
        read_until(log, "pid", "up")
        assert guard.stdin is not None
        guard.stdin.close()
        log.read()  # returns when no process of the tree is left
    guard.wait()


def test_tree_ends_on_a_signal(fifo: Path) -> None:
    guard, log = start(fifo, sys.executable, "-c", PARENT, "wait")
    with log:
        read_until(log, "pid", "up")
        guard.send_signal(signal.SIGTERM)
        log.read()
    guard.communicate()


def test_orphans_end_with_the_command_and_its_status_is_kept(fifo: Path) -> None:
    guard, log = start(fifo, sys.executable, "-c", PARENT, "end")
    with log:
        log.read()
    guard.communicate()
    assert guard.returncode == 7


def test_another_process_is_started_in_the_tree(fifo: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    os.mkfifo(second)
    guard, log = start(fifo, sys.executable, "-c", PARENT, "wait")
    assert guard.stdin is not None
    with log:
        read_until(log, "pid")
        request = {"start": [sys.executable, "-c", "import os; print(os.getppid())"], "log": str(second)}
        guard.stdin.write(json.dumps(request).encode() + b"\n")
        guard.stdin.flush()
        with second.open(encoding="utf-8") as other:
            assert int(other.read()) == guard.pid
        guard.stdin.close()
        log.read()
    guard.wait()
