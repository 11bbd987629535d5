"""Memory that is free inside the process goes back to the system, once a minute.

Each step makes tables a little larger than those it drops, so that the allocator (glibc) seldom finds a hole that fits,
and what lies above the holes keeps them from being returned: without this, 25 to 40 MiB of holes gather in an hour.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

EVERY_MS = 60_000
OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""As Python has it: 700."""


def trim_of_libc() -> Callable[[], object]:
    """glibc's malloc_trim, which returns the free pages of all arenas; does nothing where there is none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda: None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda: trim(0)


class SpareMemory:
    """Gives back what nobody uses."""

    def __init__(self, trim: Callable[[], object] | None = None, every_ms: int = EVERY_MS) -> None:
        self._trim = trim_of_libc() if trim is None else trim
        self._every_ms = every_ms
        self._last_ms: int | None = None

    def give_back(self, now_ms: int) -> None:
        """At most once in `every_ms`, and not at the first call."""
        if self._last_ms is None:
            self._last_ms = now_ms
        elif not 0 <= now_ms - self._last_ms < self._every_ms:
            self._last_ms = now_ms
            self._trim()


def rarely_collect() -> None:
    """Let Python look for cyclic garbage less often, and no more at what is there since the start.

    Half a million objects of libraries, looked at again and again, were a fourth of a storm's processor time; those of
    100,000 alerts, a third of an answer of the API.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
