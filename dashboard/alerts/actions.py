"""Acknowledge, silence, assign, close, for one alert or several at once; what came of it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.alerting.operations import MAX_ACTOR_CHARS
from app.alerting.people import Role
from app.store.states import OPEN_STATES
from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard import login, times
from dashboard.alerts.words import n_alerts
from dashboard.store import (
    MAX_NOTE_CHARS,
    AlertRow,
    AppError,
    acknowledge,
    assign,
    close,
    now_ms,
    silence,
    store,
    unacknowledge,
)
from dashboard.text import inert, md

DURATIONS_MS = {
    "30 min": 30 * MINUTE_MS,
    "1 h": HOUR_MS,
    "2 h": 2 * HOUR_MS,
    "8 h": 8 * HOUR_MS,
    "1 day": DAY_MS,
    "3 days": 3 * DAY_MS,
    "1 week": 7 * DAY_MS,
}

UNTIL_OVER = "until it is over"
NOBODY = "-"
OPEN = set(OPEN_STATES)

_TOLD = "alert-actions-told"


def offer(alerts: Sequence[AlertRow], key: str) -> bool:
    """A form for these alerts; True when something was done, so that the caller shows the new state.

    Whether somebody may is asked again where it is done.
    """
    if login.person().role.rank < Role.OPERATOR.rank:
        st.caption(":material/visibility: You may look. To acknowledge, assign, close and silence needs an operator.")
        return False
    states = {alert.state for alert in alerts}
    with st.form(f"{key}-actions", border=True, enter_to_submit=False):
        note = st.text_input(
            "Comment",
            max_chars=MAX_NOTE_CHARS,
            placeholder="Why, and what you are doing about it",
            key=f"{key}-note",
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            acknowledged = st.form_submit_button(
                "Acknowledge", icon=":material/how_to_reg:", type="primary", key=f"{key}-acknowledge",
                disabled="firing" not in states,
                help="Somebody looks after it. Messages of it stop, the alert stays in the list.",
            )  # fmt: skip
            ack_length = st.selectbox(
                "Acknowledge for", [UNTIL_OVER, *DURATIONS_MS], key=f"{key}-ack-length", label_visibility="collapsed",
                width=160,
            )  # fmt: skip
            silenced = st.form_submit_button(
                "Silence for", icon=":material/notifications_off:", key=f"{key}-silence",
                help="No messages of these queries and keys for that time; their new alerts are silenced too.",
            )  # fmt: skip
            length = st.selectbox(
                "Silence for", list(DURATIONS_MS), index=2, key=f"{key}-length", label_visibility="collapsed", width=110
            )
        every_key = st.checkbox(
            "Silence the whole query, whatever the job, task or host", key=f"{key}-every",
            help="Else only alerts with the same job, task or host as the chosen ones.",
        )  # fmt: skip
        with st.container(horizontal=True, vertical_alignment="bottom"):
            assigned = st.form_submit_button(
                "Assign to", icon=":material/person:", key=f"{key}-assign", disabled=not states & OPEN,
                help="Whose it is to look after. Nobody is told.",
            )  # fmt: skip
            to = st.text_input(
                "Assign to", max_chars=MAX_ACTOR_CHARS, key=f"{key}-to", label_visibility="collapsed", width=200,
                placeholder="me; - for nobody",
            )  # fmt: skip
            taken_back = st.form_submit_button(
                "Acknowledge no longer", icon=":material/undo:", key=f"{key}-unacknowledge",
                disabled="acknowledged" not in states, help="It fires, and is told again.",
            )  # fmt: skip
            closed = st.form_submit_button(
                "Close", icon=":material/done_all:", key=f"{key}-close", disabled=not states & OPEN,
                help="It is over, whatever its query says. With a further match it fires again.",
            )  # fmt: skip
    by, said, at_ms = login.person(), inert(note, MAX_NOTE_CHARS), now_ms()
    if acknowledged:
        for_ms = DURATIONS_MS.get(ack_length)
        _each("Acknowledged", alerts, lambda alert: acknowledge(store(), alert, by, said, at_ms, for_ms=for_ms))
    elif silenced:
        tell(*_silence(alerts, DURATIONS_MS[length], note, every_key=every_key))
    elif assigned:
        name = None if to.strip() == NOBODY else inert(to, MAX_ACTOR_CHARS).strip() or by.name
        _each("Assigned", alerts, lambda alert: assign(store(), alert, name, by, said, at_ms))
    elif taken_back:
        _each("Fires again:", alerts, lambda alert: unacknowledge(store(), alert, by, said, at_ms))
    elif closed:
        _each("Closed", alerts, lambda alert: close(store(), alert, by, said, at_ms))
    return acknowledged or silenced or assigned or taken_back or closed


def tell_results() -> None:
    """What the last action came to; shown by the run after it."""
    done, refused = st.session_state.pop(_TOLD, ("", []))
    if done:
        st.success(md(done, 500), icon=":material/check:")
    if refused:
        listed = "\n".join(f"- {md(reason, 300)}" for reason in refused[:10])
        more = f"\n- and {len(refused) - 10} more" if len(refused) > 10 else ""
        st.warning(f"Not done:\n{listed}{more}", icon=":material/block:")


def _each(done: str, alerts: Sequence[AlertRow], do: Callable[[str], None]) -> None:
    refused, n_done = [], 0
    for alert in alerts:
        try:
            do(alert.id)
            n_done += 1
        except AppError as error:
            refused.append(str(error))
    tell(f"{done} {n_alerts(n_done, exact=True)}." if n_done else "", refused)


def _silence(alerts: Sequence[AlertRow], duration_ms: int, note: str, *, every_key: bool) -> tuple[str, list[str]]:
    """One silence per query and key: several alerts of one episode's subject need no two."""
    subjects = {(alert.query, "" if every_key else alert.key_text): alert for alert in alerts}
    refused, n_done, n_silenced = [], 0, 0
    for alert in subjects.values():
        try:
            n_silenced += silence(
                store(), alert.id, duration_ms, login.person(), inert(note, MAX_NOTE_CHARS), now_ms(),
                every_key=every_key,
            )  # fmt: skip
            n_done += 1
        except AppError as error:
            refused.append(str(error))
    what = "1 silence" if n_done == 1 else f"{n_done:,} silences"
    return (
        f"Made {what} for {times.duration(duration_ms)}: {n_alerts(n_silenced, exact=True)} silenced." if n_done else ""
    ), refused


def tell(done: str, refused: list[str]) -> None:
    """Have the next run say what came of an action."""
    st.session_state[_TOLD] = (done, refused)
