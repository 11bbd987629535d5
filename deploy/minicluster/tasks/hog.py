"""Uses processor time: rises from FIRST to LAST cores within RAMP_S seconds, stays there for HOLD_S seconds.

hog.py FIRST LAST RAMP_S HOLD_S
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

PERIOD_S = 0.1


def burn(cpu_s: float) -> None:
    """Use `cpu_s` seconds of processor time, or give up after a few periods when others take the processor."""
    stop_cpu, stop_wall = time.process_time() + cpu_s, time.monotonic() + 5 * PERIOD_S
    while time.process_time() < stop_cpu and time.monotonic() < stop_wall:
        sum(range(2000))


def main() -> None:
    """Rise, hold, end."""
    first, last, ramp_s, hold_s = (float(word) for word in sys.argv[1:5])
    with contextlib.suppress(OSError):
        os.nice(-10)  # where that is allowed: others on the machine must not flatten the rise
    started = time.monotonic()
    owed_since = started
    while (elapsed := time.monotonic() - started) < ramp_s + hold_s:
        level = first + (last - first) * min(1.0, elapsed / ramp_s)
        now = time.monotonic()
        burn(level * min(now - owed_since, 1.0) if now > owed_since else 0.0)
        owed_since = now
        time.sleep(max(0.0, PERIOD_S - (time.monotonic() - now)))


if __name__ == "__main__":
    main()
