"""Signals that ask a process to end, and handlers of them that hold for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a program that does not read its configuration again on SIGHUP."""

KILLED_BY_SIGNAL = 128
"""Added to a signal's number, as shells tell it."""


@contextmanager
def handling(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Within it these handlers hold; then those from before again, whoever set others meanwhile. Main thread only."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(returncode: int) -> int:
    """Of a program that ends as its child did, by that child's `Popen.returncode`."""
    return returncode if returncode >= 0 else KILLED_BY_SIGNAL - returncode


__all__ = ["ENDING", "KILLED_BY_SIGNAL", "Handler", "exit_code", "handling"]
