"""Life-cycle events of jobs and attempts, built alike from job history, REST and logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from collectors.counters import ATTRIBUTES
from collectors.hadoop_ids import TaskKind, job_of, kind_of, task_of
from collectors.identity import lifecycle_id
from collectors.schema import load_event_types
from collectors.time_units import MAX_TIME_MS
from engine.events import HEADER, EventBatch

PREFIX: Mapping[TaskKind, str] = {"MAP": "Map", "REDUCE": "Reducer"}
SUMMARY: Mapping[TaskKind, str] = {"MAP": "Mapper", "REDUCE": "Reducer"}


_SURROGATES = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """`text` as valid Unicode: undecodable bytes of file names and lone surrogates of JSON become U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def is_time_ms(value: object) -> TypeGuard[int]:
    """True for milliseconds after the epoch; Hadoop writes 0 or -1 for "not known"."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TIME_MS


def period(start_ms: int | None, finish_ms: int | None) -> int | None:
    """finish - start; None when either is unknown or the clock went backwards in between."""
    if start_ms is None or finish_ms is None or finish_ms < start_ms:
        return None
    return finish_ms - start_ms


def reducer_phases(
    start_ms: int | None, shuffled_ms: int | None, sorted_ms: int | None, finish_ms: int | None
) -> dict[str, int | None]:
    """How long each phase of a reducer took, as event attributes."""
    return {
        "shuffle_ms": period(start_ms, shuffled_ms),
        "sort_ms": period(shuffled_ms, sorted_ms),
        "reduce_ms": period(sorted_ms, finish_ms),
    }


@dataclass
class JobFacts:
    """What is known of a job; None is not known (yet)."""

    job_id: str
    job_name: str | None = None
    user: str | None = None
    queue: str | None = None
    n_maps: int | None = None
    n_reduces: int | None = None

    def attributes(self) -> dict[str, Any]:
        """As event attributes."""
        return dict(vars(self))


@dataclass
class AttemptFacts:
    """What is known of a task attempt; None is not known (yet)."""

    attempt_id: str
    host: str | None = None
    rack: str | None = None
    start_ms: int | None = None
    finish_ms: int | None = None
    status: str | None = None

    kind: TaskKind = field(init=False)
    """MAP or REDUCE."""

    def __post_init__(self) -> None:
        self.kind = kind_of(self.attempt_id)
        self.ids: dict[str, str] = {
            "job_id": job_of(self.attempt_id),
            "task_id": task_of(self.attempt_id),
            "attempt_id": self.attempt_id,
        }

    def attributes(self) -> dict[str, Any]:
        """As event attributes of its start."""
        return {**self.ids, "host": self.host, "rack": self.rack}

    def end_attributes(self) -> dict[str, Any]:
        """As event attributes of its end."""
        return {
            **self.ids,
            "host": self.host,
            "rack": self.rack,
            "status": self.status,
            "period_ms": period(self.start_ms, self.finish_ms),
        }


def attempt_figures(
    attempt: AttemptFacts,
    found: Mapping[str, int | None],
    n_reduces: int | None,
    shuffled_ms: int | None = None,
    sorted_ms: int | None = None,
) -> dict[str, int | None]:
    """What Mapper or Reducer says of an attempt: counters as `found`, of a reducer its phases too; None is not known.

    `n_reduces` is of its job; `shuffled_ms` and `sorted_ms` say when these phases ended.
    """
    figures: dict[str, int | None] = {**dict.fromkeys(ATTRIBUTES[attempt.kind]), **found}
    if attempt.kind == "REDUCE":
        return figures | reducer_phases(attempt.start_ms, shuffled_ms, sorted_ms, attempt.finish_ms)
    if n_reduces == 0:
        figures["materialized_bytes"] = None  # nobody will fetch it
    return figures


@dataclass
class EventRows:
    """Rows of life-cycle events on their way into a batch; `next_seq` is the record's place in its logical source."""

    source_rank: int
    next_seq: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        event_type: str,
        event_id: str,
        t_ms: int,
        clock_id: str | None,
        origin: str,
        attributes: dict[str, Any],
        *,
        t_hi_ms: int | None = None,
        source_seq: int | None = None,
        raw: str | None = None,
    ) -> None:
        """Append one event, precise unless `t_hi_ms` says otherwise; its place is the next one unless given."""
        row = {
            "event_id": event_id,
            "type": event_type,
            "t_lo_ms": t_ms,
            "t_hi_ms": t_ms if t_hi_ms is None else t_hi_ms,
            "source_rank": self.source_rank,
            "source_seq": self.next_seq if source_seq is None else source_seq,
            "clock_id": clock_id,
            "origin": origin,
            "raw": raw,
        }
        self.next_seq += 1
        self.rows.append(row | attributes)

    def extend(self, others: EventRows) -> None:
        """Append rows that were collected apart, at the next places."""
        for row in others.rows:
            self.rows.append(row | {"source_seq": self.next_seq})
            self.next_seq += 1

    def job_start(self, job: JobFacts, t_ms: int, clock_id: str | None, origin: str) -> None:
        """JobStart at the launch."""
        self.add("JobStart", lifecycle_id("JobStart", job.job_id), t_ms, clock_id, origin, job.attributes())

    def job_end(
        self, job: JobFacts, start_ms: int | None, t_ms: int, status: str, clock_id: str | None, origin: str
    ) -> None:
        """JobEnd at the finish."""
        end = {"status": status, "period_ms": period(start_ms, t_ms)}
        self.add("JobEnd", lifecycle_id("JobEnd", job.job_id), t_ms, clock_id, origin, job.attributes() | end)

    def attempt_start(self, attempt: AttemptFacts, clock_id: str | None, origin: str) -> None:
        """MapStart or ReducerStart; the start must be known."""
        assert attempt.start_ms is not None
        name = PREFIX[attempt.kind] + "Start"
        event_id = lifecycle_id(name, attempt.attempt_id)
        self.add(name, event_id, attempt.start_ms, clock_id, origin, attempt.attributes())

    def attempt_end(self, attempt: AttemptFacts, clock_id: str | None, origin: str) -> None:
        """MapEnd or ReducerEnd; the finish must be known."""
        assert attempt.finish_ms is not None
        name = PREFIX[attempt.kind] + "End"
        event_id = lifecycle_id(name, attempt.attempt_id)
        self.add(name, event_id, attempt.finish_ms, clock_id, origin, attempt.end_attributes())

    def attempt_summary(
        self, attempt: AttemptFacts, measured: Mapping[str, int | None], clock_id: str | None, origin: str
    ) -> None:
        """Mapper or Reducer, with counters and phases; and the map output of a successful map as DataIO."""
        assert attempt.finish_ms is not None
        name = SUMMARY[attempt.kind]
        event_id = lifecycle_id(name, attempt.attempt_id)
        self.add(name, event_id, attempt.finish_ms, clock_id, origin, attempt.end_attributes() | dict(measured))
        queued = measured.get("materialized_bytes")
        if attempt.kind == "MAP" and attempt.status == "SUCCEEDED" and queued is not None:
            event_id = lifecycle_id("DataIO", attempt.attempt_id)
            self.add(
                "DataIO", event_id, attempt.finish_ms, clock_id, origin, data_io_attributes(attempt.attempt_id, queued)
            )

    def _add_beside(
        self, event_type: str, event_id: str, t_ms: int, clock_id: str | None, origin: str, told: dict[str, Any]
    ) -> None:
        """An event that takes no place of its own: others have the same ones whether it is kept or not."""
        place = self.next_seq
        self.add(event_type, event_id, t_ms, clock_id, origin, told, source_seq=max(0, place - 1))
        self.next_seq = place

    def attempt_counters(self, attempt: AttemptFacts, counters: str, clock_id: str | None, origin: str) -> None:
        """AttemptCounters at the finish, which must be known."""
        assert attempt.finish_ms is not None
        event_id = lifecycle_id("AttemptCounters", attempt.attempt_id)
        told = {**attempt.ids, "counters": counters}
        self._add_beside("AttemptCounters", event_id, attempt.finish_ms, clock_id, origin, told)

    def job_counters(
        self, job_id: str, counters: str | None, diagnostics: str | None, t_ms: int, clock_id: str | None, origin: str
    ) -> None:
        """JobCounters at the job's finish."""
        told = {"job_id": job_id, "counters": counters, "diagnostics": diagnostics}
        self._add_beside("JobCounters", lifecycle_id("JobCounters", job_id), t_ms, clock_id, origin, told)

    def job_settings(self, job_id: str, settings: str, t_ms: int, clock_id: str | None, origin: str) -> None:
        """JobSettings: a configuration has no time of its own."""
        told = {"job_id": job_id, "settings": settings}
        self._add_beside("JobSettings", lifecycle_id("JobSettings", job_id), t_ms, clock_id, origin, told)

    def take_batch(self) -> EventBatch:
        """The rows as a batch; none are left."""
        rows, self.rows = self.rows, []
        schema = load_event_types()
        present: set[str] = set().union(*rows)
        if not rows:
            return EventBatch.empty()
        names = [name for name in (*HEADER.names, *schema.attributes) if name in present]
        return EventBatch.from_columns({name: [row.get(name) for row in rows] for name in names}, schema)


def data_io_attributes(attempt_id: str, size_bytes: int) -> dict[str, Any]:
    """Of map output that came to wait (plus, the map's attempt) or was fetched (minus, the reducer's attempt)."""
    return {
        "job_id": job_of(attempt_id),
        "task_id": task_of(attempt_id),
        "attempt_id": attempt_id,
        "size_bytes": size_bytes,
    }
