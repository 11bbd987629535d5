"""Jobs of the event log: put together, filtered and ordered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from collectors.schema import load_event_types
from dashboard.jobs.list import (
    JOB_COLUMNS,
    QUIET,
    QUIET_MS,
    RUNNING,
    JobFilter,
    chosen,
    job_list,
    n_by_job,
    open_jobs,
)
from engine.events import EventBatch

T0_MS = 1_700_000_000_000


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    numbered = [{"event_id": str(n), **row} for n, row in enumerate(rows)]
    return EventBatch.from_rows(numbered, load_event_types()).table


def start(job: str, t_ms: int, **facts: Any) -> dict[str, Any]:
    return {"type": "JobStart", "job_id": job, "t_lo_ms": T0_MS + t_ms, **facts}


def end(job: str, t_ms: int, period_ms: int | None, status: str | None = "SUCCEEDED", **facts: Any) -> dict[str, Any]:
    return {"type": "JobEnd", "job_id": job, "t_lo_ms": T0_MS + t_ms, "period_ms": period_ms, "status": status, **facts}


EVENTS = table_of(
    [
        end("job_1", 9_000, 8_000, job_name="count", user="Ada", n_maps=3, queue="moved"),
        start("job_1", 1_000, job_name="count", user="Ada", n_maps=3, n_reduces=1, queue="first"),
        start("job_2", 2_000, job_name="<script>alert(1)</script>", user="bob"),
        end("job_3", 5_000, 4_500, "FAILED", user="ada", job_name=None),
        end("job_4", 5_500, None, None),
        start("job_5", 100, job_name="lost"),
        start("job_6", 8_000, job_name="newest"),
    ]
)
SEEN = {"job_2": T0_MS + QUIET_MS, "job_6": T0_MS + 8_000 + QUIET_MS, "elsewhere": 5}
KNOWN_MS = T0_MS + 8_000 + QUIET_MS


def test_starts_and_ends_come_together() -> None:
    jobs = job_list(EVENTS, SEEN, KNOWN_MS).set_index("job_id")
    assert jobs.index.tolist() == ["job_6", "job_2", "job_1", "job_3", "job_5", "job_4"]
    assert jobs["state"].to_dict() == {
        "job_6": RUNNING,
        "job_2": RUNNING,
        "job_1": "SUCCEEDED",
        "job_5": QUIET,
        "job_3": "FAILED",
        "job_4": "UNKNOWN",
    }
    one = jobs.loc["job_1"]
    assert (one["job_name"], one["queue"], one["n_maps"], one["n_reduces"]) == ("count", "moved", 3, 1)
    assert (one["start_lo_ms"], one["end_hi_ms"], one["duration_ms"]) == (T0_MS + 1_000, T0_MS + 9_000, 8_000)
    assert jobs["start_seen"].to_dict()["job_3"] is False
    assert jobs.loc["job_3", "start_lo_ms"] == T0_MS + 500
    assert jobs.loc["job_2", "duration_ms"] == QUIET_MS - 2_000
    assert jobs.loc["job_4", ["start_lo_ms", "job_name"]].isna().all()


def test_a_job_is_quiet_only_after_a_while() -> None:
    """At exactly the limit it still runs; a sign of life a moment earlier and it does not."""
    events = table_of([start("job_1", 0)])
    for seen, state in ((T0_MS, RUNNING), (T0_MS - 1, RUNNING)):
        assert job_list(events, {"job_1": seen}, T0_MS + QUIET_MS)["state"].tolist() == [state]
    assert job_list(events, {}, T0_MS + QUIET_MS + 1)["state"].tolist() == [QUIET]


def test_filters() -> None:
    jobs = job_list(EVENTS, SEEN, KNOWN_MS)

    def ids(**criteria: Any) -> list[str]:
        return chosen(jobs, JobFilter(**criteria))["job_id"].tolist()

    assert ids() == jobs["job_id"].tolist()
    assert ids(user="ADA") == ["job_1", "job_3"]
    assert ids(name="<SCRIPT>") == ["job_2"]
    assert ids(name=".*") == []
    assert ids(states=("FAILED", "UNKNOWN")) == ["job_3", "job_4"]
    # A span that a job touches; what still runs touches everything after its start.
    assert ids(from_ms=T0_MS + 9_000, to_ms=T0_MS + 9_000) == ["job_6", "job_2", "job_1"]
    assert ids(from_ms=KNOWN_MS + 1) == ["job_6", "job_2"]
    assert ids(to_ms=T0_MS + 999) == ["job_3", "job_5", "job_4"]


def test_which_are_open_and_when_they_were_seen() -> None:
    assert open_jobs(EVENTS) == ["job_2", "job_5", "job_6"]
    assert n_by_job(EVENTS, ["job_1", "job_9", "job_2"]) == [2, 0, 1]


def test_no_jobs() -> None:
    nothing = EventBatch.empty().table
    jobs = job_list(nothing, {}, T0_MS)
    assert len(jobs) == 0
    assert "duration_ms" in jobs
    assert len(chosen(jobs, JobFilter(name="x", user="y", states=("FAILED",), from_ms=1, to_ms=2))) == 0
    assert (open_jobs(nothing), n_by_job(nothing, ["a"])) == ([], [0])


def test_columns_that_are_read_suffice() -> None:
    """The list of a projection is that of the whole."""
    names = [name for name in JOB_COLUMNS if name in EVENTS.column_names]
    assert job_list(EVENTS.select(names), SEEN, KNOWN_MS).equals(job_list(EVENTS, SEEN, KNOWN_MS))
