"""Alerts as rows of text that wraps: one click opens, arrow keys walk, Enter opens, what is behind an incident folds.

Streamlit's table is a picture of fixed columns, in which titles are cut and a click only selects. All text travels as
data and never becomes markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.components.served import ServedComponent, nothing

_LIST = ServedComponent(
    Path(__file__).parent,
    "list",
    "clustercep-alerts",
    "alert_list",
    '<div class="clustercep-alerts"></div>',
    isolated=False,  # so that what is searched for in the page is found
)


@dataclass(frozen=True, slots=True)
class ListedAlert:
    """What one row says. `url` is relative to the page; `behind`: of an incident."""

    id: str
    url: str
    severity: str
    severity_sign: str
    state: str
    title: str
    whole_title: str
    facts: tuple[str, ...]
    """Below the title."""
    began: str
    lasted: str
    n_behind: str = ""
    """`3 alerts behind it`; empty where nothing is."""
    behind: tuple[ListedAlert, ...] = field(default=())
    more_behind: str = ""
    """What is said of those that are not listed."""


def alert_list(key: str, label: str, alerts: Sequence[ListedAlert], *, selectable: bool) -> list[str]:
    """The list; returns the ids that are selected. A new key is a new list without a selection."""
    data: dict[str, Any] = {
        "label": label,
        "selectable": selectable,
        "selected": selected_in(key),
        "rows": [asdict(alert) for alert in alerts],
    }
    _LIST(key=key, data=data, default={"selected": []}, on_selected_change=nothing, width="stretch")
    return selected_in(key)


def selected_in(key: str) -> list[str]:
    """The ids that are selected in the list of this key."""
    state = st.session_state.get(key)
    found = state.get("selected") if state is not None else None
    return [alert_id for alert_id in found if isinstance(alert_id, str)] if isinstance(found, list) else []


__all__ = ["ListedAlert", "alert_list", "selected_in"]
