"""What an alert of one event shows at a glance: its value with its query's threshold, over time and beside peers."""

from __future__ import annotations

import streamlit as st

import engine
from dashboard import times
from dashboard.alerts.beside import PEERS_MS, Beside, read_beside
from dashboard.alerts.limits import MOST_LIMITS, Limit, crossed, limits_of
from dashboard.charts.axes import TimeAxis
from dashboard.charts.comparison import bars_px
from dashboard.charts.drawn import draw
from dashboard.charts.limits import OVER_TIME_PX, over_time, subject_bars
from dashboard.charts.marks import AlertMark
from dashboard.on_sight import AROUND_PX, on_sight
from dashboard.queries.list import KnownQuery
from dashboard.store import AlertRow, AppError, EvidenceRow, event_log
from dashboard.text import inert, md
from dashboard.units import shown_value
from engine.errors import QueryError

_SIDES = {">": "above", ">=": "at or above", "<": "below", "<=": "at or below"}


def show_limits(alert: AlertRow, row: EvidenceRow, known: KnownQuery) -> None:
    """Each limit that the event is beyond; nothing where the query compares with none. Where the query was changed and
    the event is beyond none any more, those that it has a value for: the value is what the alert is about.
    """
    try:
        query = engine.parse(known.text, known.name)
    except QueryError:
        return  # the page of the query says what is wrong with it
    if query.is_trend or row.type is None:
        return
    of_event = [limit for limit in limits_of(query, known.in_use) if limit.event_type == row.type]
    limits = crossed(of_event, row.attributes)
    if not limits and known.has_changed_since(alert.query_hash):
        limits = [limit for limit in of_event if limit.value_of(row.attributes) is not None][:MOST_LIMITS]
    for place, limit in enumerate(limits):
        _show(alert, row, limit, f"{alert.id}-{place}")


def _show(alert: AlertRow, row: EvidenceRow, limit: Limit, key: str) -> None:
    problem = None
    try:
        found = read_beside(event_log(), alert, row, limit)
    except AppError as error:
        found, problem = read_beside(None, alert, row, limit), error
    if found is None:
        return
    on_sight(
        f"beside-{key}",
        bars_px(len(found.bars)) + AROUND_PX,
        lambda: draw(subject_bars(found), alt=f"{inert(limit.attribute, 60)} beside that of its peers"),
    )
    st.caption(_told(found))
    if problem is not None:
        st.caption(f"Other events could not be read: {md(problem, 500)}")
    if found.points:
        axis = TimeAxis(*found.span_ms, times.zone().key)
        marks = [AlertMark(alert.onset_ms, alert.severity, alert.query, alert.summary)]
        on_sight(
            f"limit-{key}",
            OVER_TIME_PX + AROUND_PX,
            lambda: draw(over_time(found, axis, marks), alt=f"{inert(limit.attribute, 60)} over time"),
        )
        st.caption("The dashed line is the threshold, the dotted one where this alert began.")


def _told(found: Beside) -> str:
    name, offender = found.limit.attribute, found.bars[0]
    told = [f"▶ marks this alert's {md(name, 60)} ({shown_value(name, offender.value)})"]
    if offender.bound is not None:
        bound = shown_value(name, offender.bound)
        told.append(f"the query looks for what is {_SIDES[found.limit.op]} {bound}, the line at each bar")
    n_peers = len(found.bars) - 1 + found.n_left_out
    if n_peers:
        told.append(f"its peers have their last value of the {times.duration(PEERS_MS)} before")
    else:
        told.append(f"no peer is known to have one in the {times.duration(PEERS_MS)} before")
    left_out = f" {found.n_left_out:,} more are not drawn." if found.n_left_out else ""
    return f"{'; '.join(told)}.{left_out}"


__all__ = ["show_limits"]
