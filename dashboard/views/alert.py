"""One alert: what it means, what to do, what is behind it, and what was done about it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.alerting.hosts import MAX_FORGOTTEN
from app.alerting.lifecycle import lasted_text, state_text
from app.alerting.recording.kept import spread_of
from app.alerting.text import at_least_one_text
from app.durations import format_with_unit
from app.store.states import OPEN_STATES, SILENCED
from dashboard import links, times
from dashboard.alerts import actions as alert_actions
from dashboard.alerts import evidence as alert_evidence
from dashboard.alerts import table as alert_table
from dashboard.alerts.commands import commands
from dashboard.alerts.runbook import runbook_md
from dashboard.alerts.words import matches_meaning, meaning, n_matches
from dashboard.components.copied_texts import CopiedText, copied_texts
from dashboard.jobs.reading import name_of_job
from dashboard.looks import BADGES, ICONS
from dashboard.queries.list import is_about_trends
from dashboard.static_table import show_facts, show_table
from dashboard.store import (
    AlertDetails,
    AlertRow,
    AppError,
    NotFoundError,
    case_of,
    event_log,
    message_links,
    runbook_text,
    store,
)
from dashboard.text import inert, md
from dashboard.units import shown_value
from dashboard.watch_banner import present_ms

REFRESH_S = 10
AROUND_MS = 600_000
"""How much of the cluster's time before and after the alert its link shows."""

NOBODY_TOLD = "Nobody was told: no receiver is configured, or none wanted to know (alerting.receivers)."
NOT_TOLD_ALONE = "Nobody was told of this alert alone: it is part of an incident, whose page has its notifications."

OVER_TIME = "Runs the query in the editor: what it computes for each window, with its threshold."

MAX_HOST_LINKS = 10
"""Hosts of one role with a link each."""

ROLES = {"suspect": "Suspected:", "affected": "Affected:"}

MAX_NEIGHBOURS = 20
MAX_BEHIND = 200
"""Alerts behind an incident that are shown."""
MAX_ID_CHARS = 64

_MEASURED = re.compile(r"val|value(_\d+)?|std(_\w+)?")
"""What events that have a `unit` measure in it (collectors/events.csv), and the names that queries give deviations."""


def page() -> None:
    """The page of `?id=`."""
    wanted = st.query_params.get("id", "").strip()[:MAX_ID_CHARS]
    links.link("alerts", "All alerts", icon=":material/arrow_back:")
    if not wanted:
        st.title("Alert")
        _ask("Which alert? Its id stands in the list of alerts and in every notification.")
        return
    try:
        details = store().alert(wanted)
    except NotFoundError as error:
        st.title("Alert")
        st.warning(md(error, 500), icon=":material/search_off:")
        _ask("Alerts are deleted after store.retention.alerts. Give another id, or a beginning of it:")
        return
    if details.alert.id != wanted:
        st.query_params["id"] = details.alert.id  # the address that is sent to somebody does not become ambiguous
    _show(details)


def _show(details: AlertDetails) -> None:
    alert = details.alert
    st.set_page_config(page_title=f"{inert(alert.query, 60)}: {inert(alert.summary, 80)}")
    _head(alert)
    alert_evidence.show_decisive(alert, details.evidence)
    alert_actions.tell_results()
    _changed(alert.id, alert.revision, alert.updated_ms)
    _facts(alert)
    _hosts(alert)
    _links(alert)
    _incident(alert)
    _what_to_do(alert)
    if alert_actions.offer([alert], "alert"):
        st.rerun()
    _commands(alert)
    alert_evidence.show(alert, details.evidence)
    _values(alert)
    _changes(details)
    _notifications(details)
    _neighbours(alert)


def _head(alert: AlertRow) -> None:
    with st.container(horizontal=True):
        silenced = [SILENCED] if alert.silenced and alert.state in OPEN_STATES else []
        for word in (alert.severity, alert.state, *silenced):
            st.badge(md(word), icon=ICONS.get(word), color=BADGES.get(word, "gray"))
        if alert.assigned_to is not None:
            st.badge(md(alert.assigned_to, 100), icon=":material/person:", color="gray")
        if alert.acknowledged_until_ms is not None:
            until = times.shown(alert.acknowledged_until_ms)
            st.badge(f"acknowledged until {until}", icon=":material/timer:", color="gray")
        if alert.lane == "history":
            st.badge("found in a finished job's history", icon=":material/history:", color="gray")
    st.title(md(alert.summary, 1_000), anchor=False)
    if alert.merged_into is not None:
        st.info("A match joined this alert with an earlier one, which goes on for both.", icon=":material/merge:")
        links.link("alert", "Go to the alert that it became part of", icon=":material/merge:", id=alert.merged_into)


def _incident(alert: AlertRow) -> None:
    """Of an incident what it rests on; of an alert behind one, that one."""
    opened = store()
    if incidents := opened.incidents_of(alert.id):
        several = len(incidents) > 1
        named = "; ".join(md(incident.summary, 500) for incident in incidents)
        told = (
            f" {'They are' if several else 'It is'} told in its place while {'they go' if several else 'it goes'} on."
        )
        text = f"Part of {'these incidents' if several else 'the incident'}: {named}.{told if alert.inhibited else ''}"
        st.info(text, icon=":material/account_tree:")
        with st.container(horizontal=True):  # what to do is to be seen without scrolling
            for incident in incidents:
                to = f"Go to: {md(alert_table.short_title(incident), 80)}" if several else "Go to the incident"
                links.link("alert", to, icon=":material/account_tree:", id=incident.id)
    if not alert.is_incident:
        return
    case = opened.read(lambda session: case_of(session, alert))
    st.subheader(f"Alerts behind it: {case['n_members']:,}", anchor=False)
    for word, sentences in (("For it", case["for"]), ("Against it", case["against"])):
        st.markdown(f"**{word}:** {'; '.join(md(text, 500) for text in sentences) or 'nothing known'}")
    if behind := opened.first_members_of([alert.id], MAX_BEHIND).get(alert.id):
        members, n_members = behind
        alert_table.show(members, key="behind")
        if n_members > len(members):
            st.caption(f"and {n_members - len(members):,} more")


def _facts(alert: AlertRow) -> None:
    over = alert.state not in OPEN_STATES
    facts = {
        "Query": inert(alert.query),
        "Began": times.shown(alert.onset_ms),
        "Raised": times.shown(alert.raised_ms),
        "Last seen": times.shown(alert.last_seen_ms),
        "Lasted" if over else "Lasts for": lasted_text(alert, present_ms()),
        "Matches": n_matches(alert),
        "At least one match": at_least_one_text(alert),
    }
    with st.container(border=True):
        show_facts(facts.items())
        st.caption(f"**At least one match.** {meaning(alert)} **Matches.** {matches_meaning(alert)}")


def _what_to_do(alert: AlertRow) -> None:
    st.subheader("What to do", anchor=False)
    if alert.runbook:
        st.markdown(runbook_md(runbook_text(alert)))
    else:
        st.caption("No runbook paragraph: write one below a heading with the query's name in RUNBOOK.md.")


def _commands(alert: AlertRow) -> None:
    with st.expander("Commands to copy", icon=":material/terminal:", expanded=True):
        copied_texts("commands", [CopiedText(given.label, given.line, given.label) for given in commands(alert)])


def _hosts(alert: AlertRow) -> None:
    """All hosts with their roles, the first suspect first; each leads to its own charts."""
    for role, label in ROLES.items():
        named = [host for host in alert.hosts if host.role == role]
        if not named:
            continue
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(label, width="content")
            for host in named[:MAX_HOST_LINKS]:
                beside = "" if host.value_name is None else f" ({md(shown_value(host.value_name, host.value), 40)})"
                links.link(
                    "cluster",
                    f"{md(host.host, 60)}{beside}",
                    icon=":material/dns:",
                    span=(alert.onset_ms - AROUND_MS, alert.last_seen_ms + AROUND_MS),
                    host=host.host,
                )
            if len(named) > MAX_HOST_LINKS:
                st.caption(f"and {len(named) - MAX_HOST_LINKS} more")
    if alert.n_hosts_left_out:
        more = "at least " if alert.n_hosts_left_out >= MAX_FORGOTTEN else ""
        st.caption(f"{more}{alert.n_hosts_left_out} further hosts are not kept")


def _links(alert: AlertRow) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if application_id := _application_of(alert):
            links.link("job", "The application", icon=":material/work:", id=application_id)
        elif alert.job_id:
            name = _job_name(alert, alert.job_id)
            label = "The job" if name is None else f"The job {md(name, 80)}"
            links.link("job", label, icon=":material/work:", id=alert.job_id)
        links.link("query", "The query", icon=":material/search:", name=alert.query)
        if is_about_trends(alert.query):
            around_ms = max(AROUND_MS, 3 * (alert.end_ms - alert.start_ms))
            span = (alert.start_ms - around_ms, alert.end_ms + around_ms)
            icon = ":material/show_chart:"
            links.link("editor", "Its values over time", icon=icon, help=OVER_TIME, name=alert.query, span=span)
        for label, url in _elsewhere(alert):
            st.link_button(md(label, 60), url, icon=":material/open_in_new:", type="tertiary")


def _job_name(alert: AlertRow, job_id: str) -> str | None:
    """Its own, else that of the event log: queries over fetches or samples know no more than the id."""
    if isinstance(name := alert.values.get("job_name"), str) and name:
        return name
    try:
        return name_of_job(event_log(), job_id)
    except AppError:  # a page about the alert stays one without a name
        return None


def _elsewhere(alert: AlertRow) -> list[tuple[str, str]]:
    """Those of its job or application, and those that its messages have: each page once."""
    application_id = _application_of(alert)
    if alert.job_id and not application_id:
        found = links.job_links(alert.job_id)
    else:
        found = links.application_links(application_id or str(alert.labels.get("application")))
    by_url = {url: label for label, url in [*message_links(alert), *found]}
    return [(label, url) for url, label in by_url.items()]


def _application_of(alert: AlertRow) -> str | None:
    """The application that it names, unless that is a job: what is about jobs names these, too."""
    named = {**alert.values, **alert.key}
    found = named.get("application_id")
    return found if isinstance(found, str) and found and named.get("job_id") is None else None


@st.fragment(run_every=REFRESH_S)
def _changed(alert_id: str, revision: int, updated_ms: int) -> None:
    """Tells of a change instead of showing it: somebody may be writing a comment."""
    try:
        now = store().alert(alert_id).alert
    except NotFoundError:
        return
    if (now.revision, now.updated_ms) == (revision, updated_ms):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        what = f"It is {state_text(now.state, now.silenced)} now." if now.revision != revision else "It has grown."
        st.info(f"This alert changed: {what}", icon=":material/update:")
        if st.button("Show it", icon=":material/refresh:", key="show-change"):
            st.rerun()


def _values(alert: AlertRow) -> None:
    st.subheader("Values", anchor=False)
    st.caption(
        "The values that the alert shows, each from the match that the query asks for (SHOW, else the last one), and "
        "the key that this alert is about. Numbers that its matches do not agree on also stand with all of them."
    )
    known = {name: value for name, value in alert.values.items() if value is not None and name not in alert.key}
    rows = [*_named(alert, alert.key, "key"), *_named(alert, known, "value")]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("name", "value", "from"))}
    show_table(columns, label="Values")
    if unknown := [name for name, value in alert.values.items() if value is None and name not in alert.key]:
        st.caption(f"Not known: {md(', '.join(unknown), 1_000)}.")
    if found := spread_of(alert):
        texts = {
            aspect: [
                None if aspect not in of else inert(_with_unit(alert, name, of[aspect]), 200)
                for name, of in found.items()
            ]
            for aspect in ("first", "last", "max", "min")
        }
        show_table({"name": list(found), **texts}, label="Values that the matches do not agree on")


def _named(alert: AlertRow, values: Mapping[str, Any], origin: str) -> list[tuple[str, str, str]]:
    return [(name, inert(_with_unit(alert, name, value), 1_000), origin) for name, value in values.items()]


def _with_unit(alert: AlertRow, name: str, value: Any) -> Any:
    """What is measured in the `unit` that the alert names has it, as in its title."""
    unit = alert.values.get("unit")
    is_measured = isinstance(value, float) and math.isfinite(value) and _MEASURED.fullmatch(name) is not None
    if is_measured and isinstance(unit, str):
        return format_with_unit(value, inert(unit, 20))
    return shown_value(name, value)


def _changes(details: AlertDetails) -> None:
    st.subheader("History", anchor=False)
    changes = details.changes[::-1]
    show_table(
        {
            "when": [times.shown(change.at_ms) for change in changes],
            "state": [state_text(change.to_state, change.silenced) for change in changes],
            "by": [inert(change.actor) for change in changes],
            "reason": [change.reason for change in changes],
        },
        label="History",
    )


def _notifications(details: AlertDetails) -> None:
    st.subheader("Notifications", anchor=False)
    if not details.notifications:
        st.caption(NOT_TOLD_ALONE if details.alert.incident_id else NOBODY_TOLD)
        return
    sent = details.notifications
    show_table(
        {
            "receiver": [n.receiver for n in sent],
            "told": [n.state for n in sent],
            "status": [n.status for n in sent],
            "attempts": [n.n_attempts for n in sent],
            "written": [times.shown(n.created_ms) for n in sent],
            "finished": [times.shown(n.finished_ms) for n in sent],
            "error": [n.last_error for n in sent],
        },
        label="Notifications",
        numbers=("attempts",),
    )
    if any(n.status == "failed" for n in sent):
        st.warning(
            "A receiver was not reached. The health page shows why, and can send again.", icon=":material/error:"
        )


def _neighbours(alert: AlertRow) -> None:
    opened = store()
    if application_id := _application_of(alert):
        title = "Other alerts of this application"
        found = opened.alerts_of_application(application_id, limit=MAX_NEIGHBOURS + 1)
    elif alert.job_id:
        title, found = "Other alerts of this job", opened.alerts_of_job(alert.job_id, MAX_NEIGHBOURS + 1)
    else:
        title, found = "Other alerts of this query", opened.alerts_of_query(alert.query, MAX_NEIGHBOURS + 1)
    others = [other for other in found if other.id != alert.id][:MAX_NEIGHBOURS]
    st.subheader(title, anchor=False)
    if others:
        alert_table.show(others, key="neighbours")
    else:
        st.caption("None.")


def _ask(why: str) -> None:
    st.write(why)
    with st.form("which", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        given = st.text_input("Id of an alert", max_chars=MAX_ID_CHARS, placeholder="at least 4 characters")
        if st.form_submit_button("Show", icon=":material/search:") and given.strip():
            st.query_params["id"] = given.strip()
            st.rerun()
