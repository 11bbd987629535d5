"""What is asked of the running process, by signals, by its own threads: to stop, to reload, to give up."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from app.errors import AppError
from app.process.signals import KILLED_BY_SIGNAL, handling

LONGEST_SLEEP_S = 0.5
"""How soon a signal is seen that another thread has taken."""


@dataclass(frozen=True)
class Stop:
    """End; with a failure, as one."""

    failure: AppError | None = None


@dataclass(frozen=True)
class Reload:
    """Read configuration and queries again."""


class ControlRequests:
    """What is asked of the process, by signals and by its own threads; safe in a signal handler."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Stop | Reload] = queue.SimpleQueue()

    def stop(self, failure: AppError | None = None) -> None:
        """End the process."""
        self._queue.put(Stop(failure))

    def reload(self) -> None:
        """Reload soon."""
        self._queue.put(Reload())

    def next(self) -> Stop | Reload:
        """Wait for what is asked next; to be called in the main thread."""
        while True:
            # Handlers run in the main thread, but a signal may be taken by another one, which does not wake it.
            with suppress(queue.Empty):
                return self._queue.get(timeout=LONGEST_SLEEP_S)


@contextmanager
def requests_from_signals() -> Iterator[ControlRequests]:
    """SIGINT and SIGTERM ask to stop, SIGHUP to reload. A second one of the former ends the process at once."""
    requests = ControlRequests()
    n_stops = 0

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal n_stops
        n_stops += 1
        if n_stops > 1:
            os._exit(KILLED_BY_SIGNAL + number)  # whatever hangs: nothing of it is waited for
        requests.stop()

    def reload(_number: int, _frame: FrameType | None) -> None:
        requests.reload()

    with handling({signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: reload}):
        yield requests
