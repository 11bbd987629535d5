"""Alerts as rows of text that wraps: one click opens, arrow keys walk, Enter opens, what is behind an incident folds.

Streamlit's table is a picture of fixed columns, in which titles are cut and a click only selects. All text travels as
data and never becomes markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

_FOLDER = Path(__file__).parent
_SCRIPT = _FOLDER / "script/list.js"
_PACKAGE, _NAME = "clustercep-alerts", "alert_list"


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
    _serve_script()
    data: dict[str, Any] = {
        "label": label,
        "selectable": selectable,
        "selected": selected_in(key),
        "rows": [asdict(alert) for alert in alerts],
    }
    _component()(key=key, data=data, default={"selected": []}, on_selected_change=_nothing, width="stretch")
    return selected_in(key)


def selected_in(key: str) -> list[str]:
    """The ids that are selected in the list of this key."""
    state = st.session_state.get(key)
    found = state.get("selected") if state is not None else None
    return [alert_id for alert_id in found if isinstance(alert_id, str)] if isinstance(found, list) else []


def _nothing() -> None:
    """Streamlit wants a callback for every value that a component has."""


def _serve_script() -> None:
    """As the query editor's: from an address, as our pages run nothing of a `blob:`."""
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(f"{_PACKAGE}.{_NAME}") is None:
        component = ComponentConfig(_NAME, _SCRIPT.parent.name)
        manager.register_from_manifest(ComponentManifest(_PACKAGE, "1", [component]), _FOLDER)


@cache
def _component() -> Any:
    return st.components.v2.component(
        f"{_PACKAGE}.{_NAME}",
        html='<div class="clustercep-alerts"></div>',
        css=(_FOLDER / "list.css").read_text(encoding="utf-8"),
        js=_SCRIPT.name,
        isolate_styles=False,  # so that what is searched for in the page is found in its rows
    )


__all__ = ["ListedAlert", "alert_list", "selected_in"]
