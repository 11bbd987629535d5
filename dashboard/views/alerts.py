"""Alerts now and before: what is open first, then what is over; filters, pages and selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from app.store.states import OPEN_STATES
from dashboard import links, times
from dashboard.alerts import actions as alert_actions
from dashboard.alerts import filters as alert_filters
from dashboard.alerts import silences as alert_silences
from dashboard.alerts import table as alert_table
from dashboard.alerts.words import n_alerts
from dashboard.looks import SEVERITIES, signed
from dashboard.store import AlertFilter, AlertPage, AlertRow, Store, Watch, now_ms, store, watched
from dashboard.text import md

REFRESH_S = 10
COUNTED = 10_000
"""Counting stops there: it reads every row, and nobody looks at that many."""

_FILTER = "alerts-filter"


@dataclass(frozen=True)
class Section:
    """One list of the page; `name` is its place's parameter in the URL."""

    name: str
    title: str
    wanted: AlertFilter


def page() -> None:
    """The page."""
    st.title("Alerts")
    opened = store()
    glance = st.container()
    wanted = by_incident(alert_filters.chosen(opened))
    _forget_places(wanted)
    with glance:
        _glance()
    for section in sections(wanted):
        _section(section)
    alert_silences.show()


def by_incident(wanted: AlertFilter) -> AlertFilter:
    """Alerts behind an incident are shown with it; where something is looked for, each by itself."""
    looks_for = wanted.queries or wanted.severities or wanted.job_id or wanted.host
    return wanted if looks_for else replace(wanted, members=False)


def sections(wanted: AlertFilter) -> list[Section]:
    """What is open first; one list where states are chosen."""
    if wanted.states:
        return [Section("at", "Found", wanted)]
    return [
        Section("at", "Open", replace(wanted, states=OPEN_STATES)),
        Section("before", "Over", replace(wanted, states=("resolved",))),
    ]


@st.fragment(run_every=REFRESH_S)
def _glance() -> None:
    counts = store().n_open_alerts()
    for column, severity in zip(st.columns(len(SEVERITIES)), SEVERITIES, strict=True):
        n_firing, n_acknowledged = (
            sum(counts.get((state, silenced, severity), 0) for silenced in (False, True)) for state in OPEN_STATES
        )
        n_silenced = sum(counts.get((state, True, severity), 0) for state in OPEN_STATES)
        told = [f"{n_acknowledged:,} acknowledged"] if n_acknowledged else []
        told += [f"{n_silenced:,} of all silenced"] if n_silenced else []
        with column.container(border=True, gap=None):
            st.metric(f"{signed(severity)} firing", f"{n_firing:,}")
            st.caption(", ".join(told) or "none acknowledged or silenced")
    as_of_ms = watched(store(), now_ms()).as_of_ms
    if as_of_ms is not None:
        st.caption(f"As of {times.shown(as_of_ms)}; looks again every {REFRESH_S} seconds.")
    alert_actions.tell_results()


@st.fragment(run_every=REFRESH_S)
def _section(section: Section) -> None:
    """One list. While rows are selected it stands still, so that nobody acknowledges what slid under the cursor."""
    opened, key = store(), f"alerts-{section.name}"
    shown = _held(opened, section, key)
    n, exact = opened.count_alerts(section.wanted, COUNTED)
    st.subheader(f"{section.title}: {n_alerts(n, exact)}", anchor=False)
    if not shown.alerts:
        _empty(opened, section)
        return
    without = ("state",) if len(section.wanted.states) == 1 else ()
    behind = opened.members_of([alert.id for alert in shown.alerts if alert.is_incident])
    n_behind = {incident: len(alerts) for incident, alerts in behind.items()}
    selected = alert_table.select(shown.alerts, key, without=without, n_behind=n_behind)
    if selected:
        _selected(selected, key)
        if alert_actions.offer(selected, key):
            alert_table.clear_selection(key)
            st.rerun()
    alert_table.pager(shown, section.name)
    if not section.wanted.members:
        _behind_incidents(shown.alerts, behind, key)


def _behind_incidents(shown: Sequence[AlertRow], behind: Mapping[str, Sequence[AlertRow]], key: str) -> None:
    """The alerts behind each incident of the list, folded."""
    for incident in shown:
        if members := behind.get(incident.id):
            title = f"{n_alerts(len(members), True)} behind: {md(incident.summary, 200)}"
            with st.expander(title, icon=":material/account_tree:"):
                alert_table.show(members, key=f"{key}-behind-{incident.id}")


def _held(opened: Store, section: Section, key: str) -> AlertPage:
    """The page of alerts; the one shown before while rows of it are selected."""
    place = st.query_params.get(section.name, "")
    before: tuple[str, AlertPage] | None = st.session_state.get(f"{key}-page")
    this = f"{alert_filters.signature(section.wanted)}@{place}"
    if before is not None and before[0] == this:
        state = st.session_state.get(alert_table.widget_key(before[1].alerts, key))
        if state is not None and state["selection"]["rows"]:
            return before[1]
    page = alert_table.page_at(opened, section.wanted, section.name)
    st.session_state[f"{key}-page"] = (this, page)
    return page


def _selected(alerts: Sequence[AlertRow], key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{n_alerts(len(alerts), True)} selected**")
        if len(alerts) == 1:
            links.link("alert", "Open it", icon=":material/open_in_full:", id=alerts[0].id)
        st.button(
            "Clear the selection",
            key=f"{key}-clear",
            type="tertiary",
            icon=":material/close:",
            on_click=alert_table.clear_selection,
            args=(key,),
        )
    st.caption("The list stands still while rows are selected.")


def _empty(opened: Store, section: Section) -> None:
    if section.name in st.query_params:
        st.info("Nothing on this page any more.", icon=":material/inbox:")
        if st.button("Show the newest", key=f"{section.name}-first"):
            del st.query_params[section.name]
            st.rerun()
    elif alert_filters.is_set(replace(section.wanted, states=(), members=True)):
        st.info("No alert fits these filters.", icon=":material/filter_alt_off:")
        st.button("Clear the filters", key=f"{section.name}-unfilter", on_click=alert_filters.clear)
    elif section.name == "before" and opened.process_status() is None:
        st.info(
            "No alert was ever raised here. Enable your sources in config.yaml and start `clustercep run`, or see "
            "what alerts look like with `make demo`.",
            icon=":material/inbox:",
        )
    else:
        _calm(watched(opened, now_ms()))


def _calm(watch: Watch) -> None:
    """An empty list is good news only where somebody watches."""
    if watch.is_alive and watch.is_known:
        st.info("Nothing here: all is quiet.", icon=":material/check_circle:")
    elif watch.as_of_ms is None or watch.is_alive:
        st.info("Nothing is known here.", icon=":material/help:")
    else:
        st.info(f"Nothing here as of {times.shown(watch.as_of_ms)}.", icon=":material/history:")


def _forget_places(wanted: AlertFilter) -> None:
    """Another filter begins at its first page."""
    now = alert_filters.signature(wanted)
    if st.session_state.get(_FILTER, now) != now:
        for name in ("at", "before"):
            st.query_params.pop(name, None)
    st.session_state[_FILTER] = now
