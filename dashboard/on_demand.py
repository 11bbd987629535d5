"""What a page has below a heading that is closed: made and sent when somebody opens it."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st


@st.fragment
def on_demand(label: str, key: str, show: Callable[[], object], *, icon: str | None = None) -> None:
    """A closed expander whose content `show` makes; nothing else of the page runs again when it is opened.

    It stays open when its label changes, as with a number in it: to Streamlit that is another expander.
    """
    before, known = f"{key}-before", st.session_state
    if known.get(before) not in (None, label):
        known[key] = True
    with st.expander(label, key=key, icon=icon, on_change="rerun") as place:
        known[before] = label if place.open else None
        if place.open:
            show()


__all__ = ["on_demand"]
