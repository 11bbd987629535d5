"""An alert about queued data: the map output of its job that waited for reducers, with the threshold."""

from __future__ import annotations

import streamlit as st

from dashboard import times
from dashboard.charts.axes import TimeAxis
from dashboard.charts.marks import AlertMark
from dashboard.jobs.queued import QUEUE_LIMIT, show_queued
from dashboard.jobs.reading import read_job
from dashboard.on_sight import on_sight
from dashboard.queries.list import KnownQuery
from dashboard.store import AlertRow, AppError, event_log
from dashboard.text import md

QUEUE_PX = 400
"""What it takes, about; see `on_sight`."""


def show_queue(alert: AlertRow, known: KnownQuery) -> None:
    """The curve, once it is looked at; nothing where the query has no such threshold or the alert no job."""
    if QUEUE_LIMIT in known.in_use and alert.job_id is not None:
        on_sight(f"queued-{alert.id}", QUEUE_PX, lambda: _show(alert, str(alert.job_id)))


def _show(alert: AlertRow, job_id: str) -> None:
    try:
        found = read_job(event_log(), job_id)
    except AppError as error:
        st.caption(f"The job's events could not be read: {md(error, 500)}")
        return
    if found is None:
        st.caption("The event log has no events of its job any more (store.retention.events).")
        return
    marks = [AlertMark(alert.onset_ms, alert.severity, alert.query, alert.summary)]
    show_queued(found, TimeAxis(*found.drawn_ms, times.zone().key), marks, [alert])
    st.caption("The dotted line is where this alert began.")


__all__ = ["show_queue"]
