"""Queries over the event store, each a job on Spark in a process of its own.

A job costs a JVM, so fewer run at once than over the event log, and it has something to end: what runs on executors.
It is asked to by the signal of a Ctrl-C and ended by force when it does not obey. It also ends by itself when this
process does, for then its standard input ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from app.queries.messages import HistoryLimits, QueryRequest
from dashboard.queries.pool import QueryRun, RunPool, started

WORKER = (sys.executable, "-P", "-m", "spark_jobs.query.worker")
CANCEL_S = 30.0
"""How long a job may take to end once it was asked to."""

ABSENCE_S = 60.0
"""How long a run goes on without its viewer, whose network may be back soon."""


class HistoryRun(QueryRun[HistoryLimits]):
    """One query over the event store under way."""

    patience_ms = 45_000

    def __init__(
        self,
        request: QueryRequest,
        limits: HistoryLimits,
        process: subprocess.Popen[bytes],
        clock: Callable[[], float],
    ) -> None:
        """`process` leads a group of its own."""
        self._timers_lock = threading.Lock()
        self._end_by_force: threading.Timer | None = None
        self._end_of_absence: threading.Timer | None = None
        super().__init__(request, limits, process, clock)

    def leave(self, absence_s: float = ABSENCE_S) -> None:
        """Its viewer has gone: it is cancelled unless `stay` comes in time."""
        with self._timers_lock:
            if self._end_of_absence is None and not self.is_over:
                self._end_of_absence = _timer(absence_s, self.stop)

    def stay(self) -> None:
        """Its viewer is there."""
        with self._timers_lock:
            if self._end_of_absence is not None:
                self._end_of_absence.cancel()
                self._end_of_absence = None

    def _ask_to_end(self) -> None:
        with self._timers_lock:
            if self._end_by_force is None:
                self._process.send_signal(signal.SIGINT)
                self._end_by_force = _timer(CANCEL_S, self._kill)

    def _end_process(self) -> None:
        """It has closed its output, or what it says makes no sense: it gets the time to end as it should."""
        self.stay()
        self._close_input()  # for which it watches
        try:
            self._process.wait(CANCEL_S)
        except subprocess.TimeoutExpired:
            self._kill()
        with self._timers_lock:
            if self._end_by_force is not None:
                self._end_by_force.cancel()

    def _kill(self) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with its JVM


class HistoryPool(RunPool[HistoryLimits, HistoryRun]):
    """The runs over the event store."""

    def __init__(
        self, n_at_once: int = 1, command: Sequence[str] = WORKER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        words = tuple(command)

        def begin(request: QueryRequest, limits: HistoryLimits) -> HistoryRun:
            return HistoryRun(request, limits, started(words, own_session=True), clock)

        super().__init__(n_at_once, begin)

    def too_many(self) -> str:
        """See RunPool."""
        n = "1 query runs" if self.n_at_once == 1 else f"{self.n_at_once} queries run"
        return (
            f"{n} over the history already, of this or another viewer, which is as many as may run at once "
            "(dashboard.history_queries): each takes a gigabyte of memory or more. Try again when one of them is over"
        )


def _timer(after_s: float, do: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(after_s, do)
    timer.daemon = True
    timer.start()
    return timer


__all__ = ["ABSENCE_S", "CANCEL_S", "HistoryPool", "HistoryRun"]
