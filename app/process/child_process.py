"""Another process that does the work of this one's command: signals reach it, and it does not outlive us."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from app.process.signals import ENDING, handling


@contextmanager
def passing_signals_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Within it signals go to the process, which is killed in the end if it is still there."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    try:
        with handling(dict.fromkeys(ENDING, pass_on)):
            yield
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def held_back() -> Iterator[None]:
    """Within it signals wait, and a process that is started inherits that: it gets them when it listens to them
    (`signal.pthread_sigmask`), and not in the middle of its imports."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


__all__ = ["held_back", "passing_signals_on"]
