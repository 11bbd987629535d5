"""What the pages of jobs read of the event log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from app.heuristics.corrected import AT_END
from collectors.history.whole_counters import task_counters
from collectors.time_units import DAY_MS, HOUR_MS
from dashboard.events.source import EventSource
from dashboard.jobs.data import ATTEMPT_COLUMNS, ATTEMPT_TYPES, FETCH_COLUMNS, attempts, fetches
from dashboard.jobs.list import (
    ACTIVITY_TYPES,
    JOB_COLUMNS,
    JOB_TYPES,
    QUIET,
    QUIET_MS,
    RUNNING,
    job_list,
    n_by_job,
    open_jobs,
)

START_TYPES = ("MapStart", "ReducerStart")
END_TYPES = ("MapEnd", "ReducerEnd")
SLACK_MS = 10 * 60_000
"""How far outside of a job's span its events are looked for: clocks differ, and attempts may end after their job."""

MAX_JOB_EVENTS = 200_000
"""Starts and ends of jobs of which a list is made."""
MAX_COUNTERS = 5_000
"""Attempts whose counters are read: some kilobytes each."""
MAX_ENDS = 5_000_000
"""Ends of attempts that are looked through for those that failed."""

OPEN = (RUNNING, QUIET)

_CHANGE_COLUMNS = ("t_lo_ms", "t_hi_ms", "size_bytes")


@dataclass(frozen=True)
class Jobs:
    """The jobs that are known."""

    table: pd.DataFrame
    """See job_list.job_list."""
    known_until_ms: int
    """Up to when anything is known; 0 where nothing is."""
    from_ms: int | None
    """From when on; None for all that there are."""


def read_jobs(log: EventSource) -> Jobs:
    """All jobs, the latest where they are very many."""
    log = log.snapshot()
    span = log.span()
    if span is None:
        return Jobs(job_list(_of(pa.table({}), JOB_COLUMNS), {}, 0), 0, None)
    from_ms = _first_listed_ms(log, span)
    events = log.read(types=JOB_TYPES, from_ms=from_ms, columns=JOB_COLUMNS)
    return Jobs(job_list(events, _signs(log, open_jobs(events), span[1]), _judged_ms(log, span)), span[1], from_ms)


def _first_listed_ms(log: EventSource, span: tuple[int, int]) -> int | None:
    """From when on jobs are listed, so that they are not too many; None: all are."""
    from_ms: int | None = None
    while log.count(types=JOB_TYPES, from_ms=from_ms) > MAX_JOB_EVENTS:
        begin_ms = span[0] if from_ms is None else from_ms
        if span[1] - begin_ms <= DAY_MS:
            break  # files count whole, so that a shorter span would not have fewer for certain
        from_ms = (begin_ms + span[1]) // 2
    return from_ms


def _judged_ms(log: EventSource, span: tuple[int, int]) -> int:
    """Until when jobs would have given a sign: of a history none is to be expected any more."""
    return span[1] if log.is_live else span[1] + QUIET_MS + 1


def n_failed_attempts(log: EventSource, jobs: pd.DataFrame) -> list[int] | None:
    """How many attempts of each of these jobs (rows of `read_jobs`) failed; None where too many would be looked at."""
    if not len(jobs):
        return []
    from_ms = int(jobs["start_lo_ms"].fillna(jobs["seen_ms"]).min()) - SLACK_MS
    to_ms = int(jobs["seen_ms"].max()) + SLACK_MS
    if log.count(types=END_TYPES, from_ms=from_ms, to_ms=to_ms) > MAX_ENDS:
        return None
    failed = log.read(types=END_TYPES, from_ms=from_ms, to_ms=to_ms, equal={"status": "FAILED"}, columns=("job_id",))
    return n_by_job(failed, jobs["job_id"].tolist())


@dataclass(frozen=True)
class JobEvents:
    """All that the event log tells of one job."""

    job: pd.Series
    """A row of `read_jobs`."""
    known_until_ms: int
    """The job's end; of an open one, up to when anything is known."""
    attempts: pd.DataFrame
    """See job_data.attempts."""
    pulls: pd.DataFrame
    """See job_data.fetches."""
    changes: pa.Table
    """DataIO events: t_lo_ms, t_hi_ms, size_bytes."""

    @property
    def is_running(self) -> bool:
        """Whether more is to be expected."""
        return bool(self.job["state"] == RUNNING)

    @property
    def span_ms(self) -> tuple[float, float]:
        """From the earliest event to the latest one, for charts."""
        times = [self.job["start_lo_ms"], self.attempts["start_lo_ms"].min(), self.pulls["t_from_ms"].min()]
        ends = [float(self.known_until_ms), self.attempts["end_hi_ms"].max(), self.pulls["t_to_ms"].max()]
        begin = min(time for time in times if pd.notna(time)) if any(pd.notna(times)) else float(self.known_until_ms)
        end = max(time for time in ends if pd.notna(time))
        return float(begin), max(float(end), float(begin) + 1.0)

    @property
    def drawn_ms(self) -> tuple[float, float]:
        """`span_ms` with a margin, for the axis of time of its charts."""
        begin, end = self.span_ms
        margin = max(500.0, (end - begin) * 0.01)
        return begin - margin, end + margin


def read_job(log: EventSource, job_id: str) -> JobEvents | None:
    """One job; None when the log has neither its start nor its end."""
    log = log.snapshot()
    span = log.span()
    if span is None:
        return None
    events = log.read(types=JOB_TYPES, equal={"job_id": job_id}, columns=JOB_COLUMNS)
    if not events.num_rows:
        return None
    [job] = (
        row for _, row in job_list(events, _signs(log, open_jobs(events), span[1]), _judged_ms(log, span)).iterrows()
    )
    is_open = job["state"] in OPEN
    start_ms = job["start_lo_ms"]
    from_ms = None if pd.isna(start_ms) else int(start_ms) - SLACK_MS
    to_ms = None if is_open else int(job["seen_ms"]) + SLACK_MS
    of_attempts, pulls, changes = (
        log.read(types=types, from_ms=from_ms, to_ms=to_ms, equal={"job_id": job_id}, columns=columns)
        for types, columns in (
            (ATTEMPT_TYPES, ATTEMPT_COLUMNS), (("DataPull",), FETCH_COLUMNS), (("DataIO",), _CHANGE_COLUMNS)
        )
    )  # fmt: skip
    last_ms = [float(pc.max(of.column("t_hi_ms")).as_py()) for of in (of_attempts, pulls, changes) if of.num_rows]
    if job["state"] == QUIET and last_ms:
        job["seen_ms"] = max(job["seen_ms"], *last_ms)
        job["duration_ms"] = max(0.0, job["seen_ms"] - job["start_lo_ms"])
    known_until_ms = int(span[1] if job["state"] == RUNNING else job["seen_ms"])
    table = attempts(of_attempts, known_until_ms, job_ended=job["state"] != RUNNING)
    memory = {} if is_open or len(table) > MAX_COUNTERS else _memory_bytes(log, job)
    return JobEvents(
        job=job,
        known_until_ms=known_until_ms,
        attempts=table.assign(memory_bytes=table["attempt_id"].map(memory).astype(float)),
        pulls=fetches(pulls),
        changes=changes,
    )


def name_of_job(log: EventSource, job_id: str) -> str | None:
    """Whether or not it has ended; None where the log does not know it."""
    found = log.read(types=["JobStart"], equal={"job_id": job_id}, columns=["job_name"])
    names = [name for name in found.column("job_name").to_pylist() if name] if found.num_rows else []
    return str(names[-1]) if names else None


def names_of_jobs(log: EventSource, job_ids: Collection[str], from_ms: int, to_ms: int) -> dict[str, str]:
    """Of jobs whether or not they have ended, by id, as far as the log knows of their start in this time."""
    found = log.read(types=["JobStart"], from_ms=from_ms, to_ms=to_ms, columns=["job_id", "job_name"])
    chosen = found.filter(pc.is_in(found.column("job_id").cast(pa.string()), pa.array(sorted(job_ids), pa.string())))
    names = zip(chosen.column("job_id").to_pylist(), chosen.column("job_name").to_pylist(), strict=True)
    return {job_id: name for job_id, name in names if name}


def _memory_bytes(log: EventSource, job: pd.Series) -> dict[str, float]:
    """Physical memory at the end of each attempt of a job that is over, where its counters are kept."""
    found = log.read(
        types=("AttemptCounters",),
        from_ms=None if pd.isna(job["start_lo_ms"]) else int(job["start_lo_ms"]) - SLACK_MS,
        to_ms=int(job["seen_ms"]) + SLACK_MS,
        equal={"job_id": str(job["job_id"])},
        columns=("attempt_id", "counters"),
    )
    pairs = zip(found.column("attempt_id").to_pylist(), found.column("counters").to_pylist(), strict=True)
    counters = {attempt_id: task_counters(text) for attempt_id, text in pairs}
    return {name: float(known[AT_END]) for name, known in counters.items() if known is not None and AT_END in known}


def read_attempts_on(log: EventSource, host: str, from_ms: int, to_ms: int) -> pd.DataFrame:
    """Attempts (see job_data.attempts) that ran on a host at some time of the closed span.

    Those that began more than LOOK_BACK_MS before it, and have not ended in it, are not found; those that ended more
    than LOOK_BACK_MS after it count as running.
    """
    span = log.span()
    if span is None:
        return attempts(_of(pa.table({}), ATTEMPT_COLUMNS), to_ms, job_ended=False)
    found: list[pa.Table] = []
    first_ms, last_ms = max(span[0], from_ms - LOOK_BACK_MS), min(span[1], to_ms + LOOK_BACK_MS)
    for begin_ms, until_ms in _slices(first_ms, min(to_ms, last_ms)):
        found.append(_on_host(log, (*START_TYPES, *END_TYPES), host, begin_ms, until_ms))
    for begin_ms, until_ms in _slices(max(to_ms + 1, first_ms), last_ms):
        if not _have_not_ended(found):
            break  # no end is left to be looked for
        found.append(_on_host(log, END_TYPES, host, begin_ms, until_ms))
    mine = pa.concat_tables(found, promote_options="permissive") if found else _of(pa.table({}), ATTEMPT_COLUMNS)
    table = attempts(mine, max(to_ms, span[1]), job_ended=False)
    return table[(table["start_lo_ms"] <= to_ms) & (table["end_hi_ms"] >= from_ms)].reset_index(drop=True)


LOOK_BACK_MS = DAY_MS
SLICE_MS = 6 * HOUR_MS
"""How much of the cluster's time is in memory at once while one host is looked for."""

MAX_SLICES = 64
"""Longer spans are read in longer slices."""


def _slices(from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    """Closed spans that follow each other and cover a closed span; none when it is empty."""
    length_ms = max(SLICE_MS, -((from_ms - to_ms) // MAX_SLICES))
    for begin_ms in range(from_ms, to_ms + 1, length_ms):
        yield begin_ms, min(begin_ms + length_ms - 1, to_ms)


def _on_host(log: EventSource, types: Sequence[str], host: str, from_ms: int, to_ms: int) -> pa.Table:
    """An event whose interval touches two slices comes with both: attempts have one start and one end all the same."""
    return log.read(types=types, from_ms=from_ms, to_ms=to_ms, equal={"host": host}, columns=ATTEMPT_COLUMNS)


def _have_not_ended(found: Sequence[pa.Table]) -> bool:
    names = {
        types: {name for table in found for name in _of_types(table, types).column("attempt_id").to_pylist()}
        for types in (START_TYPES, END_TYPES)
    }
    return not names[START_TYPES] <= names[END_TYPES]


def _signs(log: EventSource, job_ids: Collection[str], known_until_ms: int) -> dict[str, int]:
    """The last sign of life of jobs without an end: it matters whether there was one within QUIET_MS."""
    if not job_ids:
        return {}
    last_ms = log.last_seen("job_id", types=ACTIVITY_TYPES, from_ms=known_until_ms - QUIET_MS)
    return {job_id: last_ms[job_id] for job_id in job_ids if job_id in last_ms}


def _of_types(events: pa.Table, types: Sequence[str]) -> pa.Table:
    return events.filter(pc.is_in(events.column("type"), value_set=pa.array(types, pa.string())))


def _of(table: pa.Table, names: Sequence[str]) -> pa.Table:
    for name in names:
        table = table.append_column(name, pa.array([], pa.null()))
    return table


__all__ = ["JobEvents", "Jobs", "n_failed_attempts", "read_attempts_on", "read_job", "read_jobs"]
