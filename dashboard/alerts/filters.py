"""The filters above the list of alerts; what they are set to stands in the URL.

What a widget shows is what its URL holds, so the options are the bare words of the store.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import streamlit as st

from dashboard import times
from dashboard.looks import SEVERITIES, STATES
from dashboard.store import AlertFilter, Store

ROWS_PER_PAGE = 50
MAX_NAME_CHARS = 300

_KEYS = ("state", "severity", "text", "query", "job", "host")
_TEXTS = ("text", "job", "host")
MIN_TEXT_CHARS = 2
"""A single letter stands everywhere."""


def chosen(store: Store) -> AlertFilter:
    """Show the widgets; what they are set to, without alerts that became part of others."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        states = st.pills("State", STATES, selection_mode="multi", key="state", bind="query-params")
        severities = st.pills("Severity", SEVERITIES, selection_mode="multi", key="severity", bind="query-params")
        with st.popover(_when_label(), icon=":material/schedule:", width="content"):
            st.caption("Alerts that were going on at some time between both.")
            from_ms, to_ms = times.open_span_picker("alerts-when")
    text, query, job, host = st.columns((3, 3, 3, 2), vertical_alignment="bottom")
    said = text.text_input(
        "Search",
        key="text",
        bind="query-params",
        max_chars=MAX_NAME_CHARS,
        placeholder="Any text",
        help="In the title, query, job, user, queue and attempt.",
    )
    queries = query.multiselect("Query", _query_names(store), key="query", bind="query-params", placeholder="Any query")
    job_id = job.text_input("Job", key="job", bind="query-params", max_chars=MAX_NAME_CHARS, placeholder="Any job")
    host_name = host.text_input("Host", key="host", bind="query-params", max_chars=MAX_NAME_CHARS, placeholder="Any")
    return AlertFilter(
        states=tuple(states),
        severities=tuple(severities),
        queries=tuple(queries),
        job_id=(job_id or "").strip() or None,
        host=(host_name or "").strip() or None,
        text=_searched(said),
        from_ms=from_ms,
        to_ms=to_ms,
        merged=False,
        limit=ROWS_PER_PAGE,
    )


def is_set(wanted: AlertFilter) -> bool:
    """Whether anything is filtered."""
    return replace(wanted, merged=True, limit=0) != AlertFilter(limit=0)


def signature(wanted: AlertFilter) -> str:
    """Names a filter: the place on a page belongs to one filter only."""
    return urlencode(
        {
            "s": ",".join(sorted(wanted.states)),
            "v": ",".join(sorted(wanted.severities)),
            "q": ",".join(sorted(wanted.queries)),
            "j": wanted.job_id or "",
            "h": wanted.host or "",
            "x": wanted.text or "",
            "f": wanted.from_ms,
            "t": wanted.to_ms,
        }
    )


def clear() -> None:
    """Show every alert again; a callback, as widgets cannot be changed once they are shown."""
    for key in _KEYS:
        st.session_state[key] = "" if key in _TEXTS else []
    for name in (times.FROM, times.TO):
        st.query_params.pop(name, None)


def _searched(said: str | None) -> str | None:
    text = " ".join((said or "").split())
    return text if len(text) >= MIN_TEXT_CHARS else None


def _when_label() -> str:
    return "Chosen time" if times.FROM in st.query_params or times.TO in st.query_params else "Any time"


def _query_names(store: Store) -> list[str]:
    return store.query_names()
