"""One poll's REST documents of jobs -> the events that have not gone out yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from collectors.counters import missing_counters
from collectors.hadoop_ids import task_of
from collectors.identity import lifecycle_id, record_id
from collectors.lifecycle import AttemptFacts, EventRows, attempt_figures
from collectors.network.http import Answer
from collectors.rest.documents import (
    ENDED_ATTEMPT,
    ENDED_JOB,
    ENDED_TASK,
    LIVE_ATTEMPT,
    AttemptDocument,
    DocumentError,
    JobDocument,
    Listed,
    TaskDocument,
    parse_attempt_counters,
    parse_attempts,
    parse_tasks,
)
from collectors.rest.jobs import AttemptState, JobState

_T = TypeVar("_T")

MAX_FAILURES = 3
"""So often the end of an ended attempt, and then its counters, are asked for; then it goes on without them."""

AGE_RESOLUTION_MS = 1_000
"""Answers state their age in whole seconds."""

SAMPLE_CLOCK = "poll:yarn_rest"
"""Samples are stamped by the process that polls."""


class Ask(Protocol):
    """Gets and parses one document."""

    def __call__(self, url: str, path: str, parse: Callable[[Answer], _T], /) -> tuple[_T, int]:
        """The document and the time whose state it tells; raises DocumentError or SourceUnavailableError."""
        ...


class Problems(Protocol):
    """Takes problems."""

    def report(self, place: str, kind: str, message: str, *, key: Hashable = None) -> None:
        """As ProblemLog."""
        ...


class JobTeller:
    """Adds to `rows` what a poll at `now_ms` finds new about jobs, and notes in each JobState what has been told."""

    def __init__(self, rows: EventRows, problems: Problems, ask: Ask, now_ms: int, *, sample_counters: bool) -> None:
        self._rows = rows
        self._problems = problems
        self._ask = ask
        self._now_ms = now_ms
        self._sample_counters = sample_counters

    def job(self, job: JobState, document: JobDocument) -> None:
        """JobStart and JobEnd as soon as the document has their times."""
        queue = job.facts.queue
        job.facts = document.facts
        job.facts.queue = document.facts.queue or queue
        origin = f"rest:{job.job_id}"
        if document.start_ms is not None and not job.start_told:
            job.start_told = True
            self._rows.job_start(job.facts, document.start_ms, job.clock_id, origin)
        if document.state in ENDED_JOB and document.finish_ms is not None and not job.end_told:
            job.end_told = True
            start_ms, finish_ms = document.start_ms, document.finish_ms
            self._rows.job_end(job.facts, start_ms, finish_ms, document.state, job.clock_id, origin)

    def tasks(self, job: JobState, url: str, base: str, *, sample: bool) -> int | None:
        """All tasks below `base`.

        Returns the time until which everything has been told, or None when something of an ended attempt could not
        be had yet.
        """
        is_complete = True
        tasks, covered_ms = self._ask(url, f"{base}/tasks", parse_tasks)
        # Ended ones first: they are asked for once, so that a limit on requests lets every poll get further.
        if tasks.n_left_out:
            message = f"{tasks.n_left_out} task(s) without an id of a task, the first {tasks.first_left_out}; left out"
            self._problems.report(f"{url}{base}/tasks", "foreign_id", message)
        for task in sorted(tasks, key=lambda task: task.state not in ENDED_TASK):
            has_ended = task.state in ENDED_TASK
            if task.state in ("NEW", "SCHEDULED") or (has_ended and task.task_id in job.tasks_done):
                continue
            job.tasks_done.discard(task.task_id)  # a map whose output was lost runs again
            path = f"{base}/tasks/{task.task_id}/attempts"
            listed, t_ms = self._ask(url, path, parse_attempts)
            attempts = self._own(job, task.task_id, listed, f"{url}{path}")
            for attempt in attempts:
                self._attempt(job, attempt, url, path, t_ms, sample=sample)
            ended = [attempt.facts for attempt in attempts if attempt.facts.status in ENDED_ATTEMPT]
            is_told = all(job.attempt(facts.attempt_id).summarised for facts in ended)
            is_complete = is_complete and is_told
            if has_ended and len(ended) == len(attempts) and _knows_success(task, ended):
                if is_told:
                    job.close_task(task.task_id, [facts.attempt_id for facts in ended])
            else:
                covered_ms = min(covered_ms, t_ms)
        return covered_ms if is_complete else None

    def _own(self, job: JobState, task_id: str, listed: Listed[AttemptDocument], place: str) -> list[AttemptDocument]:
        """The attempts of this task; others, which no task of this job can have, are counted and told."""
        own = [attempt for attempt in listed if task_of(attempt.facts.attempt_id) == task_id]
        n_others = len(listed) - len(own) + listed.n_left_out
        if n_others:
            foreign = (a.facts.attempt_id for a in listed if task_of(a.facts.attempt_id) != task_id)
            first = next(foreign, listed.first_left_out)
            message = f"{n_others} attempt(s) that are none of {task_id}, the first {first}; left out"
            self._problems.report(place, "foreign_id", message, key=(job.job_id, place, "foreign_id"))
        return own

    def inferred_end(self, job: JobState) -> None:
        """JobEnd somewhere between the last poll that saw the job run and the first that did not."""
        gone_ms = self._now_ms if job.gone_ms is None else job.gone_ms
        t_hi_ms = max(job.covered_ms, min(gone_ms, job.finish_known_ms or gone_ms))
        attributes = job.facts.attributes() | {"status": job.final_status, "period_ms": None}
        event_id, origin = lifecycle_id("JobEnd", job.job_id), f"rest:{job.job_id}"
        self._rows.add("JobEnd", event_id, job.covered_ms, job.clock_id, origin, attributes, t_hi_ms=t_hi_ms)
        job.end_told = True

    def _attempt(
        self, job: JobState, attempt: AttemptDocument, url: str, path: str, t_ms: int, *, sample: bool
    ) -> None:
        facts, state = attempt.facts, job.attempt(attempt.facts.attempt_id)
        origin = f"rest:{facts.attempt_id}"
        if facts.start_ms is not None and not state.started:
            state.started = True
            self._rows.attempt_start(facts, job.clock_id, origin)
        if facts.status in ENDED_ATTEMPT:
            if facts.finish_ms is None:
                # A master says of an attempt that it is killed before it has noted when.
                state.n_failures += 1
                state.summarised = not state.started or state.n_failures >= MAX_FAILURES
                if state.started and state.summarised:  # else it was killed while it waited for a container
                    message = f"{facts.attempt_id} ended without a finishTime: no end is made up"
                    key = (facts.attempt_id, "missing_time")
                    self._problems.report(f"{url}{path}", "missing_time", message, key=key)
                return
            if not state.ended:
                state.ended, state.n_failures = True, 0
                self._rows.attempt_end(facts, job.clock_id, origin)
            if not state.summarised:
                self._summarise(job, attempt, state, url, path, t_ms)
        elif sample and facts.status in LIVE_ATTEMPT and state.started and t_ms > state.sampled_ms:
            state.sampled_ms = t_ms
            self._sample(attempt, url, path, t_ms)

    def _summarise(
        self, job: JobState, attempt: AttemptDocument, state: AttemptState, url: str, path: str, t_ms: int
    ) -> None:
        facts = attempt.facts
        measured: dict[str, int | None] = {}
        try:
            measured = self._counters(facts, url, path, min(t_ms, facts.finish_ms or t_ms))
        except DocumentError as error:
            state.n_failures += 1
            if state.n_failures < MAX_FAILURES:
                return
            place = f"{url}{path}/{facts.attempt_id}/counters"
            self._problems.report(place, "missing_counter", f"no counters: {error}; they are left empty")
        else:
            self._report_lacking(job, facts, measured, f"{url}{path}")
        state.summarised = True
        origin = f"rest:{facts.attempt_id}"
        figures = attempt_figures(facts, measured, job.facts.n_reduces)
        self._rows.attempt_summary(facts, {**figures, **attempt.phases}, job.clock_id, origin)

    def _report_lacking(self, job: JobState, facts: AttemptFacts, measured: dict[str, int | None], place: str) -> None:
        if facts.status != "SUCCEEDED":
            return
        found = {name: value for name, value in measured.items() if value is not None}
        for attribute in missing_counters(facts.kind, found, job.facts.n_reduces):
            message = f"{facts.attempt_id} (and perhaps others of its job) has no counter for {attribute}: left empty"
            self._problems.report(
                place, "missing_counter", message, key=(job.job_id, "missing_counter", facts.kind, attribute)
            )

    def _counters(self, facts: AttemptFacts, url: str, path: str, ended_ms: int) -> dict[str, int | None]:
        """The counters as they were at `ended_ms` or later: older ones are not those of an ended attempt."""

        def parse(answer: Answer) -> dict[str, int | None]:
            return parse_attempt_counters(answer, facts.kind)

        full_path = f"{path}/{facts.attempt_id}/counters"
        measured, counted_ms = self._ask(url, full_path, parse)
        if counted_ms + AGE_RESOLUTION_MS < ended_ms:
            raise DocumentError(f"{url}{full_path}", "stale", "the counters are older than the attempt's end")
        return measured

    def _sample(self, attempt: AttemptDocument, url: str, path: str, t_ms: int) -> None:
        facts = attempt.facts
        if facts.start_ms is None or facts.start_ms > t_ms:
            return  # its clock is ahead: it would have run for less than nothing
        cpu_ms = None
        if self._sample_counters:
            try:
                cpu_ms = self._counters(facts, url, path, 0)["cpu_ms"]
            except DocumentError as error:
                self._problems.report(error.url, "missing_counter", f"no counters of a running attempt: {error}")
        elapsed_ms = t_ms - facts.start_ms
        attributes = facts.attributes()
        del attributes["rack"]
        attributes |= {
            "task_type": facts.kind,
            "elapsed_ms": elapsed_ms,
            "progress": attempt.progress,
            "cpu_ms": cpu_ms,
        }
        values = (elapsed_ms, attempt.progress)
        event_id = record_id(("yarn_rest", facts.attempt_id), "TaskSample", t_ms, values, 0)
        origin = f"rest:{facts.attempt_id}"
        self._rows.add("TaskSample", event_id, t_ms, SAMPLE_CLOCK, origin, attributes)


def _knows_success(task: TaskDocument, ended: list[AttemptFacts]) -> bool:
    """Whether these attempts are the whole story of an ended task; an older list may lack the one that succeeded."""
    succeeded = {facts.attempt_id for facts in ended if facts.status == "SUCCEEDED"}
    return task.successful_attempt is None or task.successful_attempt in succeeded
