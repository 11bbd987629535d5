"""Wall clocks as arguments: the system's for `run`, one that is set for replays and tests."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since the epoch."""

    def now_ms(self) -> int:
        """The time now."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """The time now."""
        return time.time_ns() // 1_000_000


class SetClock:
    """A clock that stands until it is set; it never goes back."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time that was set last."""
        return self._now_ms

    def advance_to(self, now_ms: int) -> None:
        """Set the clock; earlier times are refused."""
        if now_ms < self._now_ms:
            raise ValueError(f"the clock stands at {self._now_ms} ms and cannot go back to {now_ms} ms")
        self._now_ms = now_ms
