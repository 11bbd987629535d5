"""What a page has below its first screen: made, sent and drawn when it is scrolled to.

To draw a chart takes a browser a quarter of a second and more, and of a page's dozen a viewer sees the first ones.
Text, tables and whatever is searched for on a page do not belong here.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard.components.sight import watched_place

AROUND_PX = 90
"""What axes and a legend take besides a chart's own height."""

_SEEN = "seen-places"


@st.fragment
def on_sight(key: str, height_px: int, show: Callable[[], object]) -> None:
    """What `show` makes, once its place, of about `height_px`, comes near the window; nothing else of the page runs
    again for that.

    It is there at once when the page is shown anew. `key` tells it from all else of this viewer: it names what the page
    is about.
    """
    with st.container():  # one place, whatever stands there
        if was_seen(key):
            show()
        else:
            watched_place(f"unseen-{key}", height_px, lambda: _seen().add(key))


def was_seen(key: str) -> bool:
    """Whether this viewer has had it before the eyes."""
    return key in _seen()


def _seen() -> set[str]:
    found: set[str] = st.session_state.setdefault(_SEEN, set())
    return found


__all__ = ["AROUND_PX", "on_sight", "was_seen"]
