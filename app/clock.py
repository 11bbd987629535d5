"""Wall clocks as arguments: a steady one for `run`, the system's for commands, one that is set for replays, tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

JUMP_MS = 5_000
"""By how much more than the time that has passed a clock has to change for that to be a jump; less is followed."""
LEAST_HOLD_MS = 10_000
"""For so long a jump has to last before it is believed, however short the sources' intervals are."""


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


def elapsed_ms() -> int:
    """A clock that nobody sets. Where the system has such a one it goes on while the machine is suspended."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


@dataclass(frozen=True)
class Jump:
    """The machine's clock changed by `by_ms` more than the time that had passed, when the time was `at_ms`.

    Believed: from now on the time is what that clock says. Else the time goes on as if nothing had happened.
    """

    at_ms: int
    by_ms: int
    is_believed: bool

    @property
    def message(self) -> str:
        """What an operator has to know."""
        way = "forward" if self.by_ms > 0 else "back"
        found = f"the machine's clock jumped {way} by {abs(self.by_ms) / 1000:,.0f} s"
        if self.is_believed:
            return f"{found} and stayed there: times are now those of the clock; look at what sets it (NTP)"
        return f"{found}: times go on as before until that has lasted; look at what sets it (NTP)"


class SteadyClock:
    """The machine's clock without its short jumps.

    Each look compares it with a clock that nobody sets. When the two part by more than `jump_ms` the time goes on by
    the latter, until the jump has lasted for `hold_ms`: then the machine's clock is believed. One back to where the
    time went on before, for longer than since, is a correction and believed at once. Slow corrections are followed at
    once. A suspended machine is no jump where `elapsed` goes on meanwhile.
    """

    def __init__(
        self,
        wall: Clock | None = None,
        elapsed: Callable[[], int] = elapsed_ms,
        *,
        jump_ms: int = JUMP_MS,
        hold_ms: int = LEAST_HOLD_MS,
    ) -> None:
        self.hold_ms = hold_ms
        self._wall = wall or SystemClock()
        self._elapsed = elapsed
        self._jump_ms = jump_ms
        self._lock = threading.Lock()
        self._agreed = self._wall.now_ms(), elapsed()
        """The two clocks when they last agreed."""
        self._since: tuple[int, int] | None = None
        """Of a jump that is not believed yet: by how much, and when it was seen, by `elapsed`."""
        self._jumps: list[Jump] = []
        self._begun = self._agreed[1]
        """When the time began to go on as it does, by `elapsed`."""
        self._before: tuple[int, int] | None = None
        """By how much the time jumped then, and for how long it had gone on as before."""

    def now_ms(self) -> int:
        """The time now."""
        with self._lock:
            return self._look()

    def take_jumps(self) -> list[Jump]:
        """The jumps since the last call."""
        with self._lock:
            self._look()
            jumps, self._jumps = self._jumps, []
            return jumps

    def _look(self) -> int:
        wall_ms, elapsed = self._wall.now_ms(), self._elapsed()
        going_on_ms = self._agreed[0] + elapsed - self._agreed[1]
        by_ms = wall_ms - going_on_ms
        if abs(by_ms) <= self._jump_ms:
            self._agreed, self._since = (wall_ms, elapsed), None
            return wall_ms
        if self._since is None or abs(by_ms - self._since[0]) > self._jump_ms:
            self._since = by_ms, elapsed
            self._jumps.append(Jump(going_on_ms, by_ms, is_believed=False))
        if elapsed - self._since[1] < self.hold_ms and not self._is_correction(by_ms, elapsed):
            return going_on_ms
        self._agreed, self._since = (wall_ms, elapsed), None
        self._before, self._begun = (by_ms, elapsed - self._begun), elapsed
        self._jumps.append(Jump(wall_ms, by_ms, is_believed=True))
        return wall_ms

    def _is_correction(self, by_ms: int, elapsed: int) -> bool:
        if self._before is None:
            return False
        jumped_ms, lasted_ms = self._before
        return abs(by_ms + jumped_ms) <= self._jump_ms and elapsed - self._begun < lasted_ms


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
