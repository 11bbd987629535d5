"""What an event log tells of its Spark application, line by line, as events.

Lines are the events of Spark's listeners as `JsonProtocol` writes them. Of those that no event is made of only the name
is looked at; of the settings, which have secrets among them, only chosen ones are looked up. All times are the
driver's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.base import MAX_BAD_RECORDS_TOLD, ProblemLog
from collectors.identity import lifecycle_id
from collectors.lifecycle import EventRows, clean_text, is_time_ms, period
from collectors.network.bounded_json import TooManyValuesError, loads
from collectors.printable import printable
from collectors.spark.settings import chosen_settings
from collectors.spark.task_end import executor_figures, is_expected, reason_of, task_figures, task_status

FIRST = "1"
"""The attempt of an application that has no others."""
MAX_TEXT_CHARS = 300
MAX_STAGES = 5_000
"""Of a job that are told one by one."""
MAX_OPEN = 10_000
"""Jobs, stages and executors whose end has not come; of more the oldest are forgotten."""

_NAME = re.compile(rb'\s*\{\s*"Event"\s*:\s*"((?:[\w$]+\.)*)([\w$]{1,100})"')
_APPLICATION = re.compile(r"(application_\d{1,20}_\d{1,10}|.+?)(?:_(\d{1,9}))?", re.DOTALL)

Record = Mapping[str, Any]


@dataclass(slots=True)
class _Stage:
    start_ms: int | None
    name: str | None
    n_tasks: int | None


@dataclass
class SparkApplication:
    """What is known of an application; None is not known (yet)."""

    application_id: str
    application_attempt: str | None = None
    application_name: str | None = None
    user: str | None = None
    queue: str | None = None
    driver_host: str | None = None
    settings: str | None = None
    """The chosen ones, as JSON; they come before the start."""
    start_ms: int | None = None
    next_seq: int = 0
    newest_ms: int | None = None
    """Latest time in a line that was taken."""
    is_ended: bool = False
    jobs: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    """Those that run -> (start, number of stages)."""
    stages: dict[str, _Stage] = field(default_factory=dict)
    executors: dict[str, str | None] = field(default_factory=dict)
    """Host of each."""

    @classmethod
    def named(cls, name: str) -> SparkApplication:
        """As Spark names logs: the application's id, with its attempt on YARN."""
        found = _APPLICATION.fullmatch(name)
        application_id, attempt = (found[1], found[2]) if found else (name, None)
        return cls(_text(application_id) or "", attempt)

    def to_json(self) -> dict[str, Any]:
        """For a read position."""
        stages = {key: [stage.start_ms, stage.name, stage.n_tasks] for key, stage in self.stages.items()}
        return {**vars(self), "jobs": {k: list(v) for k, v in self.jobs.items()}, "stages": stages,
                "executors": dict(self.executors)}  # fmt: skip

    @classmethod
    def of_json(cls, saved: Record) -> SparkApplication:
        """Back from `to_json`; raises KeyError, TypeError or ValueError for anything else."""
        jobs = {str(key): (start_ms, int(n)) for key, (start_ms, n) in saved["jobs"].items()}
        stages = {str(key): _Stage(*stage) for key, stage in saved["stages"].items()}
        return cls(**{**saved, "jobs": jobs, "stages": stages, "executors": dict(saved["executors"])})


class ApplicationReader:
    """Lines of one log to rows."""

    def __init__(
        self,
        place: str,
        application: SparkApplication,
        problems: ProblemLog,
        source_rank: int,
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        """`hosts`: name in the log -> host name as job history writes it."""
        self.place = place
        self.application = application
        self.rows = EventRows(source_rank, application.next_seq)
        self._problems = problems
        self._hosts = hosts or {}
        self._n_bad = 0

    def take(self, line: bytes, number: int, until_ms: int | None = None) -> bool:
        """Take a line; False when it is later than `until_ms`."""
        named = _NAME.match(line)
        if named is None:
            if line.strip():
                self._bad(number, "a line that does not begin with the name of an event")
            return True
        handler = None if named[1] and named[1] != _SPARK else _HANDLERS.get(named[2])
        if handler is None:
            return True
        try:
            record = loads(line)
        except TooManyValuesError as error:
            self._bad(number, str(error))
            return True
        except RecursionError:
            self._bad(number, "an event that is nested too deeply")
            return True
        except ValueError as error:
            self._bad(number, f"no JSON ({type(error).__name__})")  # no word of the line: it may be a secret
            return True
        t_ms = _time_of(record)
        if until_ms is not None and t_ms is not None and t_ms > until_ms:
            return False
        if t_ms is not None:
            self.application.newest_ms = max(t_ms, self.application.newest_ms or t_ms)
        told = handler(self, record, number)
        if told:
            self._bad(number, f"{named[2].decode()}: {told}")
        self.application.next_seq = self.rows.next_seq
        return True

    # ---- application -------------------------------------------------------------------------------------------

    def _environment(self, record: Record, _number: int) -> str:
        settings = record.get("Spark Properties")
        if not isinstance(settings, (dict, list)):
            return ""
        pairs = settings.items() if isinstance(settings, dict) else settings
        found = {pair[0]: pair[1] for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == 2
                 and isinstance(pair[0], str)}  # fmt: skip
        self.application.queue = _text(found.get("spark.yarn.queue")) or self.application.queue
        self.application.driver_host = self._host(found.get("spark.driver.host")) or self.application.driver_host
        self.application.settings = chosen_settings(found)
        return ""

    def _application_start(self, record: Record, number: int) -> str:
        app, start_ms = self.application, _time(record, "Timestamp")
        app.application_id = _text(record.get("App ID")) or app.application_id
        app.application_attempt = _text(record.get("App Attempt ID")) or app.application_attempt
        app.application_name, app.user = _text(record.get("App Name")), _text(record.get("User"))
        app.start_ms = start_ms
        return self._add("SparkApplicationStart", "", start_ms, number, {"settings": app.settings})

    def _application_end(self, record: Record, number: int) -> str:
        app, end_ms = self.application, _time(record, "Timestamp")
        app.is_ended = True
        told = {"period_ms": period(app.start_ms, end_ms), "exit_code": _int(record.get("ExitCode"))}
        return self._add("SparkApplicationEnd", "", end_ms, number, told)

    # ---- jobs and stages ---------------------------------------------------------------------------------------

    def _job_start(self, record: Record, number: int) -> str:
        job, start_ms = _count(record, "Job ID"), _time(record, "Submission Time")
        if job is None:
            return "no Job ID"
        stages = record.get("Stage IDs")
        n_stages = len(stages) if isinstance(stages, list) else 0
        _keep(self.application.jobs, str(job), (start_ms, n_stages))
        told = {"spark_job": job, "n_stages": n_stages, "stages": _ids(stages)}
        return self._add("SparkJobStart", str(job), start_ms, number, told)

    def _job_end(self, record: Record, number: int) -> str:
        job, end_ms = _count(record, "Job ID"), _time(record, "Completion Time")
        if job is None:
            return "no Job ID"
        start_ms, n_stages = self.application.jobs.pop(str(job), (None, None))
        result = _mapping(record.get("Job Result"))
        status = {"JobSucceeded": "SUCCEEDED", "JobFailed": "FAILED"}.get(str(result.get("Result")))
        told = {
            "spark_job": job,
            "n_stages": n_stages,
            "status": status,
            "period_ms": period(start_ms, end_ms),
            "reason": _first_line(_mapping(result.get("Exception")).get("Message")),
        }
        return self._add("SparkJobEnd", str(job), end_ms, number, told)

    def _stage_start(self, record: Record, number: int) -> str:
        stage, info = _stage_of(record.get("Stage Info"))
        if stage is None:
            return "no Stage ID"
        start_ms = _time(info, "Submission Time")
        opened = _Stage(start_ms, _text(info.get("Stage Name")), _count(info, "Number of Tasks"))
        _keep(self.application.stages, stage, opened)
        told = {"stage": stage, "stage_name": opened.name, "n_tasks": opened.n_tasks}
        return self._add("SparkStageStart", stage, start_ms, number, told)

    def _stage_end(self, record: Record, number: int) -> str:
        stage, info = _stage_of(record.get("Stage Info"))
        if stage is None:
            return "no Stage ID"
        opened = self.application.stages.pop(stage, None)
        start_ms = _time(info, "Submission Time") or (opened.start_ms if opened else None)
        end_ms, failure = _time(info, "Completion Time"), _first_line(info.get("Failure Reason"))
        told = {
            "stage": stage,
            "stage_name": _text(info.get("Stage Name")),
            "n_tasks": _count(info, "Number of Tasks"),
            "status": "SUCCEEDED" if failure is None else "FAILED",
            "period_ms": period(start_ms, end_ms),
            "reason": failure,
        }
        return self._add("SparkStageEnd", stage, end_ms, number, told)

    # ---- tasks -------------------------------------------------------------------------------------------------

    def _task_end(self, record: Record, number: int) -> str:
        stage, attempt = _count(record, "Stage ID"), _count(record, "Stage Attempt ID")
        info, end = _mapping(record.get("Task Info")), _mapping(record.get("Task End Reason"))
        task_number, finish_ms = _count(info, "Task ID"), _time(info, "Finish Time")
        if stage is None or task_number is None:
            return "no Stage ID or no Task ID"
        index, nth = _count(info, "Index"), _count(info, "Attempt")
        stage_attempt = f"{stage}.{attempt or 0}"
        told: dict[str, Any] = {
            "stage": stage_attempt,
            "task": None if index is None else f"{index}.{nth or 0}",
            "task_number": task_number,
            "executor_id": _text(info.get("Executor ID")),
            "host": self._host(info.get("Host")),
            "reason": _first_line(reason_of(end)),
        }
        if end.get("Reason") == "FetchFailed":
            server = _mapping(end.get("Block Manager Address"))
            told_fetch = {
                **told,
                "source_host": self._host(server.get("Host")),
                "source_executor_id": _text(server.get("Executor ID")),
            }
            self._add("SparkFetchFailed", str(task_number), finish_ms, number, told_fetch)
        told |= {
            "status": task_status(end, info),
            "speculative": int(info.get("Speculative") is True),
            "locality": _text(info.get("Locality")),
            "period_ms": period(_time(info, "Launch Time"), finish_ms),
            **task_figures(_mapping(record.get("Task Metrics"))),
            **executor_figures(_mapping(record.get("Task Executor Metrics"))),
        }
        return self._add("SparkTaskEnd", str(task_number), finish_ms, number, told)

    # ---- executors ---------------------------------------------------------------------------------------------

    def _executor_added(self, record: Record, number: int) -> str:
        executor_id, info = _text(record.get("Executor ID")), _mapping(record.get("Executor Info"))
        host = self._host(info.get("Host"))
        if executor_id is None:
            return "no Executor ID"
        _keep(self.application.executors, executor_id, host)
        if executor_id == "driver":
            return ""  # of local mode: no executor of its own
        told = {"executor_id": executor_id, "host": host, "n_cores": _count(info, "Total Cores")}
        return self._add("SparkExecutorAdded", executor_id, _time(record, "Timestamp"), number, told)

    def _executor_removed(self, record: Record, number: int) -> str:
        executor_id, reason = _text(record.get("Executor ID")), _first_line(record.get("Removed Reason"))
        if executor_id is None:
            return "no Executor ID"
        told = {
            "executor_id": executor_id,
            "host": self.application.executors.pop(executor_id, None),
            "reason": reason,
            "lost": int(not is_expected(reason)),
        }
        return self._add("SparkExecutorRemoved", executor_id, _time(record, "Timestamp"), number, told)

    # ---- rows --------------------------------------------------------------------------------------------------

    def _add(self, event_type: str, subject: str, t_ms: int | None, number: int, told: Mapping[str, Any]) -> str:
        """Returns what is wrong with it."""
        if t_ms is None:
            return "no time: it is left out"
        app = self.application
        attributes = {
            "application_id": app.application_id,
            "application_attempt": app.application_attempt or FIRST,
            "application_name": app.application_name,
            "user": app.user,
            "queue": app.queue,
            **told,
        }
        event_id = lifecycle_id(event_type, f"{app.application_id}/{app.application_attempt or FIRST}/{subject}")
        clock_id = f"host:{app.driver_host}" if app.driver_host else f"driver:{app.application_id}"
        self.rows.add(event_type, event_id, t_ms, clock_id, f"{printable(self.place)}:{number}", attributes)
        return ""

    def _host(self, name: object) -> str | None:
        text = _text(name)
        return None if text is None else self._hosts.get(text, text)

    def _bad(self, number: int, message: str) -> None:
        self._n_bad += 1
        place = f"{self.place}:{number}"
        if self._n_bad <= MAX_BAD_RECORDS_TOLD:
            self._problems.report(place, "bad_record", f"{message}; it is skipped", key=(place, message))
        elif self._n_bad == MAX_BAD_RECORDS_TOLD + 1:
            self._problems.report(self.place, "more_bad_records", f"more bad lines from line {number} on; all skipped")


_SPARK = b"org.apache.spark.scheduler."
_HANDLERS: Mapping[bytes, Callable[[ApplicationReader, Record, int], str]] = {
    b"SparkListenerEnvironmentUpdate": ApplicationReader._environment,
    b"SparkListenerApplicationStart": ApplicationReader._application_start,
    b"SparkListenerApplicationEnd": ApplicationReader._application_end,
    b"SparkListenerJobStart": ApplicationReader._job_start,
    b"SparkListenerJobEnd": ApplicationReader._job_end,
    b"SparkListenerStageSubmitted": ApplicationReader._stage_start,
    b"SparkListenerStageCompleted": ApplicationReader._stage_end,
    b"SparkListenerTaskEnd": ApplicationReader._task_end,
    b"SparkListenerExecutorAdded": ApplicationReader._executor_added,
    b"SparkListenerExecutorRemoved": ApplicationReader._executor_removed,
}
"""Name of a listener's event -> what reads it."""


def _keep(table: dict[str, Any], key: str, value: Any) -> None:
    table[key] = value
    if len(table) > MAX_OPEN:
        del table[next(iter(table))]


def _time_of(record: Record) -> int | None:
    info = _mapping(record.get("Task Info")) or _mapping(record.get("Stage Info"))
    times = (info.get("Finish Time"), info.get("Completion Time"), info.get("Submission Time"),
             record.get("Timestamp"), record.get("Completion Time"), record.get("Submission Time"))  # fmt: skip
    return next((t_ms for t_ms in times if is_time_ms(t_ms)), None)


def _stage_of(value: object) -> tuple[str | None, Record]:
    info = _mapping(value)
    stage = _count(info, "Stage ID")
    return (None if stage is None else f"{stage}.{_count(info, 'Stage Attempt ID') or 0}"), info


def _ids(stages: object) -> str | None:
    """With spaces between them; None for too many, and for what is no list of ids."""
    if not isinstance(stages, list) or len(stages) > MAX_STAGES:
        return None
    ids = [value for value in map(_int, stages) if value is not None and value >= 0]
    return " ".join(map(str, ids)) if len(ids) == len(stages) else None


def _mapping(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return printable(clean_text(value), MAX_TEXT_CHARS) if isinstance(value, str) and value else None


def _first_line(value: object) -> str | None:
    return _text(value.strip().partition("\n")[0]) if isinstance(value, str) else None


def _time(record: Record, key: str) -> int | None:
    value = record.get(key)
    return value if is_time_ms(value) else None


def _int(value: object) -> int | None:
    is_small = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    return value if is_small and isinstance(value, int) else None


def _count(record: Record, key: str) -> int | None:
    value = _int(record.get(key))
    return value if value is not None and value >= 0 else None


__all__ = ["ApplicationReader", "SparkApplication"]
