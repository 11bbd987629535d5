"""Parser of Hadoop 1 job histories, of one job or of many in one stream.

Times of a job are those of the JobTracker, times of an attempt those of its TaskTracker: two clocks, and an attempt
may well seem to start before its job; by how much the clocks of hosts are off is told (`clock_offsets`). Attempts that
set a job up or clean up after it are no events, as in Hadoop 2. Before 0.19 the counters of a task stand in its Task
record alone, which follows the end of its successful attempt, and only the host of a start tells where it ran.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import blake2b

from collectors.base import MAX_BAD_RECORDS_TOLD, ProblemLog
from collectors.counters import is_count, missing_counters, read_counters
from collectors.hadoop_ids import is_attempt, is_job, job_of, task_of
from collectors.history.clock_offsets import ClockOffsets, skew_message
from collectors.history.hadoop1_lines import BadLines, Item, PartBegins, Record, RecordReader, counter_groups
from collectors.history.whole_counters import whole_counters
from collectors.lifecycle import AttemptFacts, EventRows, JobFacts, attempt_figures, clean_text, is_time_ms, period
from collectors.printable import printable

STATUS = {"SUCCESS": "SUCCEEDED", "FAILED": "FAILED", "KILLED": "KILLED"}
"""As written -> as Hadoop 2 calls it; other states of a job are not its end."""

LATER_COUNTERS = frozenset({"input_bytes", "materialized_bytes", "gc_ms", "cpu_ms"})
"""Attributes of maps whose counters came with late versions of Hadoop 1 or with its newer API only."""
LATER_REDUCE_COUNTERS = frozenset({"output_bytes", "gc_ms", "cpu_ms"})
"""The same of reduces."""

TRACKER = re.compile(r"(?:tracker_)?([^:/]+)")


class BadRecordError(ValueError):
    """A record whose content cannot be used; the message says why."""


class Hadoop1Job:
    """What a stream tells of one job."""

    def __init__(
        self, place: str, name: str, problems: ProblemLog, source_rank: int, *, keeps_counters: bool = False
    ) -> None:
        self.place = place
        self.name = name
        self._keeps_counters = keeps_counters
        self.events = EventRows(source_rank)
        self.job: JobFacts | None = None
        self.finished = False
        self.end_ms: int | None = None
        self._shown_place = printable(place)
        self._problems = problems
        self._digest = blake2b(digest_size=16)
        self._line = 0
        self._launch_ms: int | None = None
        self._attempts: dict[str, AttemptFacts] = {}
        self._ended: set[str] = set()
        self._n_lacking = Counter[str]()
        self._n_bad = 0
        self._handed_out: dict[str, int] = {}
        """By task when it was handed out first, by the JobTracker's clock."""
        self._unsummarised: dict[str, tuple[AttemptFacts, Mapping[str, str], str]] = {}
        """By task its last successful attempt, whose counters the task's own record may tell."""
        self._ended_of_task: dict[str, list[AttemptFacts]] = {}
        """Successful attempts since the last record of their task's end."""
        self._clocks = ClockOffsets()
        self._readers: dict[str, Callable[[Mapping[str, str]], None]] = {
            "Job": self._job_told,
            "Task": self._task_told,
            "MapAttempt": self._attempt_told,
            "ReduceAttempt": self._attempt_told,
        }

    @property
    def digest(self) -> str:
        """Of its records."""
        return self._digest.hexdigest()

    def take(self, record: Record) -> None:
        """Advance by one record; one that cannot be used is a problem."""
        self._line = record.line
        self._digest.update(record.text)
        reader = self._readers.get(record.kind)
        if reader is None:
            return  # Meta
        try:
            reader(record.values)
        except BadRecordError as error:
            self.bad(record.line, f"{record.kind}: {error}; it is skipped")

    def bad(self, line: int, message: str) -> None:
        """Report lines that cannot be used."""
        self._n_bad += 1
        if self._n_bad <= MAX_BAD_RECORDS_TOLD:
            self._problems.report(f"{self.place}:{line}", "bad_record", message)

    def close(self, *, is_cut: bool = False) -> None:
        """Nothing more will come: report what the history lacks. `is_cut`: its last record is not whole."""
        for task_id in list(self._unsummarised):
            self._summarise(task_id, "")
        what = self.job.job_id if self.job else self.name or "a history without a job"
        if is_cut:
            message = f"{what}: it ends in the middle of a record; what stands before is used"
            self._problems.report(self.place, "truncated", message, key=(self.place, what, "truncated"))
        elif not self.finished:
            message = f"{what}: no record of the job's end; what is there is used, no end is invented"
            self._problems.report(self.place, "unfinished", message, key=(self.place, what, "unfinished"))
        if self._n_bad > MAX_BAD_RECORDS_TOLD:
            message = f"{what}: {self._n_bad - MAX_BAD_RECORDS_TOLD} more bad record(s) behind those told"
            self._problems.report(self.place, "more_bad_records", message, key=(self.place, what, "more"))
        for clock_id, offset in self._clocks.off():
            message = f"{what}: {skew_message(clock_id, offset, 'the JobTracker')}"
            self._problems.report(self.place, "clock_skew", message, key=(self.place, what, clock_id, "clock_skew"))
        for attribute, n_attempts in self._n_lacking.items():
            self._problems.report(
                self.place,
                "missing_counter",
                f"{what}: {n_attempts} attempt(s) without a counter for {attribute}: left empty",
                key=(self.place, what, attribute),
            )

    # ---- the records -------------------------------------------------------------------------------------------

    def _known_job(self, job_id: str | None) -> JobFacts:
        if not is_job(job_id):
            raise BadRecordError(f"job id {job_id!r} is not of the form job_<number>_<number>")
        if self.job is None:
            self.job = JobFacts(job_id)
            if self.name and job_id not in self.name:
                message = f"its records are of {job_id}, its name {self.name!r} says otherwise; the records count"
                self._problems.report(f"{self.place}:{self._line}", "name_disagrees", message)
        elif self.job.job_id != job_id:
            raise BadRecordError(f"it is of {job_id}, this history's records are of {self.job.job_id}")
        return self.job

    def _job_told(self, values: Mapping[str, str]) -> None:
        job = self._known_job(values.get("JOBID"))
        job.job_name = _text(values, "JOBNAME") or job.job_name
        job.user = _text(values, "USER") or job.user
        job.queue = _text(values, "JOB_QUEUE") or job.queue
        if "LAUNCH_TIME" in values:
            self._job_launched(job, values)
        status = STATUS.get(values.get("JOB_STATUS", ""))
        if status is not None:
            self._job_ended(job, values, status)

    def _job_launched(self, job: JobFacts, values: Mapping[str, str]) -> None:
        if self._launch_ms is not None:
            return  # a JobTracker that was started again repeats it
        job.n_maps = _count(values, "TOTAL_MAPS")
        job.n_reduces = _count(values, "TOTAL_REDUCES")
        self._launch_ms = _time(values, "LAUNCH_TIME")
        if self._launch_ms is None:
            self._report("missing_time", f"{job.job_id} has no usable LAUNCH_TIME; no JobStart")
            return
        self.events.job_start(job, self._launch_ms, _tracker_clock(job.job_id), self._origin())

    def _job_ended(self, job: JobFacts, values: Mapping[str, str], status: str) -> None:
        if self.finished:
            self._report("second_finish", f"{job.job_id} ends twice; the first counts")
            return
        self.finished = True
        self.end_ms = _time(values, "FINISH_TIME")
        if self.end_ms is None:
            self._report("missing_time", f"{job.job_id} ended {status} without a FINISH_TIME; no JobEnd")
            return
        if self._launch_ms is None:
            self._report("finish_without_start", f"{job.job_id} ends without a launch; its period stays empty")
        elif self.end_ms < self._launch_ms:
            self._report("negative_period", f"{job.job_id} ends before its launch; its period stays empty")
        clock_id = _tracker_clock(job.job_id)
        self.events.job_end(job, self._launch_ms, self.end_ms, status, clock_id, self._origin())

    def _task_told(self, values: Mapping[str, str]) -> None:
        task_id = values.get("TASKID", "")
        if values.get("TASK_TYPE") not in ("MAP", "REDUCE"):
            return
        if "TASK_STATUS" not in values:
            handed_out_ms = _time(values, "START_TIME")
            if handed_out_ms is not None:
                self._handed_out.setdefault(task_id, handed_out_ms)
            return
        done_ms = _time(values, "FINISH_TIME")
        for attempt in self._ended_of_task.pop(task_id, ()):
            clock_id = _host_clock(attempt)
            if STATUS.get(values["TASK_STATUS"]) == "SUCCEEDED" and clock_id and done_ms and attempt.finish_ms:
                self._clocks.not_after(clock_id, attempt.finish_ms, done_ms)
        if task_id in self._unsummarised:
            self._summarise(task_id, values.get("COUNTERS", ""))

    def _attempt_told(self, values: Mapping[str, str]) -> None:
        if values.get("TASK_TYPE") not in ("MAP", "REDUCE"):
            return
        attempt_id = values.get("TASK_ATTEMPT_ID")
        if not is_attempt(attempt_id):
            raise BadRecordError(f"TASK_ATTEMPT_ID {attempt_id!r} is not of the form attempt_<n>_<n>_<m|r>_<n>_<n>")
        self._known_job(job_of(attempt_id))
        attempt = self._attempts.setdefault(attempt_id, AttemptFacts(attempt_id))
        if "TASK_STATUS" in values:
            self._attempt_ended(attempt, values)
        elif "START_TIME" in values:
            self._attempt_started(attempt, values)

    def _attempt_started(self, attempt: AttemptFacts, values: Mapping[str, str]) -> None:
        if attempt.start_ms is not None:
            return  # a JobTracker that was started again repeats it
        attempt.start_ms = _time(values, "START_TIME")
        tracker = TRACKER.match(values.get("TRACKER_NAME", ""))
        if tracker:
            attempt.host = clean_text(tracker[1])
        else:
            attempt.host, attempt.rack = place_of(values.get("HOSTNAME", ""))
        if attempt.start_ms is None:
            self._report("missing_time", f"{attempt.attempt_id} starts without a usable START_TIME")
            return
        clock_id, handed_out_ms = _host_clock(attempt), self._handed_out.get(task_of(attempt.attempt_id))
        if clock_id is not None and handed_out_ms is not None:
            self._clocks.not_before(clock_id, attempt.start_ms, handed_out_ms)
        self.events.attempt_start(attempt, clock_id, self._origin())

    def _attempt_ended(self, attempt: AttemptFacts, values: Mapping[str, str]) -> None:
        status, finish_ms = STATUS.get(values["TASK_STATUS"]), _time(values, "FINISH_TIME")
        if status is None:
            raise BadRecordError(f"{attempt.attempt_id}: TASK_STATUS {printable(values['TASK_STATUS'])!r}")
        if attempt.attempt_id in self._ended:
            if (status, finish_ms) != (attempt.status, attempt.finish_ms):
                self._report("second_finish", f"{attempt.attempt_id} ends again as {status}; the first counts")
            return
        self._ended.add(attempt.attempt_id)
        attempt.status, attempt.finish_ms = status, finish_ms
        host, rack = place_of(values.get("HOSTNAME", ""))
        attempt.host, attempt.rack = host or attempt.host, rack or attempt.rack
        if finish_ms is None:
            self._report("missing_time", f"{attempt.attempt_id} ends without a FINISH_TIME: no end is made up")
            return
        if attempt.start_ms is None:
            self._report("finish_without_start", f"{attempt.attempt_id} ends without a start; its period stays empty")
        elif period(attempt.start_ms, finish_ms) is None:
            self._report("negative_period", f"{attempt.attempt_id} ends before its start; its period stays empty")
        clock_id = _host_clock(attempt)
        self.events.attempt_end(attempt, clock_id, self._origin())
        task_id = task_of(attempt.attempt_id)
        if status == "SUCCEEDED":
            self._ended_of_task.setdefault(task_id, []).append(attempt)
            if "COUNTERS" not in values:
                if task_id in self._unsummarised:
                    self._summarise(task_id, "")
                self._unsummarised[task_id] = attempt, values, self._origin()
                return
        self.events.attempt_summary(attempt, self._figures(attempt, values), clock_id, self._origin())
        self._keep_counters(attempt, values, self._origin())

    def _summarise(self, task_id: str, counters: str) -> None:
        """The summary of a successful attempt whose own record had no counters; those of its task are its own."""
        attempt, values, origin = self._unsummarised.pop(task_id)
        told = {**values, "COUNTERS": counters}
        self.events.attempt_summary(attempt, self._figures(attempt, told), _host_clock(attempt), origin)
        self._keep_counters(attempt, told, origin)

    def _keep_counters(self, attempt: AttemptFacts, values: Mapping[str, str], origin: str) -> None:
        if not self._keeps_counters:
            return
        text, is_cut = whole_counters(counter_groups(values.get("COUNTERS", "")))
        if text is not None:
            self.events.attempt_counters(attempt, text, _host_clock(attempt), origin)
        if is_cut:
            message = f"{attempt.attempt_id}: some of its counters were left out: odd, or too many"
            self._problems.report(self.place, "odd_counters", message)

    def _figures(self, attempt: AttemptFacts, values: Mapping[str, str]) -> dict[str, int | None]:
        groups = list(counter_groups(values.get("COUNTERS", "")))
        found = read_counters(attempt.kind, groups)
        if attempt.kind == "MAP" and "input_bytes" not in found:
            found |= _map_input_bytes(groups)
        n_reduces = self.job.n_reduces if self.job else None
        if attempt.status == "SUCCEEDED":
            later = LATER_COUNTERS if attempt.kind == "MAP" else LATER_REDUCE_COUNTERS
            missing = missing_counters(attempt.kind, found, n_reduces)
            self._n_lacking.update(attribute for attribute in missing if attribute not in later)
        phase_ends = _time(values, "SHUFFLE_FINISHED"), _time(values, "SORT_FINISHED")
        return attempt_figures(attempt, found, n_reduces, *phase_ends)

    def _origin(self) -> str:
        return f"{self._shown_place}:{self._line}"

    def _report(self, kind: str, message: str) -> None:
        self._problems.report(f"{self.place}:{self._line}", kind, message)


class Hadoop1Parser:
    """The histories in one file. `feed` takes the bytes as they come, `close` says that no more will come."""

    def __init__(self, place: str, problems: ProblemLog, source_rank: int, *, keeps_counters: bool = False) -> None:
        """keeps_counters: AttemptCounters, too."""
        self.place = place
        self._keeps_counters = keeps_counters
        self.jobs: list[Hadoop1Job] = []
        """Closed ones, in the file's order; those without a single job record are left out."""
        self.n_bytes = 0
        self._problems = problems
        self._source_rank = source_rank
        self._reader = RecordReader()
        self._tail = b""
        self._part = ""
        self._current: Hadoop1Job | None = None

    def feed(self, data: bytes) -> None:
        """Consume the complete lines of `data`; the rest waits for more."""
        self.n_bytes += len(data)
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            for item in self._reader.take(line):
                self._take(item)

    def close(self) -> None:
        """Nothing more will come: report an incomplete end, and a file without a history."""
        for item in self._reader.take(self._tail) if self._tail else ():
            self._take(item)
        is_cut = self._reader.is_open
        for item in self._reader.close() if not is_cut else ():
            self._take(item)
        self._close_job(is_cut=is_cut)
        if not self.jobs:
            self._problems.report(self.place, "not_a_history", "no record of a job; expected a Hadoop 1 job history")

    def _take(self, item: Item) -> None:
        if isinstance(item, PartBegins):
            self._close_job()
            self._part = item.name
        elif isinstance(item, BadLines):
            self._job().bad(item.line, f"{item.message}: {printable(repr(item.text[:80]), 90)}")
        else:
            self._job().take(item)

    def _job(self) -> Hadoop1Job:
        if self._current is None:
            self._current = Hadoop1Job(
                self.place, self._part, self._problems, self._source_rank, keeps_counters=self._keeps_counters
            )
        return self._current

    def _close_job(self, *, is_cut: bool = False) -> None:
        job, self._current = self._current, None
        if job is None:
            return
        if job.job is not None:
            self.jobs.append(job)
            job.close(is_cut=is_cut)


def place_of(text: str) -> tuple[str | None, str | None]:
    """(host, rack) of "/rack/host", "/host" or "host"; in traces dots may still be escaped."""
    rack, _, host = clean_text(text.replace("\\.", ".")).rpartition("/")
    return host or None, rack or None


def _tracker_clock(job_id: str) -> str:
    return f"jobtracker:{job_id.split('_')[1]}"


def _host_clock(attempt: AttemptFacts) -> str | None:
    return f"host:{attempt.host}" if attempt.host else None


def _map_input_bytes(groups: list[tuple[str, list[dict[str, object]]]]) -> dict[str, int]:
    """What the record reader of the older API counted, where the input format has no counter of its own."""
    for _, counters in groups:
        for counter in counters:
            if counter["name"] == "MAP_INPUT_BYTES" and is_count(value := counter["value"]):
                return {"input_bytes": value}
    return {}


def _text(values: Mapping[str, str], key: str) -> str | None:
    return clean_text(values[key]) if key in values else None


def _number(values: Mapping[str, str], key: str) -> int | None:
    text = values.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _time(values: Mapping[str, str], key: str) -> int | None:
    value = _number(values, key)
    return value if is_time_ms(value) else None


def _count(values: Mapping[str, str], key: str) -> int | None:
    value = _number(values, key)
    return value if is_count(value) else None


__all__ = ["Hadoop1Job", "Hadoop1Parser", "place_of"]
