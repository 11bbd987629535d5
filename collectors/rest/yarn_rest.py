"""REST: jobs while they run, from the ResourceManager and, through its proxy, from MapReduce ApplicationMasters.

Starts and finishes are the exact times that the documents carry, with the ids that job history gives them. A running
attempt yields a TaskSample per poll, an application of any type that waits for containers an AppWaiting. When an
application has ended, the rest comes from the JobHistoryServer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from collectors.base import Collected, OptionError, ProblemLog, SourceUnavailableError, next_watermark, read_position
from collectors.hadoop_ids import application_of_job, job_of_application
from collectors.lifecycle import EventRows, JobFacts
from collectors.network.deadlines import remaining_s
from collectors.network.http import Answer, HttpOptions, HttpTransport, Transport, check_url
from collectors.option_checks import check_not_negative, check_positive
from collectors.rest.documents import AppFacts, DocumentError, Listed, parse_apps, parse_job, parse_jobs
from collectors.rest.jobs import JobState
from collectors.rest.teller import SAMPLE_CLOCK, JobTeller
from collectors.rest.turns import Queue, Turn, take_turns
from collectors.rest.waiting import Waiting
from collectors.time_units import DAY_MS

POSITION_VERSION = 1

OPEN_APPS = "/ws/v1/cluster/apps?states=ACCEPTED,RUNNING"
ENDED_APPS = "/ws/v1/cluster/apps?applicationTypes=MAPREDUCE&states=FINISHED,FAILED,KILLED"
MASTER = "/proxy/{application}/ws/v1/mapreduce/jobs"
HISTORY = "/ws/v1/history/mapreduce/jobs"

ENDED_APP = frozenset({"FINISHED", "FAILED", "KILLED"})

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class YarnRestOptions:
    """Which servers to ask, and how much."""

    resource_manager_urls: tuple[str, ...] = ("http://127.0.0.1:8088",)
    """With high availability all of them: the first that answers as the active one serves."""
    history_url: str = "http://127.0.0.1:19888"
    lateness_ms: int = 5_000
    source_rank: int = 0
    lookback_ms: int = 0
    """Jobs that ended up to this long before the first poll are told too."""
    history_wait_ms: int = 60_000
    """How long an ended job waits for the JobHistoryServer to know it; then it is left out and reported."""
    stall_ms: int = 60_000
    """A running job whose master has not answered for this long no longer holds the watermark."""
    master_timeout_ms: int = 30_000
    """Longest time that one ApplicationMaster may take for all it is asked at a poll."""
    poll_timeout_ms: int = 60_000
    """Longest time for the jobs of a poll, once the applications are known."""
    n_workers: int = 4
    """So many ApplicationMasters that answered in time before are asked side by side, and half as many others."""
    max_requests_per_poll: int = 2_000
    sample_counters: bool = False
    """Ask for the counters of running attempts as well (one request each), for the processor time of TaskSample."""
    http: HttpOptions = field(default_factory=HttpOptions)

    def __post_init__(self) -> None:
        if not self.resource_manager_urls:
            raise OptionError("yarn: no address of a ResourceManager given")
        for url in (*self.resource_manager_urls, self.history_url):
            check_url(url)
        check_not_negative(
            "yarn", self, ("lateness_ms", "lookback_ms", "history_wait_ms", "stall_ms", "max_requests_per_poll")
        )
        check_positive("yarn", self, ("master_timeout_ms", "poll_timeout_ms", "n_workers"))


class _BudgetSpentError(Exception):
    """This poll has asked often enough."""


class _TimeSpentError(Exception):
    """The time of this turn is over."""


class YarnRestCollector:
    """Life-cycle events, counters and samples of running attempts."""

    name = "yarn_rest"

    def __init__(self, options: YarnRestOptions, transport: Transport | None = None) -> None:
        self._options = options
        urls = (*options.resource_manager_urls, options.history_url)
        self._transport: Transport = transport or HttpTransport(urls, options.http)
        self._problems = ProblemLog(self.name)
        self._jobs: dict[str, JobState] = {}
        self._told: dict[str, int] = {}
        """Jobs told to their end, and when."""
        self._waiting = Waiting()
        self._first_poll_ms: int | None = None
        self._last_poll_ms: int | None = None
        """Time of the last list of applications: none that started later can be known."""
        self._listed_ms = 0
        self._watermark_ms: int | None = None
        self._manager_url = options.resource_manager_urls[0]
        self._n_requests = 0
        self._now_ms = 0
        self._counting = Lock()
        self._parsing = Lock()
        """Large documents take many times their size while they are read: one after the other."""
        self._history_down: str | None = None
        """Why the JobHistoryServer is not asked any more at this poll."""

    def poll(self, now_ms: int) -> Collected:
        """Ask once; raises SourceUnavailableError when no ResourceManager answers as one."""
        self._now_ms, self._n_requests, self._history_down = now_ms, 0, None
        apps = self._applications()
        if self._first_poll_ms is None:
            self._first_poll_ms = now_ms
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        self._waiting.tell(rows, apps, SAMPLE_CLOCK, self._listed_ms)
        of_jobs = [app for app in apps if app.is_mapreduce]
        self._note_running(of_jobs)
        self._note_ended(of_jobs)
        self._tell_jobs(rows)
        self._last_poll_ms = self._listed_ms
        return Collected(rows.take_batch(), self._advance(), self._problems.drain())

    def checkpoint(self) -> dict[str, Any]:
        """Open jobs with what has been told of them."""
        return {
            "version": POSITION_VERSION,
            "first_poll_ms": self._first_poll_ms,
            "last_poll_ms": self._last_poll_ms,
            "watermark_ms": self._watermark_ms,
            "told": dict(self._told),
            "waiting": self._waiting.checkpoint(),
            "jobs": {job_id: job.to_json() for job_id, job in self._jobs.items()},
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(
            saved: Mapping[str, Any],
        ) -> tuple[list[int | None], dict[str, int], Waiting, dict[str, JobState]]:
            times = [saved[name] for name in ("first_poll_ms", "last_poll_ms", "watermark_ms")]
            told = {str(job_id): int(t_ms) for job_id, t_ms in saved["told"].items()}
            jobs = {str(job_id): JobState.from_json(job) for job_id, job in saved["jobs"].items()}
            waiting = Waiting()
            waiting.restore(saved.get("waiting", {}), has_run=jobs)
            return [None if t is None else int(t) for t in times], told, waiting, jobs

        times, self._told, self._waiting, self._jobs = read_position(position, POSITION_VERSION, read)
        self._first_poll_ms, self._last_poll_ms, self._watermark_ms = times

    # ---- which jobs --------------------------------------------------------------------------------------------

    def _applications(self) -> list[AppFacts]:
        """Open applications of any type and ended ones of MapReduce, one entry each.

        From the first ResourceManager that answers as the active one.
        """
        failures: list[str] = []
        for url in dict.fromkeys((self._manager_url, *self._options.resource_manager_urls)):
            try:
                answer = self._transport.get(url, OPEN_APPS, self._now_ms)
                open_apps = parse_apps(answer)
                ended_apps = parse_apps(self._transport.get(url, ENDED_APPS, self._now_ms))
            except DocumentError as error:
                failures.append(str(error) if error.url in str(error) else f"{error.url}: {error}")
                continue
            except SourceUnavailableError as error:
                failures.append(str(error))
                continue
            self._manager_url, self._listed_ms = url, answer.t_ms
            self._report_left_out(url, open_apps, ended_apps)
            # Asked in this order, one that ended in between stands in both; the later answer counts.
            return list({app.application_id: app for app in (*open_apps, *ended_apps)}.values())
        raise SourceUnavailableError("no ResourceManager answers: " + "; ".join(failures))

    def _report_left_out(self, url: str, *lists: Listed[AppFacts]) -> None:
        n_left_out = sum(apps.n_left_out for apps in lists)
        if n_left_out:
            first = next(apps.first_left_out for apps in lists if apps.n_left_out)
            message = f"{n_left_out} application(s) without an id application_<n>_<n>, the first {first}; left out"
            self._problems.report(url, "foreign_id", message)
        stateless = [app.application_id for apps in lists for app in apps if not app.state]
        if stateless:
            message = (
                f"{len(stateless)} application(s) without a state, the first {stateless[0]}; left out until it is told"
            )
            self._problems.report(url, "no_state", message)

    def _note_running(self, apps: list[AppFacts]) -> None:
        for app in apps:
            job_id = job_of_application(app.application_id)
            if app.state != "RUNNING" or job_id in self._told:
                continue
            job = self._jobs.get(job_id) or self._new_job(job_id, app)
            job.facts.queue = app.queue or job.facts.queue
            job.am_host = app.am_host or job.am_host

    def _note_ended(self, apps: list[AppFacts]) -> None:
        assert self._first_poll_ms is not None
        by_job = {job_of_application(app.application_id): app for app in apps}
        since_ms = self._first_poll_ms - self._options.lookback_ms
        for job_id, app in by_job.items():
            is_new = job_id not in self._jobs and job_id not in self._told
            if app.state in ENDED_APP and is_new and app.finished_ms is not None and app.finished_ms > since_ms:
                self._new_job(job_id, app)
        for job_id, job in self._jobs.items():
            found = by_job.get(job_id)
            if found is not None and found.state not in ENDED_APP:
                job.gone_ms = None  # an application whose master is started again is ACCEPTED for a while
            elif job.gone_ms is None:
                job.gone_ms, job.n_failures = self._now_ms, 0
            if found is not None and found.state in ENDED_APP:
                job.finish_known_ms = found.finished_ms
                job.final_status = found.final_status if found.state == "FINISHED" else found.state
        oldest_ms = self._now_ms - DAY_MS
        self._told = {job_id: t for job_id, t in self._told.items() if t >= oldest_ms or job_id in by_job}

    def _new_job(self, job_id: str, app: AppFacts) -> JobState:
        """Nothing of it is known yet since the last poll; at the first poll, since its application started."""
        since_ms = app.started_ms if self._last_poll_ms is None else self._last_poll_ms
        covered_ms = min(self._now_ms, self._now_ms if since_ms is None else since_ms)
        job = self._jobs[job_id] = JobState(JobFacts(job_id, queue=app.queue), covered_ms, app.am_host)
        return job

    # ---- what is new of them -----------------------------------------------------------------------------------

    def _tell_jobs(self, rows: EventRows) -> None:
        """All open jobs, side by side. What was not asked for in this poll keeps the watermark until a later one asks.

        Those that were not asked for longest come first, so that no limit starves any. Masters of which it is not known
        that they answer in time have threads of their own: however many they are, the others do not wait for them.
        """
        options = self._options
        turns = [
            Turn(job, EventRows(options.source_rank))
            for job in sorted(self._jobs.values(), key=lambda job: job.asked_ms)
        ]
        ended = [turn for turn in turns if turn.job.gone_ms is not None]
        running = [turn for turn in turns if turn.job.gone_ms is None]
        for turn in running:
            if turn.job.stalled_ms is None:
                turn.job.stalled_ms = self._now_ms  # until a poll has told everything
        proven = [turn for turn in running if turn.job.asked_ms and not turn.job.n_failures]
        others = [turn for turn in running if not (turn.job.asked_ms and not turn.job.n_failures)]
        master_s, whole_s = options.master_timeout_ms / 1000, options.poll_timeout_ms / 1000
        queues = (
            Queue(self._tell_running, proven, options.n_workers, master_s),
            Queue(self._tell_running, others, max(1, options.n_workers // 2), master_s),
            Queue(self._tell_ended, ended, 1, whole_s),
        )
        take_turns(queues, whole_s)
        for turn in turns:
            turn.hand_over(rows, self._problems)

    def _teller(self, turn: Turn) -> JobTeller:
        return JobTeller(
            turn.rows,
            turn.problems,
            partial(self._ask, turn),
            self._now_ms,
            sample_counters=self._options.sample_counters,
        )

    def _tell_running(self, turn: Turn) -> None:
        job = turn.job
        base = MASTER.format(application=application_of_job(job.job_id))
        try:
            self._ask_master(turn, base)
        except _BudgetSpentError:
            return
        except _TimeSpentError:
            if turn.had_time:
                limit_s = self._options.master_timeout_ms / 1000
                message = f"its master's answers take more than {limit_s:g} s of a poll; the rest comes with later ones"
                self._failed(turn, base, "slow", message)
        except DocumentError as error:
            self._failed(turn, base, error.kind, str(error), error.url)
        except SourceUnavailableError as error:
            self._failed(turn, base, "unavailable", str(error))
        else:
            job.n_failures = 0

    def _failed(self, turn: Turn, base: str, kind: str, message: str, answered: str | None = None) -> None:
        """The first failure may be the master's end; the ResourceManager will say so at the next poll."""
        turn.job.n_failures += 1
        if turn.job.n_failures > 1:
            turn.problems.report(answered or f"{self._manager_url}{base}", kind, message)

    def _ask_master(self, turn: Turn, base: str) -> None:
        job, teller, before_ms = turn.job, self._teller(turn), turn.job.covered_ms
        jobs, job_ms = self._ask(turn, self._manager_url, base, parse_jobs)
        documents = [document for document in jobs if document.facts.job_id == job.job_id]
        n_others = len(jobs) + jobs.n_left_out
        if not documents and n_others:
            first = jobs[0].facts.job_id if jobs else jobs.first_left_out
            message = f"its master lists {n_others} job(s), the first {first}, and not {job.job_id}: nothing is told"
            raise DocumentError(f"{self._manager_url}{base}", "foreign_job", message)
        if not documents:
            return  # it has registered and not initialised its job yet
        document = documents[0]
        teller.job(job, document)
        if document.finish_ms is not None and not job.end_told:
            # A master says RUNNING until it has unregistered: how the job ended will be told later.
            job_ms = min(job_ms, document.finish_ms)
        covered_ms = teller.tasks(job, self._manager_url, f"{base}/{job.job_id}", sample=True)
        if covered_ms is not None:
            job.covered_ms = max(before_ms, min(job_ms, covered_ms))
        if job.covered_ms > before_ms:
            job.stalled_ms = None

    def _tell_ended(self, turn: Turn) -> None:
        job, teller = turn.job, self._teller(turn)
        url, base, n_done = self._options.history_url, f"{HISTORY}/{job.job_id}", len(job.tasks_done)
        if self._history_down is not None:
            self._give_up_when_overdue(turn, self._history_down)
            return
        try:
            document, _ = self._ask(turn, url, base, parse_job)
            teller.job(job, document)
            covered_ms = teller.tasks(job, url, base, sample=False)
            turn.problems.forget((url, "unavailable"))
        except SourceUnavailableError as error:
            self._history_down = "the JobHistoryServer does not answer"
            turn.problems.report(url, "unavailable", str(error), key=(url, "unavailable"))
            self._give_up_when_overdue(turn, self._history_down)
        except _BudgetSpentError:
            return
        except _TimeSpentError:
            if turn.had_time and len(job.tasks_done) == n_done:  # else each poll gets further
                self._give_up_when_overdue(turn, "the JobHistoryServer takes too long")
        except DocumentError as error:
            self._give_up_when_overdue(turn, str(error))
        else:
            if covered_ms is not None:
                if not job.end_told:
                    teller.inferred_end(job)
                self._close(job)

    def _give_up_when_overdue(self, turn: Turn, reason: str) -> None:
        job = turn.job
        assert job.gone_ms is not None
        if self._now_ms - job.gone_ms < self._options.history_wait_ms:
            return
        message = f"{job.job_id} ended and its history is not to be had ({reason}); what was not seen of it is left out"
        turn.problems.report(f"{self._options.history_url}{HISTORY}/{job.job_id}", "no_history", message)
        if not job.end_told and job.start_told:
            self._teller(turn).inferred_end(job)
        self._close(job)

    def _close(self, job: JobState) -> None:
        del self._jobs[job.job_id]
        self._told[job.job_id] = self._now_ms

    # ---- requests and watermark --------------------------------------------------------------------------------

    def _ask(self, turn: Turn, url: str, path: str, parse: Callable[[Answer], _T]) -> tuple[_T, int]:
        """One document of a turn; raises _BudgetSpentError and _TimeSpentError when it may ask no more."""
        with self._counting:
            if self._n_requests >= self._options.max_requests_per_poll:
                raise _BudgetSpentError
            self._n_requests += 1
        if remaining_s() <= 0:
            raise _TimeSpentError
        turn.job.asked_ms = self._now_ms
        try:
            answer = self._transport.get(url, path, self._now_ms)
        except SourceUnavailableError:
            if remaining_s() <= 0 and (turn.n_answers or not turn.had_time):
                raise _TimeSpentError from None  # it was cut short; of a server that answers nothing it is the reason
            raise
        turn.n_answers += 1
        with self._parsing:
            return parse(answer), answer.t_ms

    def _stalls(self, job: JobState) -> bool:
        return job.stalled_ms is not None and self._now_ms - job.stalled_ms >= self._options.stall_ms

    def _advance(self) -> int:
        """The last poll that succeeded for every open job; a master that is silent for too long holds it no more."""
        # An ended job holds it as long as its history is waited for.
        covered = [job.covered_ms for job in self._jobs.values() if job.gone_ms is not None or not self._stalls(job)]
        covered_ms = min([self._listed_ms, *covered])
        watermark_ms = covered_ms - self._options.lateness_ms
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, self._now_ms)
        return self._watermark_ms


__all__ = ["YarnRestCollector", "YarnRestOptions"]
