"""When things happen: a job per source, which follows the sources when those change, and the thread of the steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import structlog
from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from app.assembly import Live

log = structlog.get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_STEP_INTERVAL_MS = 1_000


class DaemonThreads(Executor):
    """A thread per call that the process does not wait for at its end: a poll that hangs must not hold it up.

    Jobs run once at a time, so there are never more threads than jobs.
    """

    def __init__(self) -> None:
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call at once; raises RuntimeError after `shutdown`."""
        if self._closed:
            raise RuntimeError("no call after the shutdown")
        future: Future[R] = Future()
        threading.Thread(target=_call, args=(future, fn, args, kwargs), name="job", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; those under way are not waited for."""
        del wait, cancel_futures
        self._closed = True


def _call(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # as the pools of concurrent.futures: the future tells
        future.set_exception(error)
    else:
        future.set_result(result)


class _DaemonExecutor(BasePoolExecutor):  # type: ignore[misc]  # APScheduler ships no types
    def __init__(self) -> None:
        super().__init__(DaemonThreads())


def new_scheduler() -> BackgroundScheduler:
    """Each job runs once at a time and makes up for nothing."""
    defaults = {"max_instances": 1, "coalesce": True, "misfire_grace_time": None}
    return BackgroundScheduler(executors={"default": _DaemonExecutor()}, job_defaults=defaults, timezone="UTC")


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
    """The jobs of one live path."""

    def __init__(self, scheduler: BackgroundScheduler, poll: Callable[[str], None]) -> None:
        self._scheduler = scheduler
        self._poll = poll
        self._lock = threading.Lock()
        self._followed: Live | None = None
        self._intervals_ms: dict[str, int] = {}

    @property
    def shortest_ms(self) -> int | None:
        """The shortest interval; None when nothing is polled."""
        return min(self._intervals_ms.values(), default=None)

    def follow(self, live: Live) -> None:
        """New sources are polled at once and then at their interval; those that are gone no more."""
        with self._lock:
            if live is self._followed:
                return
            self._followed = live
            wanted = {name: configured.interval_ms for name, configured in live.sources.items()}
            for name in self._intervals_ms.keys() - wanted.keys():
                self._scheduler.remove_job(f"poll-{name}")
                log.info("the source is polled no more", source=name)
            for name, interval_ms in wanted.items():
                if self._intervals_ms.get(name) != interval_ms:
                    self._schedule(name, interval_ms)
            self._intervals_ms = wanted

    def _schedule(self, name: str, interval_ms: int) -> None:
        job: dict[str, Any] = {"seconds": interval_ms / 1000, "id": f"poll-{name}", "replace_existing": True}
        if name not in self._intervals_ms:
            job["next_run_time"] = datetime.now(UTC)
        self._scheduler.add_job(self._poll, "interval", [name], **job)
        log.info("the source is polled", source=name, interval_ms=interval_ms)
