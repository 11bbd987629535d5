"""Uses processor time: rises from FIRST to LAST cores within RAMP_S seconds, stays there for HOLD_S seconds.

hog.py FIRST LAST RAMP_S HOLD_S
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PERIOD_S = 0.1
AUTOGROUP = Path("/proc/self/autogroup")


def burn(cpu_s: float) -> None:
    """Use `cpu_s` seconds of processor time, or give up after a few periods when others take the processor."""
    stop_cpu, stop_wall = time.process_time() + cpu_s, time.monotonic() + 5 * PERIOD_S
    while time.process_time() < stop_cpu and time.monotonic() < stop_wall:
        sum(range(2000))


@contextlib.contextmanager
def preferred() -> Iterator[None]:
    """Go before others on the machine where that is allowed: they must not flatten the rise.

    Where the system gives every session its share, the session's niceness counts and not the process's.
    """
    with contextlib.suppress(OSError):
        os.nice(-10)
        AUTOGROUP.write_text("-10")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text("0")


def rise_and_hold(first: float, last: float, ramp_s: float, hold_s: float) -> None:
    """Use `first` cores, then more and more, after `ramp_s` seconds `last`, for `hold_s` seconds."""
    started = time.monotonic()
    owed_since = started
    while (elapsed := time.monotonic() - started) < ramp_s + hold_s:
        level = first + (last - first) * min(1.0, elapsed / ramp_s)
        now = time.monotonic()
        burn(level * min(now - owed_since, 1.0) if now > owed_since else 0.0)
        owed_since = now
        time.sleep(max(0.0, PERIOD_S - (time.monotonic() - now)))


def main() -> None:
    """Rise, hold, end."""
    with preferred():
        rise_and_hold(*(float(word) for word in sys.argv[1:5]))


if __name__ == "__main__":
    main()
