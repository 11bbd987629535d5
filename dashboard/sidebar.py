"""What stands beside every page: whether the process that watches is alive, and how much fires."""

from __future__ import annotations

import streamlit as st

from dashboard import login, times
from dashboard.events.source import history_only
from dashboard.looks import ICONS, SEVERITIES
from dashboard.store import AppError, Watch, now_ms, store, watched
from dashboard.store import settings as read_settings


def show() -> None:
    """The sidebar below the menu."""
    with st.sidebar:
        _status()
        if read_settings().dashboard.login:
            somebody = login.person()
            st.caption(f"Logged in as {somebody.role}")
            st.text(somebody.name)
            st.button("Log out", icon=":material/logout:", type="tertiary", on_click=st.logout)
        st.caption(f"Times are in {times.zone().key}.")


@st.fragment(run_every=15)
def _status() -> None:
    try:
        if history_only():
            st.caption(":material/inventory_2: Only history is known here: nothing is watched.")
            return
        n_open, watch = store().n_open_alerts(), watched(store(), now_ms())
    except AppError:
        st.badge("store cannot be read", icon=":material/error:", color="red")
        return
    firing = [
        (severity, sum(n_open.get(("firing", silenced, severity), 0) for silenced in (False, True)))
        for severity in SEVERITIES
    ]
    n_silenced = sum(n for (state, silenced, _), n in n_open.items() if silenced and state == "firing")
    with st.container(border=True):
        _firing(firing, n_silenced, watch)
        _watch(watch)


def _firing(firing: list[tuple[str, int]], n_silenced: int, watch: Watch) -> None:
    n_firing = sum(n for _, n in firing)
    if not n_firing:
        if watch.is_known and watch.is_alive:
            st.markdown(":material/check_circle: **Nothing fires**")
        elif watch.as_of_ms is None or watch.is_alive:
            st.markdown(":material/help: **State unknown**")
        else:
            icon = "history" if watch.is_known else "help"
            st.markdown(f":material/{icon}: **Nothing fired at {times.shown(watch.as_of_ms)}**")
        return
    st.markdown(f"**{n_firing:,} firing**{f', {n_silenced:,} of them silenced' if n_silenced else ''}")
    for severity, n in firing:
        if n:
            st.markdown(f"{ICONS[severity]} {n:,} {severity}")


def _watch(watch: Watch) -> None:
    if watch.written_ms is None:
        st.caption(":material/help: No process has told its state yet; `clustercep run` does.")
    elif watch.is_replay:
        st.caption(f":material/history: A recording, as of {times.shown(watch.written_ms)}. Nothing is watched now.")
    elif not watch.is_alive:
        last = times.ago(watch.written_ms, watch.now_ms)
        st.caption(
            f":material/heart_broken: **Nobody watches.** State unknown since {times.shown(watch.written_ms)}: "
            f"`clustercep run` last wrote {last}."
        )
    elif watch.unpolled:
        st.caption(f":material/warning: `clustercep run` is alive, but {len(watch.unpolled)} sources were not polled.")
    else:
        st.caption(":material/favorite: Watching: `clustercep run` is alive.")
