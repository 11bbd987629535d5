"""Parser of Rumen job traces: JSON objects, one per job, one after another without an array around them.

A trace is another program's reading of job histories. It writes -1 for what it does not know, keeps escaped dots in
hosts, and may have an attempt without a host, or one that finishes before it starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from collectors.base import MAX_BAD_RECORDS_TOLD, ProblemLog
from collectors.counters import is_count
from collectors.hadoop_ids import TaskKind, is_attempt, is_job, job_of
from collectors.lifecycle import AttemptFacts, EventRows, JobFacts, attempt_figures, clean_text, is_time_ms
from collectors.network.bounded_json import extent, n_values
from collectors.printable import printable

MAX_JOB_VALUES = 4_000_000
"""Of a job with some 100,000 attempts."""
STATUS = {"SUCCESS": "SUCCEEDED", "SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED", "KILLED": "KILLED"}

COUNTERS: Mapping[TaskKind, Mapping[str, str]] = {
    "MAP": {
        "mapInputRecords": "n_input_records",
        "mapOutputRecords": "n_output_records",
        "mapInputBytes": "input_bytes",
        "mapOutputBytes": "output_bytes",
        "spilledRecords": "n_spilled_records",
    },
    "REDUCE": {
        "reduceInputRecords": "n_input_records",
        "reduceOutputRecords": "n_output_records",
        "reduceShuffleBytes": "input_bytes",
        "spilledRecords": "n_spilled_records",
    },
}
"""Field of an attempt -> attribute. Rumen has no counters of garbage collection and of materialised map output."""

MIN_PIECE_CHARS, GROWTH = 4_096, 8
MOST_LOOKS, MIN_LOOKED_AT = 4, 1 << 20
"""So often a trace is looked at as a whole: what is no JSON is looked at again from where a job might begin in it."""

_WHITE = " \t\r\n"
_START = re.compile(r"\n ?\{")
_CUT_CHARS = 64
"""A word, a number or an escape that the end of a piece cuts is told as a mistake so close before it, at most."""


class _NoJsonError(ValueError):
    """What is found there is no JSON value; the message says why."""

    def __init__(self, error: ValueError, n_looked_at: int) -> None:
        super().__init__(error.msg if isinstance(error, json.JSONDecodeError) else str(error))
        self.n_looked_at = n_looked_at


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """(the JSON value that begins there, where it ends); raises _NoJsonError and RecursionError.

    In pieces that grow: a mistake costs as much as all text before it, which is counted for its line.
    """
    size, n_looked_at = MIN_PIECE_CHARS, 0
    while True:
        piece = text[at : at + size]
        is_cut = at + size < len(text)
        try:
            value, end = _DECODER.raw_decode(piece)
        except json.JSONDecodeError as error:
            n_looked_at += error.pos
            is_of_the_cut = error.pos >= size - _CUT_CHARS or error.msg.startswith("Unterminated string")
            if not (is_cut and is_of_the_cut):
                raise _NoJsonError(error, n_looked_at) from None
        except ValueError as error:  # a number of very many digits
            raise _NoJsonError(error, n_looked_at) from None
        else:
            if end < size or not is_cut:
                return value, at + end
        size *= GROWTH


_DECODER = json.JSONDecoder()


class RumenJob:
    """What a trace tells of one job."""

    def __init__(self, place: str, job_id: str, digest: str, source_rank: int) -> None:
        self.place = place
        self.job = JobFacts(job_id)
        self.digest = digest
        self.events = EventRows(source_rank)
        self.finished = False


class RumenParser:
    """The jobs of one trace. Small beside the histories it was made from, so a trace is read as a whole."""

    def __init__(self, place: str, problems: ProblemLog, source_rank: int) -> None:
        self.place = place
        self.jobs: list[RumenJob] = []
        self._shown_place = printable(place)
        self._problems = problems
        self._source_rank = source_rank
        self._n_bad = 0

    def parse(self, data: bytes) -> None:
        """All jobs of the trace; what cannot be read is a problem and ends nothing but itself."""
        text = data.decode("utf-8", "replace")
        for line, source, value in self._objects(text):
            job_id = value.get("jobID") if isinstance(value, dict) else None
            if not isinstance(value, dict) or not is_job(job_id):
                self._bad(line, f"expected a job with a jobID of the form job_<n>_<n>, found {job_id!r}")
                continue
            digest = blake2b(source.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            job = RumenJob(self.place, job_id, digest, self._source_rank)
            self._job(job, value, line)
            self.jobs.append(job)
        if self._n_bad > MAX_BAD_RECORDS_TOLD:
            more = f"{self._n_bad - MAX_BAD_RECORDS_TOLD} more bad record(s) behind those told; they are skipped"
            self._problems.report(self.place, "more_bad_records", more)
        if not self.jobs:
            self._problems.report(self.place, "not_a_trace", "no job in it; expected a Rumen trace")

    def _objects(self, text: str) -> Iterator[tuple[int, str, Any]]:
        """(line, text, value) of each JSON value."""
        at, line, counted_to, n_looked_at = 0, 1, 0, 0
        most_looked_at = MOST_LOOKS * len(text) + MIN_LOOKED_AT
        is_large = n_values(text) > MAX_JOB_VALUES
        while True:
            while at < len(text) and text[at] in _WHITE:
                at += 1
            if at >= len(text):
                return
            line += text.count("\n", counted_to, at)
            counted_to = at
            found = extent(text, at) if is_large and text[at] in "{[" else None
            if found is not None and found[1] > MAX_JOB_VALUES:
                self._bad(line, f"a job of more than {MAX_JOB_VALUES:,} values")
                at = found[0]
                continue
            if n_looked_at > most_looked_at:
                message = "so much of what stands before is damaged that the rest is not read"
                self._problems.report(f"{self.place}:{line}", "damaged", message)
                return
            try:
                value, end = _decoded(text, at)
                n_looked_at += end - at
            except RecursionError:
                self._bad(line, "a job nested too deeply")
                n_looked_at += MIN_PIECE_CHARS
                end = self._next_start(text, at)
            except _NoJsonError as error:
                n_looked_at += error.n_looked_at
                end = self._next_start(text, at)
                if end >= len(text):
                    message = f"it ends in the middle of a job that begins in line {line}; what stands before is used"
                    self._problems.report(f"{self.place}:{line}", "truncated", message)
                    return
                self._bad(line, f"no JSON ({error})")
            else:
                yield line, text[at:end], value
            at = end

    @staticmethod
    def _next_start(text: str, at: int) -> int:
        """Where the next job can begin: at a brace that opens a line without or with a single blank before it."""
        found = _START.search(text, at + 1)
        return len(text) if found is None else found.start()

    # ---- one job -----------------------------------------------------------------------------------------------

    def _job(self, told: RumenJob, record: Mapping[str, Any], line: int) -> None:
        job, origin = told.job, f"{self._shown_place}:{line}"
        clock_id = f"jobtracker:{job.job_id.split('_')[1]}"
        job.job_name, job.user, job.queue = (_text(record, key) for key in ("jobName", "user", "queue"))
        job.n_maps, job.n_reduces = _count(record, "totalMaps"), _count(record, "totalReduces")
        launch_ms, end_ms = _time(record, "launchTime"), _time(record, "finishTime")
        if launch_ms is None:
            self._report(job.job_id, line, "missing_time", "no launchTime; no JobStart")
        else:
            told.events.job_start(job, launch_ms, clock_id, origin)
        for tasks in ("mapTasks", "reduceTasks"):
            for task in _list(record, tasks):
                for attempt in _list(task, "attempts") if isinstance(task, dict) else ():
                    self._attempt(told, attempt, line, origin)
        status = _status(record, "outcome")
        told.finished = status is not None and end_ms is not None
        if status is None or end_ms is None:
            self._report(job.job_id, line, "unfinished", "no outcome or no finishTime; no end is invented")
            return
        if launch_ms is not None and end_ms < launch_ms:
            self._report(job.job_id, line, "negative_period", "it ends before its launch; its period stays empty")
        told.events.job_end(job, launch_ms, end_ms, status, clock_id, origin)

    def _attempt(self, told: RumenJob, record: Any, line: int, origin: str) -> None:
        attempt_id = record.get("attemptID") if isinstance(record, dict) else None
        if not is_attempt(attempt_id) or job_of(attempt_id) != told.job.job_id:
            self._bad(line, f"{told.job.job_id}: attemptID {attempt_id!r} is none of this job's attempts")
            return
        attempt = AttemptFacts(attempt_id, start_ms=_time(record, "startTime"), finish_ms=_time(record, "finishTime"))
        attempt.host, attempt.rack = _place(record)
        attempt.status = _status(record, "result")
        clock_id = f"host:{attempt.host}" if attempt.host else None
        if attempt.start_ms is None:
            self._report(attempt_id, line, "missing_time", "no startTime: no start is made up")
        else:
            told.events.attempt_start(attempt, clock_id, origin)
        if attempt.finish_ms is None or attempt.status is None:
            self._report(attempt_id, line, "missing_time", "no finishTime or result: no end is made up")
            return
        if attempt.start_ms is not None and attempt.finish_ms < attempt.start_ms:
            self._report(attempt_id, line, "negative_period", "it ends before its start; its period stays empty")
        told.events.attempt_end(attempt, clock_id, origin)
        told.events.attempt_summary(attempt, _figures(told.job, attempt, record), clock_id, origin)

    def _report(self, subject: str, line: int, kind: str, message: str) -> None:
        place = f"{self.place}:{line}"
        self._problems.report(place, kind, f"{subject}: {message}", key=(self.place, kind, subject))

    def _bad(self, line: int, message: str) -> None:
        self._n_bad += 1
        if self._n_bad <= MAX_BAD_RECORDS_TOLD:
            place = f"{self.place}:{line}"
            self._problems.report(place, "bad_record", f"{message}; it is skipped", key=(place, message))


def _figures(job: JobFacts, attempt: AttemptFacts, record: Mapping[str, Any]) -> dict[str, int | None]:
    found = {attribute: _count(record, field) for field, attribute in COUNTERS[attempt.kind].items()}
    usage = record.get("resourceUsageMetrics")
    if isinstance(usage, dict) and _count(usage, "cumulativeCpuUsage"):
        found["cpu_ms"] = _count(usage, "cumulativeCpuUsage")
    phase_ends = _time(record, "shuffleFinished"), _time(record, "sortFinished")
    return attempt_figures(attempt, found, job.n_reduces, *phase_ends)


def _place(record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(host, rack) from "/rack/host", else from the layers of the topology; a dot may still be escaped."""
    name = record.get("hostName")
    if not isinstance(name, str) or not name:
        location = record.get("location")
        layers = location.get("layers") if isinstance(location, dict) else None
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            return None, None
        name = "/".join(("", *layers))
    rack, _, host = clean_text(name.replace("\\.", ".")).rpartition("/")
    return host or None, rack or None


def _text(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return clean_text(value) if isinstance(value, str) else None


def _status(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return STATUS.get(value) if isinstance(value, str) else None


def _list(record: Mapping[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []


def _time(record: Mapping[str, Any], key: str) -> int | None:
    value = record.get(key)
    return value if is_time_ms(value) else None


def _count(record: Mapping[str, Any], key: str) -> int | None:
    value = record.get(key)
    return value if is_count(value) else None


__all__ = ["RumenJob", "RumenParser"]
