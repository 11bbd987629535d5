"""The live path of one process: polls and steps, outages, defects, and settings that change while it runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import structlog

import engine
from app.alerting.notifier import Notifier
from app.clock import LEAST_HOLD_MS, Clock, Jump, SteadyClock
from app.commands.check import CheckReport
from app.errors import AppError, ConfigError, DamageError, OwnershipError, StoreError
from app.live.assembly import Live, assemble, endpoints_of, telling_of
from app.live.pipeline import Step
from app.process.figures import memory_bytes, query_figures
from app.process.metrics.counters import Metrics, program_version
from app.process.outages import OUTAGES, Outage, OutageKind, outage_kind
from app.process.reload import ReloadOutcome, changed_queries, taken_over, unreachable_messages
from app.queries.loading import Loaded
from app.settings import Settings
from app.store.api import Store
from app.store.status import ProcessStatus, QueryFigures
from app.store.writing.problems import NewProblem
from engine.errors import EngineError

log = structlog.get_logger(__name__)

FAILURES_BEFORE_GIVING_UP = 10
"""Defects in a row; outages of the store do not count."""

IDLE_STEP_S = 5.0
"""How often a step is made without anything new: silences end, and sources fall silent."""


MOST_WAITING_POLLS = 2
"""A source that has more to read is polled at once while no more polls wait for a step."""


class Runner:
    """Polls and steps; starts again from the checkpoint when a step fails, and with other settings when told to."""

    def __init__(
        self,
        settings: Settings,
        queries: Loaded,
        store: Store,
        notifier: Notifier,
        clock: Clock,
        *,
        durable: bool = True,
        metrics: Metrics | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        works: engine.Works | None = None,
    ) -> None:
        """`works`: is told what matching does, where `monotonic` is simulated."""
        self.settings = settings
        self.queries = queries
        self.metrics = metrics or Metrics()
        self._store = store
        self._notifier = notifier
        self._clock = clock
        self._durable = durable
        self.monotonic = monotonic
        self._works = works
        self._step_lock = threading.Lock()
        self._reload_lock = threading.Lock()
        self._stopped = False
        self._n_failures = 0
        self.outage: Outage | None = None
        self.n_outages = 0
        self.n_steps = 0
        self.step_s = 0.0
        """Of the last step."""
        self.started_ms = self.loaded_ms = clock.now_ms()
        self.tried_s = monotonic()
        self.stepped_s: float | None = None
        """When a step was last begun or a part of one ended, and when one was stored; by the clock that nobody sets."""
        self.clock_ahead: Jump | None = None
        """The jump after which all that comes is late: alerts are not found."""
        self._forward: Jump | None = None
        """The last jump that was believed, if it was one forward."""
        self.reload_problems: tuple[str, ...] = ()
        self._earlier: dict[str, QueryFigures] = {}
        """Of queries, by engines that were replaced."""
        self.live = self._assemble()

    # --------------------------------------------------------- polls and steps

    def now_ms(self) -> int:
        """By the clock of polls and steps."""
        return self._clock.now_ms()

    def poll(self, name: str) -> bool:
        """Poll one source; its events enter with the next step. Nothing is polled that could not be stored.

        Returns whether the source has more to read, and steps have taken what it brought before.
        """
        live = self.live  # a poll under way while the path is put together anew belongs to the old one
        if self.outage is not None or name not in live.sources:
            return False
        started_s = self.monotonic()
        intake = live.poll(name, self._clock.now_ms())
        seconds, succeeded = self.monotonic() - started_s, intake.watermark_ms is not None
        self.metrics.polled(name, seconds, succeeded)
        log.debug("polled", source=name, events=len(intake.events), seconds=round(seconds, 3), succeeded=succeeded)
        return intake.goes_on and len(live.pipeline.intake) <= MOST_WAITING_POLLS

    def step(self) -> None:
        """One step; after a failure everything goes back to the checkpoint.

        While the store is out, steps are tried at growing intervals. Raises AppError after many defects in a row;
        OwnershipError when another process has taken the store over, DamageError when its content is damaged.
        """
        with self._step_lock:
            started_s = self.tried_s = self.monotonic()
            self._tell_jumps()
            now_ms = self._clock.now_ms()
            if self._stopped or not self._is_due(now_ms):
                return
            if self._store.fatal is not None:
                raise self._store.fatal  # also when delivery or retention found it
            try:
                if self.outage is not None:
                    self.go_back()
                step = self.live.pipeline.step(now_ms)
            except (OwnershipError, DamageError):
                raise  # another attempt would do no better
            except Exception as error:  # noqa: BLE001  # the one boundary: whatever failed, memory no longer agrees with the store
                self._failed(error, now_ms)
            else:
                self.live.tell_committed()
                self._succeeded(step, now_ms, self.monotonic() - started_s)

    @property
    def is_behind(self) -> bool:
        """Whether another step should follow at once."""
        return self.outage is None and self.live.pipeline.is_behind

    def go_back(self) -> None:
        """Put the live path together anew where the store's checkpoint stands, as a new process would."""
        self._store.close()  # connections to a database that was moved away, or is gone, are of no use
        self._replace()

    def clean(self) -> None:
        """Delete what is older than its retention."""
        if self.outage is not None:
            return
        try:
            with self._store.transaction() as writer:
                removed = writer.apply_retention(self.settings.store.retention, self._clock.now_ms())
        except StoreError as error:
            log.warning("retention has to wait for the next time", reason=str(error))
        else:
            log.info("retention", **removed)

    def stop(self, timeout_s: float) -> bool:
        """Make no further step; waits for the one under way. False when it takes longer than the time."""
        self._stopped = True
        if not self._step_lock.acquire(timeout=timeout_s):
            return False
        try:
            self.live.close()
        finally:
            self._step_lock.release()
        return True

    def tell_unreachable(self) -> None:
        """Keep as problems which messages wait for receivers that are not there."""
        try:
            problems = unreachable_messages(self._store, endpoints_of(self.settings))
            for problem in problems:
                log.warning("messages wait for a receiver that is not there", place=problem.place, what=problem.message)
            if problems:
                with self._store.transaction() as writer:
                    writer.problems.add(problems, self._clock.now_ms())
        except StoreError as error:
            log.warning("the outbox cannot be looked at", reason=str(error))

    def status(self) -> ProcessStatus:
        """What this process knows of itself, since it started; the step under way counts."""
        return ProcessStatus(
            version=program_version(),
            pid=os.getpid(),
            started_ms=self.started_ms,
            n_steps=self.n_steps + 1,
            step_seconds=self.step_s,
            memory_bytes=memory_bytes(),
            queries=self._query_figures(),
            loaded_ms=self.loaded_ms,
            reload_problems=list(self.reload_problems),
            store_outages=self.n_outages,
        )

    # ------------------------------------------------------------------ reload

    def reload(self, check: Callable[[], CheckReport]) -> ReloadOutcome:
        """Take over what `check` read from the current checkpoint; with a problem, everything stays as it is."""
        with self._reload_lock:
            try:
                outcome = self._reload(check())
            except Exception as error:  # a boundary: whatever is wrong with the new files, the process goes on
                log.exception("the reload failed")
                outcome = ReloadOutcome(False, (f"the reload failed: {type(error).__name__}: {error}",))
            self._tell(outcome)
            return outcome

    def _reload(self, report: CheckReport) -> ReloadOutcome:
        if report.problems or report.settings is None or report.queries is None:
            return ReloadOutcome(False, report.problems)
        settings, notes = taken_over(self.settings, report.settings)
        changes = changed_queries(self.queries, report.queries)
        with self._step_lock:
            return self._take_over(settings, report.queries, (*changes, *notes))

    def _take_over(self, settings: Settings, queries: Loaded, notes: tuple[str, ...]) -> ReloadOutcome:
        before = self.settings, self.queries
        try:
            endpoints = endpoints_of(settings)
        except ConfigError as error:
            return ReloadOutcome(False, tuple(str(error).splitlines()))
        self.settings, self.queries = settings, queries
        try:
            if self.outage is None:
                self._replace()
        except Exception as error:  # whatever failed: settings may not be those of another live path; defects go on
            if (kind := outage_kind(error)) is None:
                self.settings, self.queries = before
                if isinstance(error, AppError | EngineError):
                    return ReloadOutcome(False, tuple(str(error).splitlines()))
                raise
            self._out(kind, error, self._clock.now_ms())
        if self.outage is not None:
            notes = (*notes, "the store is not there now; sources and queries follow once it is back")
        self._notifier.follow(endpoints, telling_of(settings))
        return ReloadOutcome(True, (), notes)

    def _tell(self, outcome: ReloadOutcome) -> None:
        now_ms = self._clock.now_ms()
        self.metrics.reloaded(outcome.ok, now_ms)
        self.reload_problems = outcome.problems
        if not outcome.ok:
            for problem in outcome.problems:
                log.error("reload refused; the process goes on unchanged", problem=problem)
            return
        self.loaded_ms = now_ms
        for note in outcome.notes:
            log.info("reload", note=note)
        names = ", ".join(self.live.sources) or "none"
        log.info("reloaded", queries=len(self.queries.compiled), sources=names)
        if self.outage is None:
            self.tell_unreachable()

    # ---------------------------------------------------------------- internals

    def _assemble(self) -> Live:
        now_ms = self._clock.now_ms()
        live = assemble(
            self.settings,
            self.queries,
            self._store,
            self._notifier,
            now_ms,
            durable=self._durable,
            part_ended=self._part_ended,
            monotonic=self.monotonic,
            works=self._works,
        )
        live.pipeline.status = self.status
        return live

    def _part_ended(self) -> None:
        self.tried_s = self.monotonic()

    def _replace(self) -> None:
        before, figures = self.live, self._query_figures()
        before.settle()
        self.live = self._assemble()
        if before.pipeline.number > self.live.pipeline.number:
            self.live.pipeline.tell_forgotten(before.pipeline.number)
        self._earlier.update(figures)
        before.close()

    def _query_figures(self) -> dict[str, QueryFigures]:
        matcher = self.live.pipeline.matcher
        return query_figures(matcher.statistics, self._earlier) if isinstance(matcher, engine.Engine) else {}

    def _is_due(self, now_ms: int) -> bool:
        if self.outage is not None:
            return self.outage.is_due(now_ms)
        idle = self.stepped_s is not None and self.monotonic() - self.stepped_s < IDLE_STEP_S
        return not idle or self.live.pipeline.is_behind

    def _succeeded(self, step: Step, now_ms: int, seconds: float) -> None:
        self._n_failures, self.stepped_s, self.step_s = 0, self.monotonic(), seconds
        self.n_steps += 1
        outage, self.outage = self.outage, None
        self.metrics.stepped(step, seconds)
        if step.n_events:
            self.clock_ahead = None
        elif any(statistic[0] == "late" for statistic in step.counters):
            self.clock_ahead = self._forward
        log.debug("step", events=step.n_events, rows=dict(step.n_matches), seconds=round(seconds, 3))
        if outage is not None:
            log.warning("the store is back", what=outage.message(now_ms))
            self._keep(outage.problem(now_ms))
            self.tell_unreachable()

    def _failed(self, error: Exception, now_ms: int) -> None:
        kind = outage_kind(error)
        if kind is not None:
            self._out(kind, error, now_ms)
            return
        self._n_failures += 1
        self.metrics.step_failed("defect")
        log.exception("a step failed; going back to the checkpoint", n_in_a_row=self._n_failures)
        self._keep(NewProblem("pipeline", "step", type(error).__name__, str(error)))
        if self._n_failures >= FAILURES_BEFORE_GIVING_UP:
            raise AppError(f"{self._n_failures} steps in a row failed; the last: {error}") from error
        try:
            self.go_back()
        except OUTAGES as refused:
            if (kind := outage_kind(refused)) is None:
                raise
            self._out(kind, refused, now_ms)

    def _out(self, kind: OutageKind, error: Exception, now_ms: int) -> None:
        self.metrics.step_failed(kind)
        if self.outage is None:
            self.outage = Outage(now_ms, str(error))
            self.n_outages += 1
            log.error("the store is out; sources are not polled until it is back", kind=kind, reason=str(error))
        self.outage.failed(now_ms)

    def _tell_jumps(self) -> None:
        if not isinstance(self._clock, SteadyClock):
            return
        intervals_ms = [source.interval_ms for source in self.live.sources.values()]
        self._clock.hold_ms = max(LEAST_HOLD_MS, 2 * max(intervals_ms, default=0))
        for jump in self._clock.take_jumps():
            log.error("the machine's clock jumped", what=jump.message)
            self.metrics.clock_jumped()
            if jump.is_believed:
                self._forward, self.clock_ahead = jump if jump.by_ms > 0 else None, None
            if self.outage is None:
                self._keep(NewProblem("pipeline", "clock", "clock_jump", jump.message))

    def _keep(self, problem: NewProblem) -> None:
        try:
            with self._store.transaction() as writer:
                writer.problems.add([problem], self._clock.now_ms())
        except StoreError as refused:
            log.error("the store cannot be told either", problem=problem.message, reason=str(refused))
