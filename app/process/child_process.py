"""Another process that does the work of this one's command: signals reach it, and it does not outlive us."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def passing_signals_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Within it signals go to the process, which is killed in the end if it is still there."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process.poll() is None:
            process.kill()
        process.wait()


__all__ = ["passing_signals_on"]
