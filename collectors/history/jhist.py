"""Parser of one `.jhist` file in its Avro-Json form: lines of JSON, read record by record as the file grows.

The schema line is not interpreted: a record names its own type, and the fields read here have kept their names since
Hadoop 0.23; values of union types come wrapped in their type's name or bare.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from collectors.base import MAX_BAD_RECORDS_TOLD, ProblemLog
from collectors.counters import is_count, missing_counters, read_counters
from collectors.hadoop_ids import is_attempt, is_job, job_of
from collectors.history.clock_offsets import ClockOffsets, skew_message
from collectors.history.whole_counters import whole_counters
from collectors.lifecycle import AttemptFacts, EventRows, JobFacts, attempt_figures, clean_text, is_time_ms, period
from collectors.network.bounded_json import TooManyValuesError, loads
from collectors.printable import printable

MAX_HEADER_BYTES = 1 << 16
MAX_HEADER_LINES = 100
MAX_RECORD_BYTES = 1 << 23
MAX_RECORD_VALUES = 500_000
"""An attempt with all its counters has some hundreds."""
MAX_DIAGNOSTICS_CHARS = 4_000
JSON_MARK = b"Avro-Json"
BINARY_MARK = b"Avro-Binary"

SKIPPED_PREFIX = b'{"type":"TASK_'
"""Task records repeat what attempts say, counters included; they are recognised without parsing them."""

UNION_TYPES = frozenset({"string", "int", "long", "boolean", "float", "double", "array", "map"})

READ_AND_UNUSED = frozenset(
    {"JOB_PRIORITY_CHANGED", "JOB_STATUS_CHANGED", "JOB_INFO_CHANGED", "NORMALIZED_RESOURCE"}
    | {f"TASK_{what}" for what in ("STARTED", "FINISHED", "FAILED", "UPDATED")}
    | {
        f"{kind}_ATTEMPT_{what}"
        for kind in ("SETUP", "CLEANUP")
        for what in ("STARTED", "FINISHED", "FAILED", "KILLED")
    }
)
"""Records that Hadoop writes and no event needs."""


class BadRecordError(ValueError):
    """A record whose content cannot be used; the message says why."""


class JhistParser:
    """Events of one history file. `feed` takes the bytes as they come, `close` says that no more will come."""

    def __init__(self, place: str, problems: ProblemLog, source_rank: int, *, keeps_counters: bool = False) -> None:
        """keeps_counters: AttemptCounters and JobCounters, too."""
        self.place = place
        self._keeps_counters = keeps_counters
        self._n_cut = 0
        self._shown_place = printable(place)
        self.events = EventRows(source_rank)
        self.job: JobFacts | None = None
        self.finished = False
        self.refused = False
        self.end_ms: int | None = None
        self.n_bytes = 0
        self._problems = problems
        self._digest = blake2b(digest_size=16)
        self._tail = b""
        self._line = 0
        self._in_header = True
        self._skipping = False
        self._clock_id: str | None = None
        self._first_master: tuple[str, int] | None = None
        """Clock of its host, and when it started by that."""
        self._clocks = ClockOffsets()
        self._launch_ms: int | None = None
        self._attempts: dict[str, AttemptFacts] = {}
        self._ended: set[str] = set()
        self._n_lacking = Counter[str]()
        self._n_bad = 0
        self._readers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "AM_STARTED": self._am_started,
            "JOB_SUBMITTED": self._job_submitted,
            "JOB_INITED": self._job_inited,
            "JOB_QUEUE_CHANGED": self._job_queue_changed,
            "JOB_FINISHED": lambda record: self._job_ended(record, "SUCCEEDED"),
            "JOB_FAILED": lambda record: self._job_ended(record, "FAILED"),
            "JOB_KILLED": lambda record: self._job_ended(record, "KILLED"),
            "JOB_ERROR": lambda record: self._job_ended(record, "ERROR"),
            **{f"{kind}_ATTEMPT_STARTED": self._attempt_started for kind in ("MAP", "REDUCE")},
            "MAP_ATTEMPT_FINISHED": lambda record: self._attempt_ended(record, "taskStatus"),
            "REDUCE_ATTEMPT_FINISHED": lambda record: self._attempt_ended(record, "taskStatus"),
            **{
                f"{kind}_ATTEMPT_{how}": lambda record: self._attempt_ended(record, "status")
                for kind in ("MAP", "REDUCE")
                for how in ("FAILED", "KILLED")
            },
        }

    @property
    def digest(self) -> str:
        """Of all bytes fed so far."""
        return self._digest.hexdigest()

    def feed(self, data: bytes) -> None:
        """Consume the complete lines of `data`; the rest waits for more."""
        self.n_bytes += len(data)
        self._digest.update(data)
        if self.refused:
            return
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            self._take(line)
            if self.refused:
                return
        if self._in_header and len(self._tail) > MAX_HEADER_BYTES:
            self._refuse("not_jhist", "no 'Avro-Json' line at its start")
        elif len(self._tail) > MAX_RECORD_BYTES:
            self._report_oversized(self._line + 1)
            self._tail, self._skipping = b"", True

    def settle(self) -> None:
        """Take a last record that is whole but whose line end is missing (yet)."""
        if self._tail.rstrip().endswith(b"}") and not self._in_header and not self._skipping:
            try:
                loads(self._tail, MAX_RECORD_VALUES)
            except TooManyValuesError:
                pass  # refused as a bad record
            except RecursionError:
                pass  # nested too deeply to be read at all: refused like any other bad record
            except ValueError:
                return
            self._take(self._tail)
            self._tail = b""

    def close(self) -> None:
        """Nothing more will come: report an incomplete end and what the file lacks."""
        if self.refused:
            return
        self.settle()
        if self._in_header:
            self._refuse("empty" if not self.n_bytes else "not_jhist", "no 'Avro-Json' line at its start")
            return
        if self._tail.strip():
            self._report(
                "truncated",
                f"it ends in the middle of a record after {self._line} whole lines; what stands before is used",
            )
        elif not self.finished:
            self._report("unfinished", "it has no record of the job's end; what it holds is used, no end is invented")
        if self._n_bad > MAX_BAD_RECORDS_TOLD:
            n_more = self._n_bad - MAX_BAD_RECORDS_TOLD
            self._report("more_bad_records", f"{n_more} more bad record(s) behind those told; they are skipped")
        for clock_id, offset in self._clocks.off():
            message = skew_message(clock_id, offset, "the ResourceManager, which says when the job was submitted")
            self._problems.report(self.place, "clock_skew", message, key=(self.place, clock_id, "clock_skew"))
        if self._n_cut:
            message = f"counters of {self._n_cut} attempt(s) or of the job were left out: odd, or too many"
            self._problems.report(self.place, "odd_counters", message)
        for attribute, n_attempts in self._n_lacking.items():
            self._problems.report(
                self.place,
                "missing_counter",
                f"{n_attempts} attempt(s) without a counter for {attribute}: left empty",
                key=(self.place, "missing_counter", attribute),
            )

    def _take(self, line: bytes) -> None:
        self._line += 1
        if self._skipping:
            self._skipping = False
            return
        if len(line) > MAX_RECORD_BYTES:
            self._report_oversized(self._line)
            return
        stripped = line.strip()
        if not stripped:
            return
        if self._in_header:
            self._header_line(stripped)
        elif stripped.startswith(SKIPPED_PREFIX) and stripped.endswith(b"}"):
            return
        else:
            self._record(stripped)

    def _header_line(self, line: bytes) -> None:
        line = line.removeprefix(BOM_UTF8)  # an editor's mark
        if line == JSON_MARK:
            self._in_header = False
        elif line.startswith(BINARY_MARK):
            self._refuse(
                "avro_binary",
                "written in the binary Avro form; set mapreduce.jobhistory.jhist.format=json so that it can be read",
            )
        elif line.startswith((b"Obj\x01", b"{")) or b"\0" in line or self._line > MAX_HEADER_LINES:
            self._refuse("not_jhist", f"no 'Avro-Json' line at its start; found {_excerpt(line)}")

    def _record(self, line: bytes) -> None:
        try:
            record = loads(line, MAX_RECORD_VALUES)
        except (ValueError, RecursionError) as error:
            self._report("bad_record", f"no JSON record ({error}): {_excerpt(line)}", line=True)
            return
        if not isinstance(record, dict):
            self._report("bad_record", f"expected a JSON object, found {_excerpt(line)}", line=True)
            return
        kind = record.get("type")
        if kind == "record":
            return  # the schema
        if not isinstance(kind, str) or (kind not in self._readers and kind not in READ_AND_UNUSED):
            self._problems.report(
                f"{self.place}:{self._line}",
                "unknown_record",
                f"record of unknown type {kind!r}; it is skipped",
                key=(self.place, "unknown_record", str(kind)),
            )
            return
        reader = self._readers.get(kind)
        if reader is None:
            return
        try:
            reader(_body(record))
        except BadRecordError as error:
            self._report("bad_record", f"{kind}: {error}; it is skipped", line=True)

    # ---- the records -------------------------------------------------------------------------------------------

    def _am_started(self, record: Mapping[str, Any]) -> None:
        host = _text(record, "nodeManagerHost")
        if host:
            self._clock_id = f"host:{host}"
        started_ms = _time(record, "startTime")
        if self._first_master is None and self._clock_id is not None and started_ms is not None:
            self._first_master = self._clock_id, started_ms

    def _job_of(self, record: Mapping[str, Any]) -> JobFacts:
        return self._known_job(record.get("jobid"))

    def _known_job(self, job_id: object) -> JobFacts:
        if not is_job(job_id):
            raise BadRecordError(f"jobid {job_id!r} is not of the form job_<number>_<number>")
        if self.job is None:
            self.job = JobFacts(job_id)
            self._check_name(job_id)
        elif self.job.job_id != job_id:
            raise BadRecordError(f"it is of {job_id}, this file's records are of {self.job.job_id}")
        return self.job

    def _check_name(self, job_id: str) -> None:
        name = self.place.rpartition("/")[2]
        if not name.startswith(job_id) or name[len(job_id) :][:1].isdigit():
            self._problems.report(
                self.place, "name_disagrees", f"its records are of {job_id}, its name says otherwise; the records count"
            )

    def _job_submitted(self, record: Mapping[str, Any]) -> None:
        job = self._job_of(record)
        job.job_name = _text(record, "jobName")
        job.user = _text(record, "userName")
        job.queue = _text(record, "jobQueueName") or job.queue
        submitted_ms = _time(record, "submitTime")
        if submitted_ms is not None and self._first_master is not None:
            self._clocks.not_before(*self._first_master, submitted_ms)

    def _job_queue_changed(self, record: Mapping[str, Any]) -> None:
        job = self._job_of(record)
        job.queue = _text(record, "jobQueueName") or job.queue

    def _job_inited(self, record: Mapping[str, Any]) -> None:
        job = self._job_of(record)
        if self._launch_ms is not None:
            return  # a second ApplicationMaster repeats it
        job.n_maps = _count(record, "totalMaps")
        job.n_reduces = _count(record, "totalReduces")
        self._launch_ms = _time(record, "launchTime")
        if self._launch_ms is None:
            self._report("missing_time", "the job has no launchTime; no JobStart", line=True)
            return
        self.events.job_start(job, self._launch_ms, self._clock_id, self._origin())

    def _job_ended(self, record: Mapping[str, Any], status: str) -> None:
        job = self._job_of(record)
        if self.finished:
            self._report("second_finish", "the job ends twice; the first counts", line=True)
            return
        self.finished = True
        self.end_ms = _time(record, "finishTime")
        if self.end_ms is None:
            self._report("missing_time", f"the job ended {status} without a finishTime; no JobEnd", line=True)
            return
        if self._launch_ms is None:
            self._report("finish_without_start", "the job ends without a launch; its period stays empty", line=True)
        elif self.end_ms < self._launch_ms:
            self._report("negative_period", "the job ends before its launch; its period stays empty", line=True)
        status = _text(record, "jobStatus") or status
        self.events.job_end(job, self._launch_ms, self.end_ms, status, self._clock_id, self._origin())
        if self._keeps_counters:
            counters = self._whole(record.get("totalCounters"))
            told = (_text(record, "diagnostics") or "")[:MAX_DIAGNOSTICS_CHARS].strip() or None
            if counters is not None or told is not None:
                self.events.job_counters(job.job_id, counters, told, self.end_ms, self._clock_id, self._origin())

    def _attempt(self, record: Mapping[str, Any]) -> AttemptFacts:
        attempt_id = _unwrap(record.get("attemptId"))
        if not is_attempt(attempt_id):
            raise BadRecordError(f"attemptId {attempt_id!r} is not of the form attempt_<n>_<n>_<m|r>_<n>_<n>")
        self._known_job(job_of(attempt_id))
        return self._attempts.setdefault(attempt_id, AttemptFacts(attempt_id))

    def _attempt_started(self, record: Mapping[str, Any]) -> None:
        attempt = self._attempt(record)
        if attempt.start_ms is not None:
            return  # a second ApplicationMaster repeats it
        attempt.start_ms = _time(record, "startTime")
        attempt.host = _text(record, "trackerName")
        if attempt.start_ms is None:
            self._report("missing_time", f"{attempt.attempt_id} starts without a startTime", line=True)
            return
        self.events.attempt_start(attempt, self._clock_id, self._origin())

    def _attempt_ended(self, record: Mapping[str, Any], status_field: str) -> None:
        attempt = self._attempt(record)
        status = _text(record, status_field)
        if attempt.attempt_id in self._ended:
            if (status, _time(record, "finishTime")) != (attempt.status, attempt.finish_ms):
                message = f"{attempt.attempt_id} ends again as {status}; the first counts"
                self._report("second_finish", message, line=True)
            return
        self._ended.add(attempt.attempt_id)
        attempt.status = status
        attempt.host = _place(record, "hostname") or attempt.host
        attempt.rack = _place(record, "rackname")
        attempt.finish_ms = _time(record, "finishTime")
        if attempt.finish_ms is None:
            if attempt.start_ms is None and attempt.status == "KILLED":
                return  # killed while it waited for a container: it never ran
            self._report(
                "missing_time", f"{attempt.attempt_id} ends without a finishTime: no end is made up", line=True
            )
            return
        self._check_period(attempt)
        self.events.attempt_end(attempt, self._clock_id, self._origin())
        self.events.attempt_summary(attempt, self._figures(attempt, record), self._clock_id, self._origin())
        if self._keeps_counters and (counters := self._whole(record.get("counters"))) is not None:
            self.events.attempt_counters(attempt, counters, self._clock_id, self._origin())

    def _check_period(self, attempt: AttemptFacts) -> None:
        if attempt.start_ms is None:
            self._report(
                "finish_without_start", f"{attempt.attempt_id} ends without a start; its period stays empty", line=True
            )
        elif period(attempt.start_ms, attempt.finish_ms) is None:
            self._report(
                "negative_period", f"{attempt.attempt_id} ends before its start; its period stays empty", line=True
            )

    def _figures(self, attempt: AttemptFacts, record: Mapping[str, Any]) -> dict[str, int | None]:
        found = read_counters(attempt.kind, _counter_groups(record.get("counters")))
        n_reduces = self.job.n_reduces if self.job else None
        if attempt.status == "SUCCEEDED":
            self._n_lacking.update(missing_counters(attempt.kind, found, n_reduces))
        phase_ends = _time(record, "shuffleFinishTime"), _time(record, "sortFinishTime")
        return attempt_figures(attempt, found, n_reduces, *phase_ends)

    def _whole(self, counters: Any) -> str | None:
        text, is_cut = whole_counters(_counter_groups(counters))
        self._n_cut += is_cut
        return text

    # ---- reports -----------------------------------------------------------------------------------------------

    def _origin(self) -> str:
        return f"{self._shown_place}:{self._line}"

    def _report(self, kind: str, message: str, *, line: bool = False) -> None:
        if kind == "bad_record":
            self._n_bad += 1
            if self._n_bad > MAX_BAD_RECORDS_TOLD:
                return
        place = f"{self.place}:{self._line}" if line else self.place
        self._problems.report(place, kind, message)

    def _report_oversized(self, line: int) -> None:
        message = f"a line longer than {MAX_RECORD_BYTES >> 20} MiB; it is skipped"
        self._problems.report(f"{self.place}:{line}", "oversized_record", message)

    def _refuse(self, kind: str, message: str) -> None:
        self.refused = True
        self._tail = b""
        self._report(kind, message)


def _body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of {"type": ..., "event": {"<class name>": {content}}}."""
    event = record.get("event")
    if not isinstance(event, dict) or len(event) != 1:
        raise BadRecordError(f"expected one event in the record, found {_excerpt(repr(event).encode())}")
    (body,) = event.values()
    if not isinstance(body, dict):
        raise BadRecordError(f"expected the event's fields, found {_excerpt(repr(body).encode())}")
    return body


def _unwrap(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in UNION_TYPES:
            return inner
    return value


def _text(record: Mapping[str, Any], field: str) -> str | None:
    value = _unwrap(record.get(field))
    return clean_text(value) if isinstance(value, str) else None


def _place(record: Mapping[str, Any], field: str) -> str | None:
    """A host or rack; Hadoop writes UNKNOWN for an attempt that got no container."""
    text = _text(record, field)
    return None if text in (None, "", "UNKNOWN") else text


def _time(record: Mapping[str, Any], field: str) -> int | None:
    value = _unwrap(record.get(field))
    return value if is_time_ms(value) else None


def _count(record: Mapping[str, Any], field: str) -> int | None:
    value = _unwrap(record.get(field))
    return value if is_count(value) else None


def _counter_groups(counters: Any) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(counters, dict) and "groups" not in counters and len(counters) == 1:
        (counters,) = counters.values()  # a union wraps it in its class name
    groups = counters.get("groups") if isinstance(counters, dict) else None
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and isinstance(group.get("name"), str) and isinstance(group.get("counts"), list):
            yield group["name"], group["counts"]


def _excerpt(line: bytes) -> str:
    return repr(printable(line[:80].decode("utf-8", "replace"), 80))
