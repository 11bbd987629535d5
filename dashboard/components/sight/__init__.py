"""Tells the page when a place of it is scrolled to.

The browser alone knows; it tells the server once, which then makes and sends what belongs there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

_FOLDER = Path(__file__).parent
_SCRIPT = _FOLDER / "script/sight.js"
_PACKAGE, _NAME = "clustercep-sight", "sight"


def watched_place(key: str, height_px: int, on_seen: Callable[[], None]) -> None:
    """A place of this height that calls `on_seen`, before the page or its fragment runs again, once it is seen."""
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(f"{_PACKAGE}.{_NAME}") is None:  # as the list of alerts: from an address
        component = ComponentConfig(_NAME, _SCRIPT.parent.name)
        manager.register_from_manifest(ComponentManifest(_PACKAGE, "1", [component]), _FOLDER)
    _component()(key=key, data={"height": height_px}, on_seen_change=on_seen, width="stretch", height=height_px)


@cache
def _component() -> Any:
    return st.components.v2.component(
        f"{_PACKAGE}.{_NAME}",
        html='<div class="clustercep-unseen"></div>',
        css=(_FOLDER / "sight.css").read_text(encoding="utf-8"),
        js=_SCRIPT.name,
        isolate_styles=False,
    )


__all__ = ["watched_place"]
