"""Alerts as a table whose rows can be selected; its pages are walked by keyset, with the place in the URL."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from app.alerting.lifecycle import lasted_text
from dashboard import links, times
from dashboard.alerts.words import at_least_one, n_matches, suspects
from dashboard.looks import signed, standing, styled
from dashboard.store import AlertFilter, AlertPage, AlertRow, Cursor, Store
from dashboard.text import inert
from dashboard.watch_banner import present_ms

ROW_PX = 35
MAX_HEIGHT_PX = 12 * ROW_PX
"""Longer tables scroll inside: what is done with the selected rows stands right below."""

_COLUMNS = {
    "link": st.column_config.LinkColumn("Open", display_text=r"id=(.{8})", width=75, help="The alert's page"),
    "severity": st.column_config.TextColumn("Severity", width=90),
    "state": st.column_config.TextColumn("State", width=135),
    "host": st.column_config.TextColumn("Host", width=80, help="The first suspect"),
    "alerts": st.column_config.TextColumn("Alerts", width=70, help="Of an incident: the alerts behind it"),
    "summary": st.column_config.TextColumn("Summary", width=350),
    "start": st.column_config.TextColumn("Began", width=145),
    "lasted": st.column_config.TextColumn("Lasted", width=90),
    "query": st.column_config.TextColumn("Query", width=185),
    "job": st.column_config.TextColumn("Job", width=190),
    "matches": st.column_config.TextColumn("Matches", width=90),
    "confidence": st.column_config.TextColumn("At least one match", width=130),
}


@dataclass(frozen=True)
class PageStart:
    """Where in the list a page begins: after one alert, or before one."""

    after: Cursor | None = None
    before: Cursor | None = None


def frame(alerts: Sequence[AlertRow], n_behind: Mapping[str, int] | None = None) -> pd.DataFrame:
    """One row per alert; all text inert. `n_behind`: how many alerts are behind incidents, by their ids."""
    counted = n_behind or {}
    until_ms = present_ms()
    rows = [
        {
            "link": links.url("alert", id=alert.id),
            "severity": signed(alert.severity),
            "state": standing(alert.state, alert.silenced),
            "alerts": f"{counted[alert.id]:,}" if alert.id in counted else "",
            "summary": inert(alert.summary),
            "start": times.shown(alert.onset_ms),
            "lasted": lasted_text(alert, until_ms),
            "query": inert(alert.query),
            "job": inert(alert.job_id or ""),
            "host": inert(suspects(alert)),
            "matches": n_matches(alert),
            "confidence": at_least_one(alert),
        }
        for alert in alerts
    ]
    return pd.DataFrame(rows, columns=[name for name in _COLUMNS if counted or name != "alerts"], dtype="string")


def select(
    alerts: Sequence[AlertRow], key: str, *, without: Sequence[str] = (), n_behind: Mapping[str, int] | None = None
) -> list[AlertRow]:
    """Show the table; returns the alerts whose rows are selected.

    The widget is named after its rows: when an alert joins the list between a look and a click, the click is lost
    and never selects the alert that took the row's place.
    """
    shown = [name for name in _COLUMNS if name not in without]
    event = st.dataframe(
        frame(alerts, n_behind).style.map(styled, subset=["severity"]),
        hide_index=True,
        height=min(MAX_HEIGHT_PX, (len(alerts) + 1) * ROW_PX + 3),
        row_height=ROW_PX,
        column_order=shown,
        column_config=dict(_COLUMNS),
        key=widget_key(alerts, key),
        on_select="rerun",
        selection_mode="multi-row",
        alt="Alerts; each row can be selected",
    )
    return [alerts[row] for row in event["selection"]["rows"] if row < len(alerts)]


def show(alerts: Sequence[AlertRow], key: str) -> None:
    """The table, nothing to be selected."""
    st.dataframe(
        frame(alerts).style.map(styled, subset=["severity"]),
        hide_index=True,
        height="content",
        column_config=dict(_COLUMNS),
        key=key,
        alt="Alerts",
    )


def widget_key(alerts: Sequence[AlertRow], key: str) -> str:
    """The table's name: its place on the page, its rows, and how often its selection was cleared."""
    ids = hashlib.blake2b("".join(alert.id for alert in alerts).encode(), digest_size=8).hexdigest()
    return f"{key}-{ids}-{st.session_state.get(_cleared(key), 0)}"


def clear_selection(key: str) -> None:
    """Show the table anew, nothing selected."""
    st.session_state[_cleared(key)] = st.session_state.get(_cleared(key), 0) + 1


def page_at(store: Store, wanted: AlertFilter, name: str) -> AlertPage:
    """The page whose place is in the URL under `name`; the first one where there is none."""
    place = page_start_in_url(name)
    return store.alert_page(wanted, after=place.after, before=place.before)


def pager(page: AlertPage, name: str) -> None:
    """Previous, next and first, where there are any."""
    if page.previous is None and page.next is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Newer", icon=":material/chevron_left:", disabled=page.previous is None, key=f"{name}-newer"):
            _to(name, "before", page.previous)
        if st.button(
            "Older", icon=":material/chevron_right:", icon_position="right", disabled=page.next is None,
            key=f"{name}-older",
        ):  # fmt: skip
            _to(name, "after", page.next)
        if page.previous is not None and st.button("Newest", key=f"{name}-newest", type="tertiary"):
            _to(name, "", None)


def page_start_in_url(name: str) -> PageStart:
    """`?NAME=after.1700000000000.ID`; the first page for what is not of this form."""
    direction, _, rest = st.query_params.get(name, "").partition(".")
    start, _, alert_id = rest.partition(".")
    digits = start.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15 and 0 < len(alert_id) <= 64):
        return PageStart()
    cursor = Cursor(int(start), alert_id)
    return PageStart(after=cursor) if direction == "after" else PageStart(before=cursor)


def _to(name: str, direction: str, cursor: Cursor | None) -> None:
    if cursor is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = f"{direction}.{cursor.start_ms}.{cursor.id}"
    st.rerun()


def _cleared(key: str) -> str:
    return f"{key}-cleared"
