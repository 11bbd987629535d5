"""REST documents of ResourceManager, MapReduce ApplicationMaster and JobHistoryServer -> facts.

Master and history server write the same documents for jobs, tasks, attempts and counters, with a field more or less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from collectors.counters import ATTRIBUTES, is_count, read_counters
from collectors.hadoop_ids import TaskKind, is_application, is_attempt, is_job, is_task
from collectors.lifecycle import AttemptFacts, JobFacts, clean_text, is_time_ms, reducer_phases
from collectors.network.bounded_json import TooManyValuesError, loads
from collectors.network.http import REDIRECTS, Answer
from collectors.printable import printable
from collectors.rest.containers import Containers, read_containers

ENDED_ATTEMPT = frozenset({"SUCCEEDED", "FAILED", "KILLED"})
ENDED_TASK = ENDED_ATTEMPT
ENDED_JOB = frozenset({"SUCCEEDED", "FAILED", "KILLED", "ERROR"})
LIVE_ATTEMPT = frozenset({"RUNNING", "COMMIT_PENDING"})

STANDBY = re.compile(rb"\s*This is standby RM(?:\. The redirect url is: (\S{1,500}))?")
"""How a ResourceManager answers that is not the active one, with whatever status."""

_T = TypeVar("_T")


class DocumentError(Exception):
    """An answer that is not the document that was asked for."""

    def __init__(self, url: str, kind: str, message: str) -> None:
        super().__init__(message)
        self.url = url
        self.kind = kind


class Listed(list[_T]):
    """What of a list could be used, and how much of it could not."""

    n_left_out: int = 0
    first_left_out: str = ""
    """Id of the first one, as it stands there."""

    @classmethod
    def of(
        cls,
        items: Iterable[Mapping[str, Any]],
        is_id: Callable[[Any], bool],
        read: Callable[[Mapping[str, Any]], _T],
        key: str = "id",
    ) -> Listed[_T]:
        """The items with an id of their kind, which stands in `key`, read; the others are counted."""
        listed: Listed[_T] = cls()
        for item in items:
            item_id = item.get(key)
            if is_id(item_id):
                listed.append(read(item))
            else:
                listed.leave_out(item_id)
        return listed

    def leave_out(self, item_id: object) -> None:
        """Count one that is not used."""
        if not self.n_left_out:
            self.first_left_out = printable(repr(item_id), 100)
        self.n_left_out += 1


@dataclass(frozen=True, slots=True)
class AppFacts:
    """An application as the ResourceManager lists it."""

    application_id: str
    application_type: str | None
    name: str | None
    user: str | None
    queue: str | None
    state: str
    final_status: str | None
    am_host: str | None
    started_ms: int | None
    finished_ms: int | None
    diagnostics: str | None
    """Of one that waits, why; as the ResourceManager words it."""
    containers: Containers

    @property
    def is_mapreduce(self) -> bool:
        """It runs a MapReduce job; ResourceManagers that tell no types are taken to run nothing else."""
        return self.application_type in (None, "MAPREDUCE")


@dataclass(frozen=True, slots=True)
class JobDocument:
    """A job; `finish_ms` is None while it runs."""

    facts: JobFacts
    state: str
    start_ms: int | None
    finish_ms: int | None


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """A task in short."""

    task_id: str
    state: str
    successful_attempt: str | None


@dataclass(frozen=True, slots=True)
class AttemptDocument:
    """A task attempt; its phases are those of a reducer."""

    facts: AttemptFacts
    progress: float | None
    """0 to 1."""
    phases: Mapping[str, int | None]


def parse_document(answer: Answer) -> Mapping[str, Any]:
    """The JSON object of an answer; raises DocumentError for an error status, a redirect, or anything else."""
    standby = STANDBY.match(answer.body[:1_000])
    if standby is not None:
        active = standby[1].decode("utf-8", "replace") if standby[1] else answer.location
        names = f"names {printable(active, 200)} as the active one" if active else "names no active one"
        message = f"{answer.url} is a standby ResourceManager and {names}; expected its address in resource_managers"
        raise DocumentError(answer.url, "standby", message)
    if answer.status in REDIRECTS:
        target = printable(answer.location, 200)
        message = f"{answer.url} redirects to {target}, which is none of the configured servers (a login?)"
        raise DocumentError(answer.url, "redirected", message)
    if answer.status != 200:
        raise DocumentError(
            answer.url, f"http_{answer.status}", f"{answer.url} answers status {answer.status}, expected 200"
        )
    try:
        document = loads(answer.body.decode("utf-8-sig"))
    except TooManyValuesError as error:
        raise DocumentError(answer.url, "too_large", f"{error}; it is not read") from error
    except (ValueError, RecursionError) as error:
        start = printable(answer.body[:60].decode("utf-8", "replace"), 80)
        message = f"expected JSON, found {answer.content_type or 'no content type'} that begins {start!r} ({error})"
        raise DocumentError(answer.url, "not_json", message) from error
    if not isinstance(document, dict):
        raise DocumentError(answer.url, "bad_document", f"expected a JSON object, found {type(document).__name__}")
    return document


def parse_apps(answer: Answer) -> Listed[AppFacts]:
    """{"apps": {"app": [...]}}; no applications is {"apps": null}."""
    return Listed.of(_items(answer, "apps", "app"), is_application, _app)


def _app(app: Mapping[str, Any]) -> AppFacts:
    return AppFacts(
        application_id=app["id"],
        application_type=text_of(app, "applicationType"),
        name=text_of(app, "name"),
        user=text_of(app, "user"),
        queue=text_of(app, "queue"),
        state=text_of(app, "state") or "",
        final_status=text_of(app, "finalStatus"),
        am_host=host_of(app.get("amHostHttpAddress")),
        started_ms=time_of(app, "startedTime"),
        finished_ms=time_of(app, "finishedTime"),
        diagnostics=text_of(app, "diagnostics"),
        containers=read_containers(app),
    )


def parse_jobs(answer: Answer) -> Listed[JobDocument]:
    """{"jobs": {"job": [...]}} of a master."""
    return Listed.of(_items(answer, "jobs", "job"), is_job, _job)


def parse_job(answer: Answer) -> JobDocument:
    """{"job": {...}}."""
    job = parse_document(answer).get("job")
    if not isinstance(job, dict) or not is_job(job.get("id")):
        raise DocumentError(answer.url, "bad_document", "expected {'job': {...}} with an id job_<n>_<n>")
    return _job(job)


def parse_tasks(answer: Answer) -> Listed[TaskDocument]:
    """{"tasks": {"task": [...]}}."""
    return Listed.of(_items(answer, "tasks", "task"), is_task, _task)


def parse_attempts(answer: Answer) -> Listed[AttemptDocument]:
    """{"taskAttempts": {"taskAttempt": [...]}}."""
    return Listed.of(_items(answer, "taskAttempts", "taskAttempt"), is_attempt, _attempt)


def parse_attempt_counters(answer: Answer, kind: TaskKind) -> dict[str, int | None]:
    """{"jobTaskAttemptCounters": {"taskAttemptCounterGroup": [...]}} -> attributes; what is not there is None."""
    body = parse_document(answer).get("jobTaskAttemptCounters")
    groups = body.get("taskAttemptCounterGroup") if isinstance(body, dict) else None
    if not isinstance(body, dict):
        raise DocumentError(answer.url, "bad_document", "expected {'jobTaskAttemptCounters': {...}}")
    found = []
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and isinstance(group.get("counter"), list):
            found.append((str(group.get("counterGroupName")), group["counter"]))
    measured: dict[str, int | None] = dict.fromkeys(ATTRIBUTES[kind])
    measured.update(read_counters(kind, found))
    return measured


def _items(answer: Answer, outer: str, inner: str) -> list[Mapping[str, Any]]:
    document = parse_document(answer)
    body = document.get(outer)
    if outer not in document or not isinstance(body, dict | None):
        raise DocumentError(answer.url, "bad_document", f"expected {{'{outer}': {{'{inner}': [...]}}}}")
    return objects_in(answer, body or {}, inner)


def objects_in(answer: Answer, body: Mapping[str, Any], inner: str) -> list[Mapping[str, Any]]:
    """The objects of a list within a document; raises DocumentError for what is none."""
    items = body.get(inner) or []
    if isinstance(items, dict):
        items = [items]  # some versions write a list of one without its brackets
    if not isinstance(items, list):
        raise DocumentError(answer.url, "bad_document", f"expected a list in '{inner}', found {type(items).__name__}")
    return [item for item in items if isinstance(item, dict)]


def _job(job: Mapping[str, Any]) -> JobDocument:
    facts = JobFacts(
        job_id=job["id"],
        job_name=text_of(job, "name"),
        user=text_of(job, "user"),
        queue=text_of(job, "queue"),
        n_maps=count_of(job, "mapsTotal"),
        n_reduces=count_of(job, "reducesTotal"),
    )
    return JobDocument(facts, text_of(job, "state") or "", time_of(job, "startTime"), time_of(job, "finishTime"))


def _task(task: Mapping[str, Any]) -> TaskDocument:
    return TaskDocument(task["id"], text_of(task, "state") or "", text_of(task, "successfulAttempt"))


def _attempt(attempt: Mapping[str, Any]) -> AttemptDocument:
    start_ms, finish_ms = time_of(attempt, "startTime"), time_of(attempt, "finishTime")
    facts = AttemptFacts(
        attempt_id=attempt["id"],
        host=host_of(attempt.get("nodeHttpAddress")),
        rack=text_of(attempt, "rack"),
        start_ms=start_ms,
        finish_ms=finish_ms,
        status=text_of(attempt, "state"),
    )
    progress = attempt.get("progress")
    is_number = isinstance(progress, int | float) and not isinstance(progress, bool) and 0 <= progress <= 100
    phases: dict[str, int | None] = {}
    if facts.kind == "REDUCE":
        shuffled_ms, merged_ms = time_of(attempt, "shuffleFinishTime"), time_of(attempt, "mergeFinishTime")
        phases = reducer_phases(start_ms, shuffled_ms, merged_ms, finish_ms)
    return AttemptDocument(facts, float(progress) / 100 if is_number and progress is not None else None, phases)


def text_of(item: Mapping[str, Any], name: str) -> str | None:
    """A text of a document; None where it is not there or empty."""
    value = item.get(name)
    return clean_text(value) if isinstance(value, str) and value else None


def time_of(item: Mapping[str, Any], name: str) -> int | None:
    """Milliseconds after the epoch; None for "not known"."""
    value = item.get(name)
    return value if is_time_ms(value) else None


def count_of(item: Mapping[str, Any], name: str) -> int | None:
    """A count; None for anything else."""
    value = item.get(name)
    return value if is_count(value) else None


def host_of(address: object) -> str | None:
    """host of "host:port", of an IPv6 address without its brackets, as settings name it."""
    if not isinstance(address, str) or not address or address == "N/A":
        return None
    host = address.rpartition("]")[0] if address.startswith("[") else address.rpartition(":")[0]
    return clean_text(host.removeprefix("[") or address)
