"""What stands beside every page: whether the process that watches is alive, and how much fires."""

from __future__ import annotations

import streamlit as st

from dashboard import login, times
from dashboard.looks import ICONS, SEVERITIES
from dashboard.store import AppError, ProcessStatusRow, now_ms, settings, store

ALIVE_MS = 60_000
"""A live process writes its status every few seconds, also when nothing happens."""


def show() -> None:
    """The sidebar below the menu."""
    with st.sidebar:
        _status()
        if settings().dashboard.login:
            st.caption("Logged in as")
            st.text(login.actor())
            st.button("Log out", icon=":material/logout:", type="tertiary", on_click=st.logout)
        st.caption(f"Times are in {times.zone().key}.")


@st.fragment(run_every=15)
def _status() -> None:
    try:
        n_open, process = store().n_open_alerts(), store().process_status()
    except AppError:
        st.badge("store cannot be read", icon=":material/error:", color="red")
        return
    firing = [(severity, n_open.get(("firing", severity), 0)) for severity in SEVERITIES]
    with st.container(border=True):
        _firing(firing)
        _process(process, now_ms())


def _firing(firing: list[tuple[str, int]]) -> None:
    if not any(n for _, n in firing):
        st.markdown(":material/check_circle: **Nothing fires**")
        return
    st.markdown(f"**{sum(n for _, n in firing):,} firing**")
    for severity, n in firing:
        if n:
            st.markdown(f"{ICONS[severity]} {n:,} {severity}")


def _process(process: ProcessStatusRow | None, at_ms: int) -> None:
    if process is None:
        st.caption(
            ":material/help: No process has told its state yet; `clustercep run` does.",
            help="A replayed store has none.",
        )
        return
    age_ms = at_ms - process.updated_ms
    if age_ms <= ALIVE_MS:
        st.caption(":material/favorite: Watching: `clustercep run` is alive.")
        return
    last = times.ago(process.updated_ms, at_ms)
    st.caption(
        f":material/heart_broken: **Nobody watches.** `clustercep run` last wrote {last}; this is how it was then."
    )
