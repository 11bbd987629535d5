"""The jobs of the event log: JobStart and JobEnd put together, filtered, ordered and cut into pages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from dashboard.events.frame import event_frame

JOB_TYPES = ("JobStart", "JobEnd")
FACTS = ("job_name", "user", "queue", "n_maps", "n_reduces")
JOB_COLUMNS = ("type", "t_lo_ms", "t_hi_ms", "job_id", *FACTS, "status", "period_ms")
"""What `job_list` reads of the event log."""

ACTIVITY_TYPES = ("MapStart", "MapEnd", "ReducerStart", "ReducerEnd", "TaskSample", "DataPull", "DataIO")
"""Events that show that a job is alive."""

QUIET_MS = 15 * 60_000
"""A job without an end of which nothing has been heard for so long is no longer called running."""

RUNNING, QUIET = "RUNNING", "NO END SEEN"
"""States of jobs without a JobEnd; the others are Hadoop's: SUCCEEDED, FAILED, KILLED, ERROR."""

UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; empty leaves a criterion out. Texts are looked for anywhere, in any case."""

    name: str = ""
    user: str = ""
    states: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    """Closed span that the job must touch."""


def job_list(events: pa.Table, last_seen_ms: dict[str, int], known_until_ms: int) -> pd.DataFrame:
    """One row per job, running ones first, then the latest start, then the id.

    `events`: JobStart and JobEnd with JOB_COLUMNS. `last_seen_ms`: the last sign of life of jobs without an end.
    `known_until_ms`: up to where the event log tells anything; a job without an end that nothing was heard of for
    QUIET_MS before that is QUIET.

    Columns: job_id, the FACTS (None or NaN where unknown), state, start_lo_ms, start_hi_ms, end_lo_ms, end_hi_ms (NaN
    without), seen_ms (the end, or the last sign of life), duration_ms (from launch to finish, or to the last sign of
    life), start_seen (False when the launch was computed from the end).
    """
    frame = event_frame(events, JOB_COLUMNS)
    frame = frame[frame["job_id"].notna()].sort_values(["t_lo_ms", "t_hi_ms"], kind="stable")
    starts = frame[frame["type"] == "JobStart"].drop_duplicates("job_id", keep="first").set_index("job_id")
    ends = frame[frame["type"] == "JobEnd"].drop_duplicates("job_id", keep="last").set_index("job_id")
    jobs = pd.DataFrame(index=starts.index.union(ends.index))
    for name in FACTS:
        jobs[name] = _first_known(ends[name].reindex(jobs.index), starts[name].reindex(jobs.index))
    period_ms = ends["period_ms"].reindex(jobs.index).astype(float)
    for side in ("lo", "hi"):
        jobs[f"end_{side}_ms"] = ends[f"t_{side}_ms"].reindex(jobs.index).astype(float)
        seen = starts[f"t_{side}_ms"].reindex(jobs.index).astype(float)
        jobs[f"start_{side}_ms"] = seen.fillna(jobs[f"end_{side}_ms"] - period_ms)
    jobs["start_seen"] = jobs.index.isin(starts.index)
    signs = pd.Series({job: float(time) for job, time in last_seen_ms.items()}, dtype=float).reindex(jobs.index)
    jobs["seen_ms"] = jobs["end_hi_ms"].fillna(pd.concat([signs, jobs["start_hi_ms"]], axis=1).max(axis=1))
    jobs["duration_ms"] = period_ms.fillna((jobs["seen_ms"] - jobs["start_lo_ms"]).clip(lower=0))
    has_end = jobs.index.isin(ends.index)
    quiet = known_until_ms - jobs["seen_ms"] > QUIET_MS
    status = ends["status"].reindex(jobs.index)
    jobs["state"] = np.where(has_end, status.where(status.notna(), UNKNOWN), np.where(quiet, QUIET, RUNNING))
    jobs = jobs.rename_axis("job_id").reset_index()
    rank = (jobs["state"] != RUNNING).astype(int)
    order = jobs.assign(rank=rank).sort_values(["rank", "start_lo_ms", "job_id"], ascending=[True, False, True]).index
    return jobs.loc[order].reset_index(drop=True)


def open_jobs(events: pa.Table) -> list[str]:
    """Ids of jobs with a JobStart and no JobEnd."""
    frame = event_frame(events, ("job_id", "type")).dropna()
    started, ended = (set(frame["job_id"][frame["type"] == event_type]) for event_type in JOB_TYPES)
    return sorted(started - ended)


def chosen(jobs: pd.DataFrame, wanted: JobFilter) -> pd.DataFrame:
    """The jobs that the filter lets through, in their order."""
    keep = pd.Series(True, index=jobs.index)
    for column, text in (("job_name", wanted.name), ("user", wanted.user)):
        if text:
            known = jobs[column].astype("string").fillna("").str.casefold()
            keep &= known.str.contains(text.casefold(), regex=False).astype(bool)
    if wanted.states:
        keep &= jobs["state"].isin(wanted.states)
    if wanted.from_ms is not None:
        still_on = jobs["state"] == RUNNING
        keep &= still_on | (jobs["seen_ms"] >= wanted.from_ms)
    if wanted.to_ms is not None:
        keep &= ~(jobs["start_lo_ms"] > wanted.to_ms)
    return jobs[keep].reset_index(drop=True)


def n_by_job(events: pa.Table, job_ids: Collection[str]) -> list[int]:
    """How many of the events (job_id) each of these jobs has."""
    counts = event_frame(events, ("job_id",))["job_id"].value_counts()
    return [int(counts.get(job_id, 0)) for job_id in job_ids]


def _first_known(preferred: pd.Series, other: pd.Series) -> pd.Series:
    return preferred.where(preferred.notna(), other)
