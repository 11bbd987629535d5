"""When things happen: a thread per source, which follows the sources when those change, and the thread of the steps.

All by time that passes: whoever sets the machine's clock neither stops nor hastens anything.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import structlog

from app.live.assembly import Live

log = structlog.get_logger(__name__)

LONGEST_STEP_INTERVAL_MS = 1_000
SILENT_POLLS = 3
"""A process that polled no source for so many of its intervals finds nothing."""
TURN_S = 0.001
"""As Python has it: 0.005."""


def take_short_turns() -> None:
    """Let a thread that waits for the interpreter have it soon.

    Whoever asks the database lets go of it with each statement, and would wait for a whole turn of each busy thread
    before it may go on: a transaction of a hundred statements holds the store several times as long then.
    """
    sys.setswitchinterval(TURN_S)


class Repeated:
    """A call at an interval, in a thread of its own that the process does not wait for at its end.

    The interval is one of time that passes, whatever the machine's clock is set to. A call that takes longer than it is
    followed by the next one; one that fails, too. One that returns True has more to do: the next one follows when as
    much time has passed as it took, so that half of the thread's time is left to others.
    """

    def __init__(self, name: str, call: Callable[[], bool | None], interval_s: float, *, at_once: bool) -> None:
        self.interval_s = interval_s
        self._name = name
        self._call = call
        self._at_once = at_once
        self._changed = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin, with a call or with the first interval."""
        self._thread.start()

    def follow(self, interval_s: float) -> None:
        """Call at another interval from now on."""
        self.interval_s = interval_s
        self._changed.set()

    def stop(self) -> None:
        """Make no further call; one that is under way is not waited for."""
        self._stopping = True
        self._changed.set()

    def _work(self) -> None:
        due_s = time.monotonic() + (0.0 if self._at_once else self.interval_s)
        while True:
            if self._changed.wait(max(due_s - time.monotonic(), 0.0)):
                self._changed.clear()
                due_s = time.monotonic() + self.interval_s
            if self._stopping:
                return
            if time.monotonic() < due_s:
                continue
            begun_s, goes_on = time.monotonic(), None
            try:
                goes_on = self._call()
            except Exception:  # a boundary: the next call may succeed
                log.exception("a call failed; it is made again after its interval", name=self._name)
            ended_s = time.monotonic()
            due_s = max(due_s + self.interval_s, ended_s)
            if goes_on:
                due_s = min(due_s, ended_s + (ended_s - begun_s))


class StepThread:
    """Makes a step after every poll, and at the latest after an interval."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.interval_ms = LONGEST_STEP_INTERVAL_MS
        self._step = step
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="steps", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether it works."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin with a step."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Something is there for a step; returns at once."""
        self._wake.set()

    def stop(self) -> None:
        """Make no further step; the one under way is not waited for."""
        self._stopping = True
        self._wake.set()

    def _work(self) -> None:
        while not self._stopping:
            self._wake.wait(self.interval_ms / 1000)
            self._wake.clear()
            if not self._stopping:
                self._step()


class PollJobs:
    """The polls of one live path, each source in a thread of its own once they are started."""

    def __init__(self, poll: Callable[[str], bool | None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._poll = poll
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._followed: Live | None = None
        self._jobs: dict[str, Repeated] = {}
        self._polled_s: dict[str, float] = {}
        """When the last poll of each source ended, or when it was taken up."""
        self._is_started = False

    @property
    def intervals_ms(self) -> dict[str, int]:
        """By source."""
        return {name: round(job.interval_s * 1000) for name, job in self._jobs.items()}

    @property
    def alive(self) -> bool:
        """Whether all of them go on."""
        with self._lock:
            return self._is_started and all(job.alive for job in self._jobs.values())

    def start(self) -> None:
        """Begin with those that are followed."""
        with self._lock:
            self._is_started = True
            for job in self._jobs.values():
                job.start()

    def stop(self) -> None:
        """Make no further poll; those under way are not waited for."""
        with self._lock:
            self._is_started = False
            for job in self._jobs.values():
                job.stop()

    def follow(self, live: Live) -> None:
        """New sources are polled at once and then at their interval; those that are gone no more."""
        with self._lock:
            if live is self._followed:
                return
            self._followed = live
            wanted = {name: configured.interval_ms for name, configured in live.sources.items()}
            for name in self._jobs.keys() - wanted.keys():
                self._jobs.pop(name).stop()
                del self._polled_s[name]
                log.info("the source is polled no more", source=name)
            for name, interval_ms in wanted.items():
                self._take_up(name, interval_ms / 1000)

    def silent(self) -> tuple[str, float] | None:
        """The source that was polled last, and the seconds since, when none was for `SILENT_POLLS` of its intervals."""
        with self._lock:
            now_s = self._monotonic()
            silent = {name: now_s - polled_s for name, polled_s in self._polled_s.items()}
            if not silent or any(s <= SILENT_POLLS * self._jobs[name].interval_s for name, s in silent.items()):
                return None
            return min(silent.items(), key=lambda item: item[1])

    def _take_up(self, name: str, interval_s: float) -> None:
        known = self._jobs.get(name)
        if known is not None and known.interval_s == interval_s:
            return
        if known is not None:
            known.follow(interval_s)
        else:
            job = self._jobs[name] = Repeated(f"poll-{name}", partial(self._polled, name), interval_s, at_once=True)
            self._polled_s[name] = self._monotonic()
            if self._is_started:
                job.start()
        log.info("the source is polled", source=name, interval_ms=round(interval_s * 1000))

    def _polled(self, name: str) -> bool | None:
        try:
            return self._poll(name)
        finally:
            with self._lock:
                if name in self._polled_s:
                    self._polled_s[name] = self._monotonic()
