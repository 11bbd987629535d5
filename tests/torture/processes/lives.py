"""Lives of `clustercep run` that cost little: a process that has imported everything forks each of them.

`python -m tests.torture.processes.lives` is that process. It takes one JSON object per line, starts what it says and
answers with one line: {"config", "log", "die", "retention_s"} with the number of the new process, {"end": pid} with
"ended" after a `kill -9`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from tests.torture.processes.dying import armed_after

ROOT = Path(__file__).parents[3]
RETENTION_S = 0.2
"""Between two times that a life deletes what is old: so that there is something to kill it in."""

PR_SET_PDEATHSIG = 1

PLACES = ("migration", "retention", "reload", "dispatch")
"""Within which a life may be told to die."""


class Lives:
    """The process that forks lives."""

    def __init__(self) -> None:
        words = [sys.executable, "-m", "tests.torture.processes.lives"]
        self._nursery = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = threading.Lock()

    def start(
        self, config: Path, log: Path, die: tuple[str, int] | None = None, *, retention_s: float = RETENTION_S
    ) -> int:
        """The number of the new process. `die`: it kills itself at the n-th statement of this one of PLACES."""
        return int(self._ask({"config": str(config), "log": str(log), "die": die, "retention_s": retention_s}))

    def end(self, pid: int) -> None:
        """Kill it, unless it is dead by now, and wait for its end."""
        self._ask({"end": pid})

    def close(self) -> None:
        """Start no more."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.close()
        self._nursery.wait(60)
        self._nursery.stdout.close()

    def _ask(self, wish: dict[str, Any]) -> str:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        with self._lock:
            self._nursery.stdin.write(json.dumps(wish) + "\n")
            self._nursery.stdin.flush()
            answer = self._nursery.stdout.readline()
        if not answer:
            raise RuntimeError("the process that starts lives has ended")
        return answer.strip()


@contextmanager
def lives() -> Iterator[Lives]:
    """One such process; those whom it has started end with it."""
    started = Lives()
    try:
        yield started
    finally:
        started.close()


def is_dead(pid: int) -> bool:
    """Whether a process has ended, though nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # the latter: it has ended since the file was opened
        return True


# ------------------------------------------------------------------ the process


def main() -> None:
    """Start lives until standard input ends."""
    import engine

    engine.warm_kernels()
    born: set[int] = set()
    for line in sys.stdin:
        wish = json.loads(line)
        if "end" in wish:
            born.discard(wish["end"])
            _end(wish["end"])
            answer = "ended"
        else:
            pid = os.fork()
            if pid == 0:
                _live(wish)
            born.add(pid)
            answer = str(pid)
        print(answer, flush=True)
    for pid in born:
        _end(pid)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _live(wish: dict[str, Any]) -> NoReturn:
    """Be `clustercep run` until the end."""
    import app.process.supervisor
    from app.cli import cli

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it does not outlive who would end it
    with Path(wish["log"]).open("ab", buffering=0) as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for standard in (1, 2):
            os.dup2(log.fileno(), standard)
    app.process.supervisor._compile = lambda: None  # they were loaded before the fork
    app.process.supervisor.RETENTION_INTERVAL_S = wish["retention_s"]
    if wish["die"] is not None:
        _die_in(*wish["die"])
    code = 1
    try:
        cli(["run", "-c", wish["config"]], standalone_mode=False)
        code = 0
    finally:
        os._exit(code)


def _die_in(place: str, n_statements: int) -> None:
    """From the first time that this place is reached, count statements, and end with the n-th."""
    from alembic import command

    from app.alerting.dispatch.dispatcher import Dispatcher
    from app.process.runner import Runner

    armed = armed_after(n_statements)
    if place == "migration":
        command.upgrade = armed(command.upgrade)
    elif place == "dispatch":
        Dispatcher._look = armed(Dispatcher._look)  # type: ignore[method-assign]
    elif place == "retention":
        Runner.clean = armed(Runner.clean)  # type: ignore[method-assign]
    else:
        Runner.reload = armed(Runner.reload)  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
