"""Silences and maintenance windows: those that are not over, a form for a new one, and what it would hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.alerting.people import Role
from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard import login, times
from dashboard.alerts.actions import DURATIONS_MS, tell
from dashboard.alerts.words import n_alerts
from dashboard.on_demand import on_demand
from dashboard.store import (
    MAX_NOTE_CHARS,
    AppError,
    SilenceChangeRow,
    SilenceEdit,
    SilenceRow,
    edit_silence,
    end_silence,
    hidden_by,
    interval_section,
    now_ms,
    read_matchers,
    settings,
    silence_matching,
    silence_text,
    silencing,
    stands,
    store,
)
from dashboard.text import inert, md

MAX_SILENCES = 100
MAX_PREVIEWED = 20
MAX_CHANGES = 20
MAX_MATCHERS_CHARS = 4_000
STARTS_MS = {
    "now": 0,
    "in 30 min": 30 * MINUTE_MS,
    "in 1 h": HOUR_MS,
    "in 8 h": 8 * HOUR_MS,
    "in 1 day": DAY_MS,
    "in 1 week": 7 * DAY_MS,
}
ALL_THE_TIME = "all the time"


def show() -> None:
    """The silences that are not over; for who may act also what can be done to each, and a form for a new one.

    Whether somebody may is asked again where it is done.
    """
    at_ms = now_ms()
    known = store().silences(at_ms)
    may_act = login.person().role.rank >= Role.OPERATOR.rank

    def opened() -> None:
        _listed(known, at_ms, may_act=may_act)
        if may_act:
            _new()

    on_demand(f"Silences: {len(known):,}", "silences", opened, icon=":material/notifications_off:")


def _listed(known: Sequence[SilenceRow], at_ms: int, *, may_act: bool) -> None:
    if not known:
        how = " Select alerts above to silence their queries and keys for some time." if may_act else ""
        st.caption(f"No silences.{how}")
        return
    shown = known[:MAX_SILENCES]
    changes = store().silence_changes([row.id for row in shown])
    for row in shown:
        with st.container(horizontal=True, vertical_alignment="center", key=f"silence-{row.id}"):
            with st.container():
                st.markdown(f"**{md(silence_text(row), 500)}** {stands(row, at_ms)}")
                reason = f"“{md(row.reason)}”, " if row.reason else ""
                recurs = ", at its times only" if row.recurrence else ""
                begins = f" from {times.shown(row.starts_ms)}" if row.starts_ms > at_ms else ""
                left = times.duration(row.until_ms - at_ms)
                until = f"until {times.shown(row.until_ms)} (for {left} more)"
                st.caption(f"{reason}by {md(row.actor)},{begins} {until}{recurs}")
            if len(history := changes.get(row.id, ())) > 1:  # that it was made stands beside it
                with st.popover("History", icon=":material/history:"):
                    _history(history)
            if not may_act:
                continue
            with st.popover("Change", icon=":material/edit:"):
                _change(row)
            if st.button("End now", icon=":material/notifications:", key=f"end-silence-{row.id}"):
                tell(*_end(row))
                st.rerun()
    if len(known) > MAX_SILENCES:
        st.caption(f"And {len(known) - MAX_SILENCES:,} more.")


def _history(changes: Sequence[SilenceChangeRow]) -> None:
    """Who did what to it, the latest first."""
    for change in reversed(changes[-MAX_CHANGES:]):
        st.markdown(f"{times.shown(change.at_ms)}, {md(change.actor)}: {md(change.what, 2_000)}")
    if len(changes) > MAX_CHANGES:
        st.caption(f"And {len(changes) - MAX_CHANGES:,} before.")


def _change(row: SilenceRow) -> None:
    with st.form(f"change-silence-{row.id}", border=False):
        shown = silence_text(row)
        longest = max(MAX_MATCHERS_CHARS, len(shown))
        matchers = st.text_input("Matchers", value=shown, max_chars=longest, key=f"change-matchers-{row.id}")
        note = st.text_input("Comment", value=row.reason, max_chars=MAX_NOTE_CHARS, key=f"change-note-{row.id}")
        longer = st.selectbox("Ends", ["as before", *DURATIONS_MS], key=f"change-length-{row.id}", help="From now on.")
        if not st.form_submit_button("Change", key=f"change-{row.id}"):
            return
    at_ms = now_ms()
    try:
        changed = None if matchers == shown else read_matchers([matchers])
        ends_ms = at_ms + DURATIONS_MS[longer] if longer in DURATIONS_MS else None
        edit = SilenceEdit(matchers=changed, ends_ms=ends_ms, note=inert(note, MAX_NOTE_CHARS))
        edit_silence(store(), row.id, edit, login.person(), at_ms)
        tell("The silence is changed.", [])
    except AppError as error:
        tell("", [str(error)])
    st.rerun()


def _new() -> None:
    intervals = {interval.name: interval for interval in settings().alerting.all_time_intervals}
    with st.form("new-silence", border=True, enter_to_submit=False):
        matchers = st.text_input(
            "Silence all alerts that match", max_chars=MAX_MATCHERS_CHARS, key="new-silence-matchers",
            placeholder='alertname="node-lost", host=~"node[1-4]"',
            help="As in Alertmanager: = != =~ !~ over labels. All have to be fulfilled.",
        )  # fmt: skip
        note = st.text_input("Comment", max_chars=MAX_NOTE_CHARS, key="new-silence-note")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            start = st.selectbox("Begins", list(STARTS_MS), key="new-silence-start", width=130)
            length = st.selectbox("For", list(DURATIONS_MS), index=2, key="new-silence-length", width=110)
            during = ALL_THE_TIME
            if intervals:
                during = st.selectbox("Holds", [ALL_THE_TIME, *intervals], key="new-silence-during", width=160)
            preview = st.form_submit_button("Preview", icon=":material/visibility:", key="new-silence-preview")
            made = st.form_submit_button("Silence", icon=":material/notifications_off:", key="new-silence-make")
    if not (preview or made):
        return
    at_ms = now_ms()
    starts_ms = at_ms + STARTS_MS[start]
    chosen = intervals.get(during)
    recurrence: list[dict[str, Any]] = []
    if chosen is not None:
        recurrence = [interval_section(interval) for interval in chosen.time_intervals]
    try:
        wanted = silencing(read_matchers([matchers]), starts_ms, starts_ms + DURATIONS_MS[length], recurrence, at_ms)
        if made:
            n = silence_matching(store(), wanted, login.person(), inert(note, MAX_NOTE_CHARS), at_ms)
            tell(f"Made 1 silence for {length}: {n_alerts(n, exact=True)} silenced.", [])
            st.rerun()
        hidden = hidden_by(store(), wanted.matchers)
    except AppError as error:
        st.warning(f"Not done: {md(error, 500)}", icon=":material/block:")
        return
    listed = "".join(f"\n- {md(alert.summary, 200)}" for alert in hidden[:MAX_PREVIEWED])
    more = f"\n- and {len(hidden) - MAX_PREVIEWED:,} more" if len(hidden) > MAX_PREVIEWED else ""
    st.info(f"It would hide {n_alerts(len(hidden), exact=True)} of those that are not over.{listed}{more}")


def _end(row: SilenceRow) -> tuple[str, list[str]]:
    try:
        end_silence(store(), row.id, login.person(), now_ms())
    except AppError as error:
        return "", [str(error)]
    return f"The silence of {silence_text(row)} is over.", []


__all__ = ["show"]
