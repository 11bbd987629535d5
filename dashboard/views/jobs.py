"""The jobs that run or ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import links
from dashboard.events.source import LIVE, Source, chosen_source, not_read
from dashboard.jobs.application import applications, applications_frame
from dashboard.jobs.list import QUIET, QUIET_MS, RUNNING, JobFilter, chosen
from dashboard.jobs.reading import n_failed_attempts, read_jobs
from dashboard.store import live_store
from dashboard.text import inert
from dashboard.times import duration, local, open_span_picker, shown

PAGE_ROWS = 100
COUNT_PX = 62
"""Of a column of small numbers: with it the columns up to the id fit a window of 1,440 pixels."""
MAX_COUNTED = 1_000
"""Alerts of one job beyond this are not counted one by one."""

SIGNS = {
    RUNNING: "▶ running",
    "SUCCEEDED": "✓ succeeded",
    "FAILED": "✕ failed",
    "KILLED": "■ killed",
    "ERROR": "✕ error",
    QUIET: "? no end seen",
    "UNKNOWN": "? unknown",
}
"""A sign and a word for each state: colour is never needed to tell them."""


def page() -> None:
    """The list."""
    st.title("Jobs")
    source = chosen_source()
    found = None if source is None else read_jobs(source.events)
    if source is not None and found is not None and not len(found.table) and _applications(source):
        return
    if source is None or found is None or not len(found.table):
        st.info(
            "No job has been seen yet. Jobs come from the ResourceManager (sources.yarn_rest) and from the job history "
            "(sources.job_history): the page Health shows whether they are enabled and what they report. "
            f"`clustercep demo` shows this page with recorded jobs.{not_read()}",
            icon=":material/work_history:",
        )
        return
    jobs = chosen(found.table, _filter())
    n_running = int((found.table["state"] == RUNNING).sum())
    what = f"in the event log, {n_running:,} running" if source.name == LIVE else "in the history"
    since = "" if found.from_ms is None else f" Those before {shown(found.from_ms)} are too many to be listed."
    st.caption(
        f"{len(jobs):,} of {len(found.table):,} jobs {what}; known up to {shown(found.known_until_ms)}. Select a row "
        f"to open the job.{since}"
    )
    if not len(jobs):
        st.info("No job fits. Take a filter away to see more.", icon=":material/filter_alt_off:")
    else:
        _table(jobs, source)
    _applications(source)


def _applications(source: Source) -> bool:
    """The latest Spark applications; False where there are none."""
    found = applications(source.events)
    if not len(found):
        return False
    st.subheader("Spark applications", anchor=False)
    latest = found.head(PAGE_ROWS)
    st.caption(f"The latest {len(latest):,} of {len(found):,}. Select a row to open the application.")
    state = st.dataframe(
        applications_frame(latest),
        hide_index=True,
        height="content",
        on_select="rerun",
        selection_mode="single-row",
        column_config={"Start": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss")},
        key=f"applications-{len(found)}",
    )
    rows = state.selection.rows
    if rows and rows[0] < len(latest):
        name = str(latest["application_id"].iloc[rows[0]])
        links.go("job", id=name, events=None if source.name == LIVE else source.name)
    return True


def _filter() -> JobFilter:
    by_name, by_user, by_state = st.columns([2, 1, 2])
    name = by_name.text_input("Name contains", key="name", bind="query-params", max_chars=200)
    user = by_user.text_input("User contains", key="user", bind="query-params", max_chars=200)
    states = by_state.multiselect(
        "Status",
        list(SIGNS),
        key="status",
        bind="query-params",
        placeholder="Any",
    )
    from_ms, to_ms = open_span_picker("jobs")
    return JobFilter(name=name or "", user=user or "", states=tuple(states), from_ms=from_ms, to_ms=to_ms)


def _table(found: pd.DataFrame, source: Source) -> None:
    n_pages = -(-len(found) // PAGE_ROWS)
    above = st.container()
    number = st.pagination(n_pages, key="page", bind="query-params") if n_pages > 1 else 1
    page_of = found.iloc[(number - 1) * PAGE_ROWS : number * PAGE_ROWS].reset_index(drop=True)
    state = above.dataframe(
        jobs_frame(page_of, n_failed_attempts(source.events, page_of), _n_alerts(page_of["job_id"])),
        hide_index=True,
        height="content",
        on_select="rerun",
        selection_mode="single-row",
        column_config=_columns(),
        # Rows mean other jobs on another page or after filtering: a selection must not outlive them.
        key=f"jobs-{number}-{len(found)}",
    )
    rows = state.selection.rows
    if rows and rows[0] < len(page_of):
        links.go("job", id=str(page_of.at[rows[0], "job_id"]), events=None if source.name == LIVE else source.name)


def _n_alerts(job_ids: Iterable[str]) -> list[int] | None:
    alerts = live_store()
    if alerts is None:
        return None
    counted = alerts.counts_of_jobs(list(job_ids), MAX_COUNTED)
    return [counted[job_id] for job_id in job_ids]


def jobs_frame(jobs: pd.DataFrame, n_failed: list[int] | None, n_alerts: list[int] | None) -> pd.DataFrame:
    """One line per job as it is shown; `jobs` as of job_list.job_list. Without the columns that are not known. A narrow
    window shows the first ones: which job, what is wrong with it, how long it takes.
    """
    starts = [None if pd.isna(time) else local(int(time)) for time in jobs["start_lo_ms"]]
    return pd.DataFrame(
        {
            "Status": [SIGNS.get(state, f"? {inert(state, 30)}") for state in jobs["state"]],
            "Name": [_text(name) for name in jobs["job_name"]],
            **({} if n_alerts is None else {"Alerts": n_alerts}),
            "Duration": [duration(None if pd.isna(ms) else int(ms)) for ms in jobs["duration_ms"]],
            "Start": pd.Series(starts, dtype=object if not any(starts) else None),
            "User": [_text(name) for name in jobs["user"]],
            "Queue": [_text(name) for name in jobs["queue"]],
            **({} if n_failed is None else {"Failed": n_failed}),
            "Job": [inert(job_id, 80) for job_id in jobs["job_id"]],
            "Maps": jobs["n_maps"].astype("Float64").astype("Int64").to_numpy(),
            "Reduces": jobs["n_reduces"].astype("Float64").astype("Int64").to_numpy(),
        }
    )


def _text(value: object) -> str:
    return "—" if pd.isna(value) else inert(value)  # type: ignore[call-overload]


def _columns() -> dict[str, Any]:
    column = st.column_config
    quiet = duration(QUIET_MS)
    return {
        "Status": column.TextColumn(
            help=f"No end seen: neither an end nor any other sign of life in the last {quiet} of the event log.",
        ),
        "Name": column.TextColumn(width="medium"),
        "Alerts": column.NumberColumn(
            help=f"All kept alerts of the job (counted up to {MAX_COUNTED:,}).", width=COUNT_PX
        ),
        "Failed": column.NumberColumn(help="Attempts of mappers and reducers that failed.", width=COUNT_PX),
        "Start": column.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss"),
        "Duration": column.TextColumn(help="From launch to finish; of a running job so far."),
        "Maps": column.NumberColumn(help="Map tasks planned.", format="localized", width="small"),
        "Reduces": column.NumberColumn(help="Reduce tasks planned.", format="localized", width="small"),
    }


__all__ = ["jobs_frame", "page"]
