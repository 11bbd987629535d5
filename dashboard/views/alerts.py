"""Alerts now and before: what is open first, then what is over; filters, pages and selections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from app.store.states import OPEN_STATES
from dashboard import times
from dashboard.alerts import actions as alert_actions
from dashboard.alerts import filters as alert_filters
from dashboard.alerts import silences as alert_silences
from dashboard.alerts import table as alert_table
from dashboard.alerts.words import n_alerts, n_entries
from dashboard.looks import SEVERITIES, signed
from dashboard.store import AlertFilter, AlertRow, Store, Watch, now_ms, store, watched

REFRESH_S = 10
COUNTED = 10_000
"""Counting stops there: it reads every row, and nobody looks at that many."""

OVER = "resolved"

_FILTER = "alerts-filter"


@dataclass(frozen=True)
class Section:
    """One list of the page; `name` is its place's parameter in the URL."""

    name: str
    title: str
    wanted: AlertFilter
    is_open: bool


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
    looks_for = wanted.queries or wanted.severities or wanted.job_id or wanted.host or wanted.text
    return wanted if looks_for else replace(wanted, members=False)


def sections(wanted: AlertFilter) -> list[Section]:
    """What is open by urgency, then what is over, by first event; of both only the states that are chosen."""
    states = wanted.states or (*OPEN_STATES, OVER)
    found = []
    if still := tuple(state for state in states if state != OVER):
        found.append(Section("at", "Open", replace(wanted, states=still), is_open=True))
    if OVER in states:
        found.append(Section("before", "Over", replace(wanted, states=(OVER,)), is_open=False))
    return found


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
            if told:
                st.caption(", ".join(told))
    as_of_ms = watched(store(), now_ms()).as_of_ms
    if as_of_ms is not None:
        st.caption(f"As of {times.shown(as_of_ms)}; looks again every {REFRESH_S} seconds.")
    alert_actions.tell_results()


@st.fragment(run_every=REFRESH_S)
def _section(section: Section) -> None:
    """One list. While rows are selected it stands still, so that nobody acknowledges what slid under the cursor."""
    opened, key = store(), f"alerts-{section.name}"
    shown = _held(opened, section, key)
    n, n_incidents, exact = _counted(opened, section, shown)
    n_behind = _n_behind(opened, section, n) if n_incidents and exact else 0
    st.subheader(f"{section.title}: {n_entries(n_incidents, n - n_incidents, exact, n_behind)}", anchor=False)
    if not shown.alerts:
        _empty(opened, section)
        return
    incidents = [alert.id for alert in shown.alerts if alert.is_incident]
    behind = opened.first_members_of(incidents, alert_table.MAX_BEHIND)
    order = "the most urgent first" if section.is_open else "by first event, the latest first"
    told = alert_table.range_text(shown, n, exact)
    st.caption(f"{told}, {order}")
    above = st.container()  # what is done with selected rows stands where it is seen, however long the list is
    selected = alert_table.select(shown.alerts, key, f"{section.title} alerts", behind)
    with above:
        done = _act(selected, key) if selected else False
    if done:
        alert_table.clear_selection(key)
        st.rerun()
    alert_table.pager(shown, section.name, told)


def _counted(opened: Store, section: Section, shown: alert_table.ShownPage) -> tuple[int, int, bool]:
    """(Alerts and incidents, how many of them are incidents, whether that is all); not told apart beyond COUNTED."""
    if shown.first == 1 and not shown.next:
        return len(shown.alerts), sum(alert.is_incident for alert in shown.alerts), True
    n, exact = opened.count_alerts(section.wanted, COUNTED)
    if not exact:
        return n, 0, False
    return n, min(n, opened.count_alerts(replace(section.wanted, incidents=True), COUNTED)[0]), True


def _n_behind(opened: Store, section: Section, n: int) -> int:
    """Of what is open, how many stand behind incidents: with them it is what the severities above count."""
    if not section.is_open or section.wanted.members:
        return 0
    n_all, exact = opened.count_alerts(replace(section.wanted, members=True), COUNTED)
    return n_all - n if exact else 0


def _act(selected: Sequence[AlertRow], key: str) -> bool:
    _selected(selected, key)
    return alert_actions.offer(selected, key)


def _held(opened: Store, section: Section, key: str) -> alert_table.ShownPage:
    """The page of alerts; the one shown before while rows of it are selected."""
    place = st.query_params.get(section.name, "")
    before: tuple[str, alert_table.ShownPage] | None = st.session_state.get(f"{key}-page")
    this = f"{alert_filters.signature(section.wanted)}@{place}"
    if before is not None and before[0] == this and alert_table.selected_ids(key):
        return before[1]
    if before is not None and before[0] != this:
        alert_table.clear_selection(key)
    page_at = alert_table.urgent_page_at if section.is_open else alert_table.page_at
    page = page_at(opened, section.wanted, section.name)
    st.session_state[f"{key}-page"] = (this, page)
    return page


def _selected(alerts: Sequence[AlertRow], key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{n_alerts(len(alerts), True)} selected**")
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
