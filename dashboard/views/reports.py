"""The reports that `clustercep report` makes over the history: stragglers, life times, queued data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from app.reports.tables import LIFE_TIMES, QUEUING, STRAGGLERS
from dashboard import links
from dashboard.charts.axes import TimeAxis
from dashboard.charts.drawn import draw
from dashboard.charts.reports import MAX_HOSTS, cluster_queue_chart, host_chart
from dashboard.report_frames import host_frame, life_time_frame, queue_frame, straggler_frame
from dashboard.store import Report, report
from dashboard.text import md
from dashboard.times import duration, shown, span_picker, zone

MAX_ROWS = 500
"""Of a table on the page; all are in the report's Parquet files."""
MAX_POINTS = 2_000
WEEK_MS = 604_800_000
"""The end of the queued data that is shown unless somebody chooses: years of it tell nothing on one axis."""


def page() -> None:
    """One of the reports."""
    st.title("Reports")
    parts: dict[str, tuple[str, Callable[[Report], None]]] = {
        "Stragglers": (STRAGGLERS, _stragglers),
        "Life times": (LIFE_TIMES, _life_times),
        "Queued data": (QUEUING, _queuing),
    }
    part = st.segmented_control(
        "Report", list(parts), default="Stragglers", required=True, key="part", bind="query-params"
    )
    name, show = parts[part or "Stragglers"]
    found = report(name)
    if found is None:
        st.info(
            "This report has not been made yet. Read job histories into the event store, then make the reports: "
            "`clustercep ingest FOLDER`, `clustercep report`.",
            icon=":material/summarize:",
        )
        return
    _told(found)
    show(found)


def _told(found: Report) -> None:
    ends = (found.summary.get("from_ms"), found.summary.get("to_ms"))
    span = "all events" if ends == (None, None) else f"events from {shown(ends[0])} to {shown(ends[1])}"
    place = md(found.summary.get("store"), 120)
    st.caption(f"Made {shown(found.made_ms)} over {span} of {place}. Its tables: {md(found.folder, 200)}")


def _stragglers(found: Report) -> None:
    options, figures = found.summary.get("options", {}), found.summary.get("figures", {})
    limit = float(options.get("straggler_ratio", 1.5))
    hosts, attempts = found.tables["hosts"], found.tables["attempts"]
    st.subheader("Worst attempts")
    if attempts.num_rows:
        frame = straggler_frame(attempts.slice(0, MAX_ROWS))
        state = st.dataframe(
            frame,
            hide_index=True,
            on_select="rerun",
            selection_mode="single-row",
            column_config=_straggler_columns(),
            key=f"stragglers-{found.made_ms}",
        )
        rows = state.selection.rows
        if rows and rows[0] < len(frame):
            links.go("job", id=str(attempts.column("job_id")[rows[0]].as_py()))
        _cut(attempts, "attempts")
    else:
        st.info("No attempt took longer than expected by the ratio of a straggler.", icon=":material/check_circle:")
    st.caption(_left_out(figures.get("n_attempts", {}), limit))
    st.subheader("Hosts, the slowest first")
    if not hosts.num_rows:
        st.info("No host has attempts that can be compared.", icon=":material/dns:")
        return
    draw(host_chart(hosts.to_pandas(), limit), alt="Hosts by how long their attempts take")
    st.caption(
        "Point: median over the host's attempts. Line: from what the median surely exceeds (95 %) to what 90 % of the "
        "attempts stay below. Hosts are ranked by the line's left end, so that one slow attempt makes no slow host; "
        "with fewer than six attempts it is 0."
        + (f" The first {MAX_HOSTS} of {hosts.num_rows:,} are drawn." if hosts.num_rows > MAX_HOSTS else "")
    )
    st.dataframe(host_frame(hosts.slice(0, MAX_ROWS)), hide_index=True, column_config=_host_columns())
    _cut(hosts, "hosts")


def _left_out(n: dict[str, int], limit: float) -> str:
    told = f"{n.get('compared', 0):,} attempts were compared with their own job's median for the same amount of input"
    told += f"; a straggler took at least {limit:g} times as long as expected. Left out: {n.get('tiny', 0):,} tiny ones"
    return f"{told}, {n.get('few attempts', 0):,} of jobs with too few to compare with. Select a row to open its job."


def _life_times(found: Report) -> None:
    of_user = st.text_input("User contains", key="user", bind="query-params", max_chars=200)
    for title, name in (("By user", "by_user"), ("By job", "by_job")):
        st.subheader(title)
        rows = _with_user(found.tables[name], of_user or "")
        if not rows.num_rows:
            st.info("No attempt of such a user. Clear the filter to see more.", icon=":material/filter_alt_off:")
            continue
        frame = life_time_frame(rows.slice(0, MAX_ROWS), of_jobs=name == "by_job")
        st.dataframe(frame, hide_index=True, column_config=_life_time_columns())
        _cut(rows, "lines")


def _with_user(table: pa.Table, part: str) -> pa.Table:
    if not part:
        return table
    return table.filter(pc.match_substring(table.column("user"), part, ignore_case=True))


def _queuing(found: Report) -> None:
    queue, jobs = found.tables["of_cluster"], found.tables["by_job"]
    window_ms = int(found.summary.get("options", {}).get("window_ms", 60_000))
    if not queue.num_rows:
        st.info("No map output is known to have waited in this span.", icon=":material/inbox:")
        return
    whole = pc.min_max(queue.column("window_ms")).as_py()
    last_ms = whole["max"] + window_ms
    from_ms, to_ms = span_picker("queue-span", (max(whole["min"], last_ms - WEEK_MS), last_ms))
    part = windows_between(queue, from_ms, to_ms, window_ms)
    if part.num_rows:
        _queue_over_time(part, window_ms)
    else:
        st.info(
            f"No map output waited between {shown(from_ms)} and {shown(to_ms)}. The report has windows from "
            f"{shown(whole['min'])} to {shown(last_ms)}.",
            icon=":material/search_off:",
        )
    st.subheader("By job")
    st.dataframe(queue_frame(jobs).head(MAX_ROWS), hide_index=True)
    _cut(jobs, "jobs")


def windows_between(queue: pa.Table, from_ms: int, to_ms: int, window_ms: int) -> pa.Table:
    """The windows that the closed span touches."""
    start = queue.column("window_ms")
    return queue.filter(pc.and_(pc.greater_equal(start, from_ms - window_ms), pc.less_equal(start, to_ms)))


def _queue_over_time(queue: pa.Table, window_ms: int) -> None:
    frame = queue_steps(queue, window_ms)
    axis = TimeAxis(float(frame["t_ms"].min()), float(frame["t_ms"].max()) + window_ms, zone().key)
    draw(cluster_queue_chart(frame, axis), alt="Map output of all jobs that waits for reducers, over time")
    thin = " Several windows share a point: the one with the most data." if queue.num_rows > MAX_POINTS else ""
    st.caption(
        f"Sum over all jobs at the end of each window of {duration(window_ms)}.{thin} The pale band is what jobs may "
        "have waiting whose fetches nobody logged. Jobs whose queue is not known are in neither: "
        f"up to {int(frame['n_unknown'].max()):,} at a time."
    )


def queue_steps(queue: pa.Table, window_ms: int) -> pd.DataFrame:
    """t_ms, low, high, n_waiting, n_unknown, at most MAX_POINTS rows: of neighbours the one with the most data."""
    frame = pd.DataFrame(
        {
            "t_ms": queue.column("window_ms").to_numpy() + window_ms,
            "low": queue.column("queued_low_bytes").to_numpy(),
            "high": queue.column("queued_high_bytes").to_numpy(),
            "n_waiting": queue.column("n_jobs_waiting").to_numpy(),
            "n_unknown": queue.column("n_jobs_unknown").to_numpy(),
        }
    )
    if len(frame) <= MAX_POINTS:
        return frame
    group = frame.index * MAX_POINTS // len(frame)
    return frame.loc[frame.groupby(group)["high"].idxmax()].reset_index(drop=True)


def _cut(table: pa.Table, what: str) -> None:
    if table.num_rows > MAX_ROWS:
        st.caption(f"The first {MAX_ROWS:,} of {table.num_rows:,} {what}; all are in the report's tables.")


def _straggler_columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "Ratio": column.NumberColumn(help="Time taken / time expected.", format="%.1f", width="small"),
        "Expected": column.TextColumn(help="By the job's median for the same kind of task and amount of input."),
        "Status": column.TextColumn(help="KILLED: another attempt of the task was faster; it would have taken longer."),
        "Compared by": column.TextColumn(help="Running time: where the input does not decide how long a task takes."),
    }


def _host_columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "Median ratio": column.NumberColumn(format="%.2f"),
        "Surely at least": column.NumberColumn(
            format="%.2f", help="Lower end of the median's 95 % confidence interval."
        ),
        "90 % below": column.NumberColumn(format="%.2f"),
        "Share": column.NumberColumn(format="%.0f %%", help="Of its attempts that are stragglers."),
        "Lost": column.TextColumn(help="What its attempts took beyond the expected, together."),
    }


def _life_time_columns() -> dict[str, Any]:
    column = st.column_config
    return {
        "Attempts": column.NumberColumn(format="localized", width="small"),
        "Not measured": column.NumberColumn(help="Attempts whose begin nothing tells.", width="small"),
    }


__all__ = ["page", "queue_steps", "windows_between"]
