"""Queries that viewers run, each in a process of its own, only so many at once.

A thread could not be stopped inside a kernel, and its memory and its hold of the interpreter would be felt by every
viewer. A process can be ended at any instant, keeps its memory to itself and gives it all back. It takes a second or
more to start: while somebody is at the editor one waits that has loaded all it needs.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from app.errors import AppError
from app.queries.messages import (
    End,
    EndReason,
    Failure,
    HistoryLimits,
    Note,
    Progress,
    QueryRequest,
    ResultRow,
    RunLimits,
    Tasks,
    WindowValues,
    from_json,
    request_line,
)

N_AT_ONCE = 2
WORKER = (sys.executable, "-P", "-m", "dashboard.queries.worker")
ROOT = Path(__file__).parents[2]
MAX_LINE_BYTES = 8 * 2**20
SPARE_S = 600.0
"""So long a process that waits is used; it ends by itself some time later (`worker.IDLE_S`)."""
PATIENCE_MS = 15_000
"""Beyond its time limit, a process that has not ended by itself is ended."""


L = TypeVar("L", bound=RunLimits | HistoryLimits)


class TooManyRunsError(AppError):
    """As many queries run as may run at once."""


@dataclass(frozen=True)
class Snapshot:
    """How far a run is. `end` or `failure` is set when it is over, neither after `stop`."""

    rows: tuple[ResultRow, ...]
    progress: Progress | None
    end: End | None
    failure: str | None
    is_over: bool
    is_stopped: bool
    """By the viewer."""
    seconds: float
    tasks: Tasks | None = None
    """Of a run on Spark."""
    notes: tuple[str, ...] = ()
    windows: tuple[WindowValues, ...] = ()
    """Of a query about trends, in order of their ends."""
    first_row_s: float | None = None
    """When the first row had come, in seconds from the begin."""


class QueryRun(Generic[L]):
    """One query under way; safe to ask from any thread."""

    patience_ms = PATIENCE_MS

    def __init__(
        self, request: QueryRequest, limits: L, process: subprocess.Popen[bytes], clock: Callable[[], float]
    ) -> None:
        """`process` reads the request and evaluates it; see `started`."""
        self.id = secrets.token_hex(8)
        self.request = request
        self.limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: list[ResultRow] = []
        self._progress: Progress | None = None
        self._tasks: Tasks | None = None
        self._notes: list[str] = []
        self._windows: list[WindowValues] = []
        self._end: End | None = None
        self._failure: str | None = None
        self._is_stopped = False
        self._started = clock()
        self._ended: float | None = None
        self._first_row_s: float | None = None
        self._over = threading.Event()
        self._has_news = threading.Event()
        """It has a row, or is over: there is something to show."""
        self._process = process
        threading.Thread(target=self._follow, daemon=True, name="query-run").start()

    @property
    def is_over(self) -> bool:
        """True once the process has gone."""
        return self._over.is_set()

    def snapshot(self) -> Snapshot:
        """What is known now."""
        self._end_when_overdue()
        with self._lock:
            return Snapshot(
                rows=tuple(self._rows),
                progress=self._progress,
                end=self._end,
                failure=self._failure,
                is_over=self.is_over,
                is_stopped=self._is_stopped,
                seconds=(self._clock() if self._ended is None else self._ended) - self._started,
                tasks=self._tasks,
                notes=tuple(self._notes),
                windows=tuple(self._windows),
                first_row_s=self._first_row_s,
            )

    def stop(self) -> None:
        """End it now; what has come so far stays."""
        with self._lock:
            self._is_stopped = self._is_stopped or not self.is_over
        self._ask_to_end()

    def wait(self, timeout_s: float) -> bool:
        """Until it is over; False when it is not after so long."""
        return self._over.wait(timeout_s)

    def wait_for_rows(self, timeout_s: float) -> bool:
        """Until it has its first row or is over; False when neither after so long."""
        return self._has_news.wait(timeout_s)

    def _end_when_overdue(self) -> None:
        if not self.is_over and (self._clock() - self._started) * 1000 > self.limits.timeout_ms + self.patience_ms:
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        """Nothing that the process does needs an end of its own."""
        self._process.kill()

    def _end_process(self) -> None:
        """Nobody reads it any more."""
        self._process.kill()

    def _follow(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request_line(self.request, self.limits))
            process.stdin.flush()
            while line := process.stdout.readline(MAX_LINE_BYTES):
                self._take(line)
        except (OSError, ValueError) as error:
            with self._lock:
                self._failure = self._failure or f"the run broke off: {error}"
        finally:
            self._end_process()
            process.stdout.close()
            self._close_input()
            self._conclude(process.wait())

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:  # it went before it had read the request; its exit code is told
            return

    def _take(self, line: bytes) -> None:
        message = from_json(json.loads(line))
        with self._lock:
            match message:
                case Progress():
                    self._progress = message
                case Tasks():
                    self._tasks = message
                case Note():
                    self._notes.append(message.text)
                case ResultRow():
                    if not self._rows:
                        self._first_row_s = self._clock() - self._started
                        self._has_news.set()
                    self._rows.append(message)
                case WindowValues():
                    self._windows.append(message)
                case End():
                    self._end = message
                case Failure():
                    self._failure = message.message

    def _conclude(self, code: int) -> None:
        with self._lock:
            self._ended = self._clock()
            if self._end is None and self._failure is None and not self._is_stopped:
                if code == -signal.SIGALRM or self._is_overdue():
                    self._end = self._cut_off()
                else:
                    self._failure = _reason(code)
            self._over.set()
            self._has_news.set()

    def _is_overdue(self) -> bool:
        assert self._ended is not None
        return (self._ended - self._started) * 1000 >= self.limits.timeout_ms

    def _cut_off(self) -> End:
        """It was ended in the middle of a step: what has come is all there is."""
        progress = self._progress
        return End(
            reason=EndReason.TIME_LIMIT,
            n_events=0 if progress is None else progress.n_events,
            n_rows=len(self._rows),
            n_rejected=0,
            n_unfinished=0,
            n_late=0,
            capped=False,
            assumes_end=False,
            seconds=self.limits.timeout_ms / 1000,
        )


def started(command: Sequence[str], *, own_session: bool = False) -> subprocess.Popen[bytes]:
    """A process for one run, which leads a group of processes of its own where it will have others; raises OSError."""
    return subprocess.Popen(  # noqa: S603  # the command is a constant of ours
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": _module_path()},
        start_new_session=own_session,
    )


class Spare:
    """A process that waits for the next run, at most one; safe for several threads."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float]) -> None:
        self._command, self._clock = command, clock
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[bytes] | None = None
        self._since = 0.0

    def prepare(self) -> None:
        """Let one wait. Where none can be started the next run will tell."""
        with self._lock, suppress(OSError):
            if self._usable() is None:
                self._waiting, self._since = started(self._command), self._clock()

    def take(self) -> subprocess.Popen[bytes]:
        """The one that waits, else a new one; raises OSError."""
        with self._lock:
            process = self._usable()
            self._waiting = None
        return started(self._command) if process is None else process

    def close(self) -> None:
        """None waits any more."""
        with self._lock:
            self._drop()

    def _usable(self) -> subprocess.Popen[bytes] | None:
        if self._waiting is not None and (self._waiting.poll() is not None or self._clock() - self._since >= SPARE_S):
            self._drop()
        return self._waiting

    def _drop(self) -> None:
        process, self._waiting = self._waiting, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        process.wait()


R = TypeVar("R", bound=QueryRun[Any])


class RunPool(Generic[L, R]):
    """Runs of all viewers, at most `n_at_once` at a time. `begin` starts one; it raises OSError where it cannot."""

    def __init__(self, n_at_once: int, begin: Callable[[QueryRequest, L], R]) -> None:
        self.n_at_once = n_at_once
        self._begin = begin
        self._lock = threading.Lock()
        self._runs: list[R] = []

    @property
    def n_running(self) -> int:
        """How many run now."""
        with self._lock:
            return len(self._alive())

    def start(self, request: QueryRequest, limits: L) -> R:
        """Begin a run; raises TooManyRunsError, and AppError when no process can be started."""
        with self._lock:
            if len(self._alive()) >= self.n_at_once:
                raise TooManyRunsError(self.too_many())
            try:
                run = self._begin(request, limits)
            except OSError as error:
                raise AppError(f"no process could be started for the query: {error.strerror or error}") from None
            self._runs.append(run)
            return run

    def too_many(self) -> str:
        """What a viewer is told for whom there is no place."""
        return (
            f"{self.n_at_once} queries run already, which is as many as may run at once; "
            "try again when one of them is over"
        )

    def stop_all(self) -> None:
        """End every run."""
        with self._lock:
            for run in self._alive():
                run.stop()

    def _alive(self) -> list[R]:
        self._runs = [run for run in self._runs if not run.is_over]
        for run in self._runs:
            run.snapshot()  # ends those that are overdue, though nobody looks at them any more
        return self._runs


class QueryPool(RunPool[RunLimits, QueryRun[RunLimits]]):
    """The runs over the event log."""

    def __init__(
        self,
        n_at_once: int = N_AT_ONCE,
        command: Sequence[str] = WORKER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spare = Spare(tuple(command), clock)
        super().__init__(n_at_once, lambda request, limits: QueryRun(request, limits, self._spare.take(), clock))

    def prepare(self) -> None:
        """Somebody is about to run a query: it will not wait for its process to start."""
        self._spare.prepare()

    def stop_all(self) -> None:
        """See RunPool; nothing waits any more either."""
        super().stop_all()
        self._spare.close()


def memory_limit_bytes(most_bytes: int = 4 * 2**30) -> int:
    """What one run may take: a quarter of the machine's memory, at most `most_bytes`."""
    try:
        total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return most_bytes
    return min(most_bytes, total_bytes // 4)


def _module_path() -> str:
    """The same modules as here; relative paths of the settings still start at the present folder."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def _reason(code: int) -> str:
    if code in (-signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV):
        return (
            "the system ended the run, most likely for want of memory; choose a shorter time span, a shorter WITHIN, "
            "or predicates that keep fewer events"
        )
    return f"the run ended without a result (exit code {code}); the dashboard's log says why"


__all__ = [
    "N_AT_ONCE",
    "QueryPool",
    "QueryRun",
    "RunPool",
    "Snapshot",
    "Spare",
    "TooManyRunsError",
    "memory_limit_bytes",
    "started",
]
