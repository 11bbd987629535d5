"""The line above pages that speak of the present: since when the state is unknown, or that it is a recording's."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import links
from dashboard.store import AppError, now_ms, store, unknown_text, watched
from dashboard.text import md
from dashboard.times import shown

REFRESH_S = 15


@st.fragment(run_every=REFRESH_S)
def show() -> None:
    """Nothing where all is known, nor where the store cannot be read: the page below says that."""
    try:
        watch, is_of_demo = watched(store(), now_ms()), is_demo()
    except AppError:
        return
    if watch.is_replay:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f":material/history: A recording, as of {shown(watch.as_of_ms)}: nothing is watched now.")
            if is_of_demo:
                links.link("demo", "What the demo found", icon=":material/play_circle:")
    elif (text := unknown_text(watch, shown)) is not None:
        st.warning(md(text, 1_000), icon=":material/help:")


def present_ms() -> int:
    """Until when what still fires has lasted: now, or the time of the recording that filled the store."""
    watch = watched(store(), now_ms())
    return watch.as_of_ms if watch.is_replay and watch.as_of_ms is not None else now_ms()


def demo_verdict() -> dict[str, Any] | None:
    """How the demo judged the recording that this store was filled from; None for any other store."""
    replayed = store().replay_status()
    if replayed is None or not watched(store(), now_ms()).is_replay:
        return None
    verdict = replayed.value.get("demo")
    return verdict if isinstance(verdict, dict) else None


def is_demo() -> bool:
    """Whether the demo filled the store; False where it cannot be read, which the pages tell."""
    try:
        return demo_verdict() is not None
    except AppError:
        return False
