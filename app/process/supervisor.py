"""`clustercep run`: one process per store; every source is polled at its interval, steps and retention beside.

The main thread waits for what is asked of the process: to stop, to read its configuration again, or to give up.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

import engine
from app.alerting.notifier import Notifier
from app.clock import Clock
from app.commands.check import CheckReport
from app.errors import AppError
from app.live.assembly import checked_queries, endpoints_of, telling_of
from app.live.sources import remote_write_options
from app.process.control_requests import ControlRequests, Reload
from app.process.logs import configure_logs
from app.process.metrics.counters import Metrics
from app.process.owned_store import owned_store
from app.process.reload import ReloadOutcome
from app.process.runner import Runner
from app.process.scheduling import LONGEST_STEP_INTERVAL_MS, PollJobs, Repeated, StepThread, take_short_turns
from app.process.serving.web import Endpoints
from app.process.serving.write_receiver import WriteReceiver
from app.process.spare_memory import rarely_collect
from app.settings import Settings

log = structlog.get_logger(__name__)

STOP_TIMEOUT_S = 10.0
"""How long a step under way may take to its end; what it has not stored by then is done again after the next start."""

SILENT_STEPS_S = 60.0
"""A process whose steps are not even tried for so long, or hang in one part, is not healthy; one that stores none for
so long is not ready. Three times the steps' interval when that is longer."""

RETENTION_INTERVAL_S = 3_600

_COMPILING = "the matching kernels are being compiled or loaded; once per machine and version this takes a minute"


class Supervisor:
    """The parts of the running process together; implements `app.process.serving.web.Health`."""

    def __init__(
        self,
        runner: Runner,
        notifier: Notifier,
        requests: ControlRequests,
        check: Callable[[], CheckReport],
    ) -> None:
        self._runner = runner
        self._notifier = notifier
        self._requests = requests
        self._check = check
        self._steps = StepThread(self.step)
        self._jobs = PollJobs(self.poll, runner.monotonic)
        self._retention = Repeated("retention", runner.clean, RETENTION_INTERVAL_S, at_once=False)
        self._endpoints = self._new_endpoints(runner.settings)
        self._receiver = self._new_receiver(runner.settings)
        self._compiled = False

    # ----------------------------------------------------------- start and stop

    def start(self) -> None:
        """Listen, deliver, poll and step; raises AppError when the endpoints cannot listen."""
        runner = self._runner
        take_short_turns()
        if self._endpoints is not None:
            self._endpoints.start()
            host, port = self._endpoints.address
            log.info("endpoints", address=host, port=port)
        if self._receiver is not None:
            self._receiver.start()
            log.info("remote write", address=runner.settings.sources.remote_write.address, port=self._receiver.port)
        runner.tell_unreachable()
        self._notifier.start()
        self._follow()
        self._steps.start()
        self._jobs.start()
        self._retention.start()
        names = ", ".join(runner.live.sources) or "none"
        log.info("running", queries=len(runner.queries.compiled), sources=names)

    def wait(self) -> None:
        """Do what is asked until the process is to stop; raises AppError when it has to give up."""
        while True:
            requests = self._requests.next()
            if isinstance(requests, Reload):
                self.reload()
            elif requests.failure is not None:
                raise requests.failure
            else:
                return

    def stop(self) -> bool:
        """Finish the step under way; polls and messages under way are not waited for, they are made again.

        False when the step does not end within its time.
        """
        log.info("stopping")
        self._jobs.stop()
        self._retention.stop()
        self._steps.stop()
        if self._endpoints is not None:
            self._endpoints.stop()
        if self._receiver is not None:
            self._receiver.stop()
        ended = self._runner.stop(STOP_TIMEOUT_S)
        if not ended:
            log.warning("the step under way does not end; it is made again after the next start")
        self._notifier.stop()
        log.info("stopped")
        return ended

    # ------------------------------------------------------------ steps, reload

    def poll(self, name: str) -> None:
        """Poll one source; what it brought is taken in at once."""
        self._runner.poll(name)
        self._steps.wake()

    def step(self) -> None:
        """One step; a failure that cannot be lived with ends the process."""
        try:
            if not self._compiled:
                _compile()
                self._compiled = True
            self._runner.step()
            self._follow()
            if self._runner.is_behind:
                self._steps.wake()
        except AppError as error:
            self._requests.stop(error)
        except Exception as error:  # a boundary: a process that makes no more steps must not look alive
            log.exception("no more steps can be made")
            self._requests.stop(AppError(f"no more steps can be made: {type(error).__name__}: {error}"))

    def reload(self) -> ReloadOutcome:
        """Read configuration and queries again; when anything is wrong, everything stays as it is."""
        outcome = self._runner.reload(self._check)
        if outcome.ok:
            configure_logs(self._runner.settings.log)
            self._follow()
        return outcome

    def _follow(self) -> None:
        self._jobs.follow(self._runner.live)
        self._steps.interval_ms = min([LONGEST_STEP_INTERVAL_MS, *self._jobs.intervals_ms.values()])

    # ------------------------------------------------------------------- health

    def healthy(self) -> tuple[bool, str]:
        """Whether steps are tried; a restart is the remedy when they are not."""
        if not self._jobs.alive:
            return False, "the sources are not polled"
        if not self._steps.alive:
            return False, "the thread of the steps has ended"
        if not self._compiled:
            return True, _COMPILING
        silent_s = self._runner.monotonic() - self._runner.tried_s
        if silent_s > self._most_silent_s():
            return False, f"no step was tried for {silent_s:.0f} s"
        return True, "steps are made"

    def ready(self) -> tuple[bool, str]:
        """Whether alerts would be found and stored now, by what the steps met.

        The store is not asked: a database that hangs would hold one connection of the endpoints per question.
        """
        if not self._compiled:
            return False, _COMPILING
        outage, stepped_s = self._runner.outage, self._runner.stepped_s
        if outage is not None:
            return False, f"the store is out: {outage.reason}"
        if stepped_s is None:
            return False, "no step was made yet"
        silent_s = self._runner.monotonic() - stepped_s
        if silent_s > self._most_silent_s():
            return False, f"no step was stored for {silent_s:.0f} s"
        if (silent := self._jobs.silent()) is not None:
            return False, f"no source was polled for {silent[1]:.0f} s; the last one was {silent[0]}"
        if (jump := self._runner.clock_ahead) is not None:
            return False, f"{jump.message}; all that has come since is late"
        down = [found.text() for found in self._notifier.down()]
        return True, "\n".join(["steps are made and stored", *down])

    def _most_silent_s(self) -> float:
        return max(SILENT_STEPS_S, 3 * self._steps.interval_ms / 1000)

    def _new_receiver(self, settings: Settings) -> WriteReceiver | None:
        section = settings.sources.remote_write
        if not section.enabled:
            return None
        options = remote_write_options(settings)
        metrics = frozenset(metric for reading in options.readings for metric in reading.metrics)
        clock, metered = self._runner.now_ms, self._runner.metrics.write_answered
        return WriteReceiver(section, options.folder, metrics, clock, metered)

    def _new_endpoints(self, settings: Settings) -> Endpoints | None:
        if not settings.web.enabled:
            return None
        return Endpoints(settings.web, self._runner.metrics.registry, self, self.reload)


def run(
    settings: Settings,
    clock: Clock,
    requests: ControlRequests,
    check: Callable[[], CheckReport],
    *,
    take_over: bool = False,
) -> bool:
    """Run until told to stop; `check` reads everything again for a reload. Raises AppError: cannot start, or go on.

    `take_over`: see `owned_store`.
    False when a step still hangs in the database: the interpreter would wait for it at its end.
    """
    queries = checked_queries(settings)
    endpoints = endpoints_of(settings)
    with owned_store(settings, "run", take_over=take_over, on_lost=requests.stop) as store:
        metrics = Metrics()
        notifier = Notifier(store, endpoints, clock, telling=telling_of(settings), metrics=metrics)
        runner = Runner(settings, queries, store, notifier, clock, metrics=metrics)
        metrics.watch(lambda: runner.live, store, clock)
        supervisor = Supervisor(runner, notifier, requests, check)
        try:
            supervisor.start()
            supervisor.wait()
        except BaseException:
            supervisor.stop()
            raise
        return supervisor.stop()


def _compile() -> None:
    """Have the kernels ready before the first events: an alert must not wait for the compiler."""
    if not engine.kernels_are_compiled():
        log.info("compiling the matching kernels: some minutes, once per machine and version")
    engine.warm_kernels()
    rarely_collect()
