"""Map output that waits for reducers, with the thresholds of the queries that alert about it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.durations import format_size
from dashboard.charts.axes import TimeAxis
from dashboard.charts.drawn import draw
from dashboard.charts.job_curves import queue_chart
from dashboard.charts.marks import AlertMark, Threshold
from dashboard.jobs.curves import peak_of, queued_data, thinned_queue
from dashboard.jobs.reading import JobEvents
from dashboard.looks import SEVERITIES
from dashboard.queries.list import loaded_queries
from dashboard.store import AlertRow
from dashboard.text import md
from dashboard.times import shown

MOST_ABOVE = 2.0
"""Thresholds up to so many times the peak are drawn."""
QUEUE_LIMIT = "max_queued_bytes"
"""The parameter of queries that compare a job's queued data with a limit."""


def show_queued(found: JobEvents, axis: TimeAxis, marks: Sequence[AlertMark], alerts: Sequence[AlertRow] = ()) -> None:
    """What stands in the section. `alerts`: of this job."""
    curve = queued_data(found.changes, found.known_until_ms)
    if not len(curve):
        st.info(
            "No map output was queued for reducers, as far as is known. It takes the job history (what mappers wrote) "
            "and the logs of containers (what reducers fetched).",
            icon=":material/inbox:",
        )
    else:
        peak = peak_of(curve)
        limits = _queue_limits()
        top = 0.0 if peak is None else peak[1]
        drawn = [limit for limit in limits if limit.value <= MOST_ABOVE * top]
        draw(
            queue_chart(thinned_queue(curve), peak, axis, marks, drawn),
            alt="Map output that waits for reducers, over time",
        )
        if peak is not None:
            st.caption(
                f"Map output that no reducer has fetched yet; at most {format_size(peak[1])}, at {shown(int(peak[0]))} "
                f"(the triangle). {_limits_told(limits, drawn)}{_changed_told(limits, alerts)}"
            )
        if float(curve["bytes_low"].min()) < 0:
            st.caption(
                "Below zero: fetches are known of mappers whose output is not (their history has not been read)."
            )


def _queue_limits() -> list[Threshold]:
    """Of the queries that alert about queued data."""
    found = []
    for query in loaded_queries().queries:
        limit = query.in_use.get(QUEUE_LIMIT)
        if query.severity in SEVERITIES and isinstance(limit, int | float):
            found.append(Threshold(query.name, float(limit), format_size(limit)))
    return found


def _limits_told(limits: Sequence[Threshold], drawn: Sequence[Threshold]) -> str:
    """Of a threshold far above, drawing it would press the curve to the ground."""
    named = [f"{md(limit.query, 60)} ({limit.told})" for limit in drawn]
    above = [f"{md(limit.query, 60)} ({limit.told})" for limit in limits if limit not in drawn]
    told = f"The dashed line is the threshold of {', '.join(named)}. " if named else ""
    return f"{told}The threshold of {', '.join(above)} lies far above." if above else told


def _changed_told(limits: Sequence[Threshold], alerts: Sequence[AlertRow]) -> str:
    """Alerts keep no parameters: what is drawn is what counts now, and may not be what they were raised by."""
    known = loaded_queries()
    raised_by = [(query, alert.query_hash) for alert in alerts if (query := known.named(alert.query)) is not None]
    changed = {query.name for query, query_hash in raised_by if query.has_changed_since(query_hash)}
    told = ", ".join(md(limit.query, 60) for limit in limits if limit.query in changed)
    return f" {told} or its threshold was changed since it raised the alert here." if told else ""


__all__ = ["QUEUE_LIMIT", "show_queued"]
