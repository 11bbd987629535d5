"""Another process that does the work of this one's command: signals reach it, and it does not outlive us."""

from __future__ import annotations

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


__all__ = ["passing_signals_on"]
