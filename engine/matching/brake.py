"""The brake: what searches in the processor's time, where their steps took longer than accounts take them for.

Accounts (`engine.matching.work_account`) are counted in steps of searches, so that what is left out depends on the
stream alone. What a step takes is known for ordinary ones; a query may be such that it takes many times as long, or
that work between the steps does. So each runtime also has so many seconds of its thread's processor time, which its
events add to like to an account. When they are spent, its accounts are emptied until the end of the step: its searches
stop as they do where an account has nothing left, and tell it in the same way. That is for the worst alone, for it
depends on the machine: a stream that is evaluated again may be cut elsewhere, or not at all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from engine.kernels.compile.uncompiled import preparing_s, runs_as_python
from engine.matching.work_account import WorkAccount

if TYPE_CHECKING:
    from engine.matching.output.match_row import MatchRow
    from engine.stream.columns import StreamColumns

SECONDS = 2.0
"""A runtime has so many at first. These, and those of steps and events, are for the default limits, and more for those
who ask for more."""
SECONDS_PER_STEP = 0.5
"""Each step adds so many, without which many small steps after a hard one would all be cut."""
SECONDS_PER_EVENT = 0.0002
"""Each event adds so many, some two hundred times what an ordinary query takes for it."""
_SECONDS_PER_ROW = 0.00001
"""Each row that is handed over in the step adds so many."""
_LOOKS_EVERY_S = 0.1
_LOOKS_ALONE = 50
"""After so many looks without a step the watching thread waits for the next one."""


class Brake:
    """The seconds of one runtime, and the accounts that are emptied when they are spent."""

    def __init__(self, times: float = 1.0) -> None:
        """`times`: of all the seconds above."""
        self._times = times
        self.left_s = times * SECONDS
        self._accounts: list[WorkAccount] = []
        self._running: _Running | None = None

    def anew(self, times: float) -> Brake:
        """One for another runtime, with so many times its seconds."""
        return type(self)(times * self._times)

    def account(self, work_budget: int, times: int = 1, n_sharing: int = 1) -> WorkAccount:
        """A new account that this brake empties."""
        account = WorkAccount(work_budget, times, n_sharing)
        self._accounts.append(account)
        return account

    def step(self, n_events: int, n_kept: int) -> _Step:
        """Within it the calling thread evaluates so many new events, beside those that it has kept."""
        return _Step(self, n_events, n_kept)

    def handing_over(self, n_rows: int) -> _HandingOver:
        """Within it somebody else does something with so many rows: that is not this runtime's time."""
        return _HandingOver(self._running, self._times * _SECONDS_PER_ROW * n_rows)

    def _begin(self, n_events: int, n_kept: int) -> _Running | None:
        if self._running is not None or runs_as_python():
            return None
        added_s = SECONDS_PER_STEP + SECONDS_PER_EVENT * n_events
        most_s = SECONDS + SECONDS_PER_EVENT * (n_events + n_kept)
        self.left_s = min(max(self.left_s, 0.0) + self._times * added_s, self._times * most_s)
        running = self._running = _Running(self, self.left_s)
        _WATCH.add(running)
        return running

    def _end(self, running: _Running) -> None:
        _WATCH.remove(running)
        self._running = None
        self.left_s = running.left_s
        if running.is_over:
            self.release()

    def empty(self) -> None:
        """Until the end of the step no search goes on. A kernel may write what it had left over it: done again."""
        for account in self._accounts:
            account.empty()

    def release(self) -> None:
        """After `empty`: searches go on with what is paid in from now on."""
        for account in self._accounts:
            account.release()


class _Step:
    """See `Brake.step`. Entered and left once per batch and query: a generator in its place takes several times as
    long."""

    __slots__ = ("_brake", "_of", "_running")

    def __init__(self, brake: Brake, n_events: int, n_kept: int) -> None:
        self._brake = brake
        self._of = n_events, n_kept
        self._running: _Running | None = None

    def __enter__(self) -> None:
        self._running = self._brake._begin(*self._of)

    def __exit__(self, *_raised: object) -> None:
        if self._running is not None:
            self._brake._end(self._running)


class _HandingOver:
    """See `Brake.handing_over`."""

    __slots__ = ("_added_s", "_before_s", "_running")

    def __init__(self, running: _Running | None, added_s: float) -> None:
        self._running = running
        self._added_s = added_s
        self._before_s = 0.0

    def __enter__(self) -> None:
        if self._running is not None:
            self._before_s = self._running.left_s
            self._running.is_paused = True

    def __exit__(self, *_raised: object) -> None:
        if self._running is not None:
            self._running.add(self._before_s - self._running.left_s + self._added_s)
            self._running.is_paused = False


class _Running:
    """A step that a thread is in."""

    def __init__(self, brake: Brake, most_s: float) -> None:
        self._brake = brake
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._end_s = self._now_s() + most_s
        self.is_paused = False
        self.is_over = False

    def _now_s(self) -> float:
        return time.clock_gettime(self._clock) - preparing_s(self._thread)

    @property
    def left_s(self) -> float:
        """What is left of its processor time; what the compiler takes is not counted."""
        return self._end_s - self._now_s()

    def add(self, seconds: float) -> None:
        """Let it take so much more."""
        self._end_s += seconds

    def look(self) -> None:
        """Empty the accounts when all is spent."""
        if self.is_over or (not self.is_paused and self.left_s < 0.0):
            self.is_over = True
            self._brake.empty()


class _Watch:
    """A thread that looks at all steps while there are any; it ends with the process."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Without a step, and without the thread."""
        self._lock = threading.Lock()
        self._running: set[_Running] = set()
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, running: _Running) -> None:
        """From now on."""
        with self._lock:
            self._running.add(running)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_on, name="brake", daemon=True)
                self._thread.start()
        if not self._begun.is_set():
            self._begun.set()

    def remove(self, running: _Running) -> None:
        """It is not looked at when this has returned."""
        with self._lock:
            self._running.discard(running)

    def _look_on(self) -> None:
        pause, n_alone = threading.Event(), 0
        while True:
            self._begun.wait()
            pause.wait(_LOOKS_EVERY_S)
            with self._lock:
                n_alone = 0 if self._running else n_alone + 1
                if n_alone > _LOOKS_ALONE:
                    self._begun.clear()
                    n_alone = 0
                for running in self._running:
                    running.look()


_WATCH = _Watch()
os.register_at_fork(after_in_child=_WATCH.begin)  # threads do not come along

Advance = TypeVar("Advance", bound=Callable[..., Any])


def braked(advance: Advance) -> Advance:
    """`advance` of a runtime, within a step of the brake of its limits; one within another is part of that one."""

    @wraps(advance)
    def within(runtime: Any, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        with runtime.limits.brake.step(len(stream), runtime.n_rows):
            rows: Sequence[MatchRow] = advance(runtime, stream, watermark_ms)
            return rows

    return within  # type: ignore[return-value]


__all__ = ["SECONDS", "SECONDS_PER_EVENT", "SECONDS_PER_STEP", "Brake", "braked"]
