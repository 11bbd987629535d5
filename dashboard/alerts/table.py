"""Alerts as a list whose rows open and can be selected; its pages are walked with the place in the URL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

import streamlit as st

from app.alerting.lifecycle import lasted_text
from app.store.states import OPEN_STATES
from collectors.time_units import DAY_MS
from dashboard import links, times
from dashboard.alerts.words import at_least_one, n_alerts, n_matches, suspects
from dashboard.components.alert_list import ListedAlert, alert_list, selected_in
from dashboard.jobs.reading import names_of_jobs
from dashboard.looks import signed, standing
from dashboard.store import AlertFilter, AlertRow, AppError, Cursor, Store, event_log
from dashboard.text import inert
from dashboard.watch_banner import present_ms

MAX_BEHIND = 50
"""Alerts behind one incident that a list shows; its page has more."""
MAX_OFFSET = 10_000
MAX_NAME = 60
_NONE: Mapping[str, str] = MappingProxyType({})

_ATTEMPT = re.compile(r"\battempt_\d+_\d+_([mr]_\d{6,})_(\d+)\b")


@dataclass(frozen=True)
class PageStart:
    """Where in the list a page begins: after one alert, before one, or after so many."""

    after: Cursor | None = None
    before: Cursor | None = None
    offset: int = 0


@dataclass(frozen=True)
class ShownPage:
    """Some alerts of a list. `first`: the number of the first of them, from 1; None where nobody counted so far."""

    alerts: tuple[AlertRow, ...]
    first: int | None
    next: str = ""
    """Its place in the URL; empty: there is none."""
    previous: str = ""


def short_title(alert: AlertRow, job_name: str | None = None) -> str:
    """The text without what only a program reads: `r_000001` for its attempt, a job's name in place of both or, where
    the text has none, behind the first attempt. `job_name`: for an alert that does not know it."""
    text = inert(alert.summary)
    own = alert.values.get("job_name")
    if isinstance(own, str) and alert.job_id:
        text = text.replace(f"job {inert(alert.job_id)} ({inert(own)})", f"job {inert(own)}", 1)
    known = own if isinstance(own, str) else job_name
    if alert.job_id and known and inert(known) not in text:
        name = inert(known, MAX_NAME)
        text = re.sub(rf"\bjob {re.escape(inert(alert.job_id))}(?!\w)", lambda _: f"job {name}", text, count=1)
    of_job = f" of {inert(known, MAX_NAME)}" if known and inert(known) not in text else ""
    found = _ATTEMPT.search(text)
    if found is None:
        return text
    before, after = text[: found.start()], text[found.end() :]
    return f"{before}{_attempt(found)}{of_job}{_ATTEMPT.sub(_attempt, after)}"


def _attempt(found: re.Match[str]) -> str:
    return found[1] if found[2] == "0" else f"{found[1]} (attempt {int(found[2]) + 1})"


def _job_names(alerts: Iterable[AlertRow]) -> dict[str, str]:
    """By id, of the jobs of alerts that do not tell them: queries over fetches or load know no more than the id. A
    job that began more than a day before the earliest of them is shown by its id: a page reads no more of the log."""
    unnamed = [alert for alert in alerts if alert.job_id and not alert.values.get("job_name")]
    if not unnamed:
        return {}
    from_ms, to_ms = min(alert.start_ms for alert in unnamed) - DAY_MS, max(alert.end_ms for alert in unnamed)
    try:
        return names_of_jobs(event_log(), {alert.job_id for alert in unnamed if alert.job_id}, from_ms, to_ms)
    except AppError:  # a list without names is one, too
        return {}


def listed(
    alert: AlertRow,
    until_ms: int,
    members: Sequence[AlertRow] = (),
    n_members: int = 0,
    job_names: Mapping[str, str] = _NONE,
) -> ListedAlert:
    """What its row says; all text inert. `members`: the first of the `n_members` alerts behind it. `job_names`: by id,
    of jobs whose alerts do not tell them."""
    job_name = job_names.get(alert.job_id or "")
    named = {
        "": alert.query,
        "on ": suspects(alert),
        "job ": alert.values.get("job_name") or job_name or alert.job_id,
        "user ": alert.labels.get("user") or alert.values.get("user"),
        "queue ": alert.labels.get("queue") or alert.values.get("queue"),
        "assigned to ": alert.assigned_to,
    }
    facts = [f"{before}{inert(value, 100)}" for before, value in named.items() if isinstance(value, str) and value]
    if at_least_one(alert) != "certain":
        facts.append(f"at least one match: {at_least_one(alert)}")
    if members:
        facts.append(_kinds(members, n_members))
    else:
        facts.append("1 match" if alert.n_matches == 1 and alert.n_matches_exact else f"{n_matches(alert)} matches")
    lasted = lasted_text(alert, until_ms)
    is_open = alert.state in OPEN_STATES
    if not is_open:
        facts.append(f"raised {times.shown(alert.raised_ms)}")
    return ListedAlert(
        id=alert.id,
        url=links.url("alert", id=alert.id),
        severity=alert.severity,
        severity_sign=signed(alert.severity),
        state=standing(alert.state, alert.silenced),
        title=short_title(alert, job_name),
        whole_title=inert(alert.summary),
        facts=tuple(facts),
        began=f"raised {times.shown(alert.raised_ms)}" if is_open else f"first event {times.shown(alert.start_ms)}",
        lasted=lasted if lasted == "seen once" else f"{'for' if is_open else 'lasted'} {lasted}",
        n_behind=f"{n_alerts(n_members, True)} behind it" if members else "",
        behind=tuple(listed(member, until_ms, job_names=job_names) for member in members),
        more_behind=f"and {n_members - len(members):,} more on its page" if n_members > len(members) else "",
    )


def _kinds(members: Sequence[AlertRow], n_members: int) -> str:
    """`3 data-pull-straggler, 1 daemon-paused`: which signals an incident rests on, the most frequent first."""
    counted = Counter(member.query for member in members).most_common()
    told = ", ".join(f"{n} {inert(query, 60)}" for query, n in counted)
    return told if n_members == len(members) else f"among its first {len(members)} alerts {told}"


def select(
    alerts: Sequence[AlertRow], key: str, label: str, behind: Mapping[str, tuple[list[AlertRow], int]] | None = None
) -> list[AlertRow]:
    """Show the list; returns the alerts that are selected. `behind`: of incidents, by their ids, the first alerts and
    how many there are."""
    until_ms = present_ms()
    members = behind or {}
    names = _job_names(chain(alerts, chain.from_iterable(found for found, _ in members.values())))
    rows = [listed(alert, until_ms, *members.get(alert.id, ([], 0)), job_names=names) for alert in alerts]
    selected = set(alert_list(widget_key(key), label, rows, selectable=True))
    return [alert for alert in alerts if alert.id in selected]


def show(alerts: Sequence[AlertRow], key: str, label: str = "Alerts") -> None:
    """The list, nothing to be selected."""
    until_ms = present_ms()
    names = _job_names(alerts)
    alert_list(key, label, [listed(alert, until_ms, job_names=names) for alert in alerts], selectable=False)


def widget_key(key: str) -> str:
    """The list's name: its place on the page, and how often its selection was cleared."""
    return f"{key}-{st.session_state.get(_cleared(key), 0)}"


def selected_ids(key: str) -> list[str]:
    """What is selected in the list of this place."""
    return selected_in(widget_key(key))


def clear_selection(key: str) -> None:
    """Show the list anew, nothing selected."""
    st.session_state[_cleared(key)] = st.session_state.get(_cleared(key), 0) + 1


def page_at(store: Store, wanted: AlertFilter, name: str) -> ShownPage:
    """The page whose place is in the URL under `name`; the first one where there is none. The latest first."""
    place = page_start_in_url(name)
    found = store.alert_page(wanted, after=place.after, before=place.before)
    first: int | None = 1
    if found.alerts and (place.after is not None or place.before is not None):
        top = found.alerts[0]
        n_before = store.n_before(wanted, Cursor(top.start_ms, top.id), MAX_OFFSET)
        first = None if n_before is None else n_before + 1
    return ShownPage(found.alerts, first, _place("after", found.next), _place("before", found.previous))


def urgent_page_at(store: Store, wanted: AlertFilter, name: str) -> ShownPage:
    """The same of what is open: the most urgent first."""
    offset = page_start_in_url(name).offset
    found = store.urgent_alerts(replace(wanted, offset=offset, limit=wanted.limit + 1))
    follows = len(found) > wanted.limit and offset + wanted.limit <= MAX_OFFSET  # no place in the URL lies further
    following = f"from.{offset + wanted.limit}" if follows else ""
    previous = f"from.{max(0, offset - wanted.limit)}" if offset else ""
    return ShownPage(tuple(found[: wanted.limit]), offset + 1, following, previous)


def range_text(page: ShownPage, n: int, exact: bool) -> str:
    """`1 to 50 of 157`."""
    last = (page.first or 1) + len(page.alerts) - 1
    n = max(n, last)  # counted before the page was read
    of = f"{n:,}" if exact else f"more than {n:,}"
    return f"{last:,} of {of}" if page.first is None else f"{page.first:,} to {last:,} of {of}"


def pager(page: ShownPage, name: str, told: str) -> None:
    """Which of how many, and the pages beside it, where there are any."""
    if not (page.previous or page.next):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(told, width="content")
        if st.button("Previous", icon=":material/chevron_left:", disabled=not page.previous, key=f"{name}-newer"):
            _to(name, page.previous)
        if st.button(
            "Next", icon=":material/chevron_right:", icon_position="right", disabled=not page.next, key=f"{name}-older"
        ):
            _to(name, page.next)
        if page.previous and st.button("First", key=f"{name}-newest", type="tertiary"):
            _to(name, "")


def page_start_in_url(name: str) -> PageStart:
    """`?NAME=after.1700000000000.ID` or `from.50`; the first page for what is not of these forms."""
    direction, _, rest = st.query_params.get(name, "").partition(".")
    if direction == "from":
        is_number = rest.isascii() and rest.isdigit() and len(rest) <= 6
        return PageStart(offset=min(int(rest), MAX_OFFSET) if is_number else 0)
    start, _, alert_id = rest.partition(".")
    digits = start.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15 and 0 < len(alert_id) <= 64):
        return PageStart()
    cursor = Cursor(int(start), alert_id)
    return PageStart(after=cursor) if direction == "after" else PageStart(before=cursor)


def _place(direction: str, cursor: Cursor | None) -> str:
    return "" if cursor is None else f"{direction}.{cursor.start_ms}.{cursor.id}"


def _to(name: str, place: str) -> None:
    if place:
        st.query_params[name] = place
    else:
        st.query_params.pop(name, None)
    st.rerun()


def _cleared(key: str) -> str:
    return f"{key}-cleared"
