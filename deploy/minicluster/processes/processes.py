"""Starts, watches and ends the cluster's processes, each under a guard (see guard.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy.minicluster.errors import StartError

GUARD = Path(__file__).with_name("guard.py")
TAIL_LINES = 15
STOP_GRACE_S = 6.0


def tail(path: Path, n_lines: int = TAIL_LINES) -> str:
    """The last lines of a log, or why there are none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 64 * 1024))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(lines[-n_lines:]) or "(the log is empty)"


@dataclass
class Process:
    """A guarded process. `logs`: where to look when it fails, the most telling first."""

    name: str
    guard: subprocess.Popen[bytes]
    logs: tuple[Path, ...]

    @property
    def pid(self) -> int:
        """The guard's process id: the root of the process tree."""
        return self.guard.pid

    def is_running(self) -> bool:
        """Whether the guard still runs."""
        return self.guard.poll() is None

    def start_beside(self, command: list[str], log: Path) -> None:
        """Start another process in the same tree."""
        if self.guard.stdin is None or not self.is_running():
            raise StartError(f"{self.name} is not running: nothing can be started beside it")
        self.guard.stdin.write(json.dumps({"start": command, "log": str(log)}).encode() + b"\n")
        self.guard.stdin.flush()

    def request_stop(self) -> None:
        """Ask the tree to end; closing standard input is the request."""
        if self.guard.stdin is not None and not self.guard.stdin.closed:
            self.guard.stdin.close()

    def wait(self, timeout_s: float) -> int | None:
        """Exit status, None when it still runs after `timeout_s`."""
        try:
            status = self.guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self.request_stop()  # nobody listens any more
        return status

    def failure(self, what: str) -> StartError:
        """An error that quotes the end of the process's log."""
        log = next((path for path in self.logs if path.exists() and path.stat().st_size), self.logs[0])
        return StartError(f"{self.name}: {what}\nlast lines of {log}:\n{tail(log)}")


def start(
    name: str,
    command: list[str],
    log: Path,
    environment: dict[str, str],
    *,
    cwd: Path,
    hostname: str = "master",
    more_logs: Iterable[Path] = (),
) -> Process:
    """Start `command` under a guard, in a session of its own so that Ctrl-C reaches only us."""
    guard = subprocess.Popen(  # noqa: S603 - our own interpreter and script
        [sys.executable, str(GUARD), "--hostname", hostname, "--grace", str(STOP_GRACE_S), str(log), *command],
        stdin=subprocess.PIPE,
        env=environment,
        cwd=cwd,
        start_new_session=True,
    )
    return Process(name, guard, (*more_logs, log))


def stop_all(processes: Iterable[Process]) -> None:
    """End all trees at once and wait; kills the guards that do not come back."""
    listed = list(processes)
    for process in listed:
        process.request_stop()
    deadline = time.monotonic() + STOP_GRACE_S + 10
    for process in listed:
        if process.wait(max(0.1, deadline - time.monotonic())) is None:
            process.guard.kill()
            process.guard.wait()


def wait_until(
    condition: Callable[[], bool], what: str, timeout_s: float, watched: Iterable[Process], interval_s: float = 0.5
) -> None:
    """Poll `condition`. Raises StartError when a watched process ends or time is up."""
    listed = list(watched)
    deadline = time.monotonic() + timeout_s
    while not condition():
        for process in listed:
            if not process.is_running():
                raise process.failure(f"ended with status {process.guard.returncode} before {what}")
        if time.monotonic() > deadline:
            culprit = listed[0]
            raise culprit.failure(f"not {what} within {timeout_s:.0f} s")
        time.sleep(interval_s)


def base_environment(work_dir: Path, java_home: str) -> dict[str, str]:
    """A clean environment: nothing of the caller's leaks into logs or containers."""
    return {
        "PATH": f"{work_dir}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(work_dir / "home"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "JAVA_HOME": java_home,
        "HADOOP_USER_NAME": "hadoop",
        "USER": "hadoop",
        "LOGNAME": "hadoop",
        "HADOOP_CONF_DIR": str(work_dir / "conf" / "client"),
    }


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
