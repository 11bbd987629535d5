"""`clustercep run`: APScheduler polls every source at its interval; steps, retention and delivery go on beside."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from app.alerting.delivery import Notifier
from app.assembly import Live, assemble, checked_queries, endpoints_of, open_configured_store
from app.clock import Clock
from app.errors import AppError, StoreError
from app.queries import Loaded
from app.settings import Settings
from app.store.api import Store
from app.store.writer import NewProblem

log = structlog.get_logger(__name__)

RETENTION_INTERVAL_S = 3_600
FAILURES_BEFORE_GIVING_UP = 10

IDLE_STEP_MS = 5_000
"""How often a step is made without anything new: silences end, and sources fall silent."""


class Runner:
    """The live process: polls and steps, and starts again from the checkpoint when a step fails."""

    def __init__(
        self,
        settings: Settings,
        queries: Loaded,
        store: Store,
        notifier: Notifier,
        clock: Clock,
        *,
        durable: bool = True,
    ) -> None:
        self._settings = settings
        self._queries = queries
        self._store = store
        self._notifier = notifier
        self._clock = clock
        self._durable = durable
        self._step_lock = threading.Lock()
        self._n_failures = 0
        self._stepped_ms: int | None = None
        self.live = self._assemble()

    def poll(self, name: str) -> None:
        """Poll one source; its events enter with the next step."""
        live = self.live  # a poll under way while the path is put together anew belongs to the old one
        live.poll(name, self._clock.now_ms())

    def step(self) -> None:
        """One step; after a failure everything goes back to the checkpoint. Raises AppError after many in a row."""
        with self._step_lock:
            now_ms = self._clock.now_ms()
            idle = self._stepped_ms is not None and now_ms - self._stepped_ms < IDLE_STEP_MS
            if idle and not len(self.live.pipeline.intake):
                return
            try:
                self.live.pipeline.step(now_ms)
                self._n_failures, self._stepped_ms = 0, now_ms
            except Exception as error:  # the one boundary: whatever failed, memory no longer agrees with the store
                self._n_failures += 1
                log.exception("a step failed; going back to the checkpoint", n_in_a_row=self._n_failures)
                self._report(error)
                if self._n_failures >= FAILURES_BEFORE_GIVING_UP:
                    raise AppError(f"{self._n_failures} steps in a row failed; the last: {error}") from error
                self.go_back()

    def go_back(self) -> None:
        """Put the live path together anew where the store's checkpoint stands, as a new process would."""
        self.live = self._assemble()

    def clean(self) -> None:
        """Delete what is older than its retention."""
        with self._store.transaction() as writer:
            removed = writer.apply_retention(self._settings.store.retention, self._clock.now_ms())
        log.info("retention", **removed)

    def _assemble(self) -> Live:
        now_ms = self._clock.now_ms()
        return assemble(self._settings, self._queries, self._store, self._notifier, now_ms, durable=self._durable)

    def _report(self, error: Exception) -> None:
        problem = NewProblem("pipeline", "step", type(error).__name__, str(error))
        try:
            with self._store.transaction() as writer:
                writer.add_problems([problem], self._clock.now_ms())
        except StoreError as refused:
            log.error("the store cannot be told either", reason=str(refused))


def run(settings: Settings, clock: Clock, stop: threading.Event) -> None:
    """Run until `stop` is set; raises AppError when it cannot start or go on."""
    queries = checked_queries(settings)
    with only_process(settings.store.directory), open_configured_store(settings) as store:
        notifier = Notifier(store, endpoints_of(settings), clock)
        runner = Runner(settings, queries, store, notifier, clock)
        failure: list[AppError] = []

        def step() -> None:
            try:
                runner.step()
            except AppError as error:
                failure.append(error)
                stop.set()

        notifier.start()
        scheduler = schedule(runner, step)
        scheduler.start()
        log.info("running", queries=len(queries.compiled), sources=", ".join(runner.live.sources) or "none")
        try:
            stop.wait()
        finally:
            scheduler.shutdown(wait=False)
            notifier.stop()
        if failure:
            raise failure[0]


def schedule(runner: Runner, step: Callable[[], None]) -> BackgroundScheduler:
    """A job per source, one for steps, one for retention; each runs once at a time and makes up for nothing."""
    sources = runner.live.sources
    pools = {"default": ThreadPoolExecutor(len(sources) + 2)}
    defaults = {"max_instances": 1, "coalesce": True, "misfire_grace_time": None}
    scheduler = BackgroundScheduler(executors=pools, job_defaults=defaults, timezone="UTC")
    for name, configured in sources.items():
        interval_s = configured.interval_ms / 1000
        scheduler.add_job(runner.poll, "interval", [name], seconds=interval_s, id=f"poll-{name}")
        scheduler.add_job(runner.poll, args=[name], id=f"first-poll-{name}")
    shortest_ms = min((configured.interval_ms for configured in sources.values()), default=1_000)
    scheduler.add_job(step, "interval", seconds=min(1.0, shortest_ms / 1000), id="step")
    scheduler.add_job(runner.clean, "interval", seconds=RETENTION_INTERVAL_S, id="retention")
    return scheduler


@contextmanager
def only_process(directory: Path, key: str = "store.directory") -> Iterator[None]:
    """Hold the folder's lock: two processes on one store would undo each other's checkpoints. Raises AppError."""
    with ExitStack() as held:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((directory / "lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AppError(f"another clustercep runs with {key} {directory}; stop it first") from None
        except OSError as error:
            found = f"{key} {directory}: {error.strerror}"
            raise AppError(f"{found}; expected a folder that can be written") from error
        yield
