"""How long what is under way may still take: nested limits of which the earliest counts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline_s: ContextVar[float] = ContextVar("deadline_s", default=math.inf)
"""Of this thread, on the monotonic clock. A new thread begins without one."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is done inside ends within so many seconds, and no later than what stands around it."""
    token = _deadline_s.set(min(_deadline_s.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline_s.reset(token)


def remaining_s() -> float:
    """Seconds until the deadline: 0 when it is over, infinite without one."""
    return max(0.0, _deadline_s.get() - time.monotonic())
