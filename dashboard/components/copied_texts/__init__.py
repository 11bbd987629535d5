"""Texts to copy, each with its button. Streamlit's `st.code` loads the grammars of all languages for that.

All text travels as data and never becomes markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

_FOLDER = Path(__file__).parent
_SCRIPT = _FOLDER / "script/copy.js"
_PACKAGE, _NAME = "clustercep-copy", "copied_texts"


@dataclass(frozen=True, slots=True)
class CopiedText:
    """`label` stands above it, if there is one; `name` says what the button copies."""

    name: str
    text: str
    label: str = ""


def copied_texts(key: str, texts: Sequence[CopiedText]) -> None:
    """The texts, one below the other; long ones are scrolled."""
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(f"{_PACKAGE}.{_NAME}") is None:  # as the list of alerts: from an address
        component = ComponentConfig(_NAME, _SCRIPT.parent.name)
        manager.register_from_manifest(ComponentManifest(_PACKAGE, "1", [component]), _FOLDER)
    _component()(key=key, data={"texts": [asdict(text) for text in texts]}, width="stretch")


@cache
def _component() -> Any:
    return st.components.v2.component(
        f"{_PACKAGE}.{_NAME}",
        html='<div class="clustercep-copied"></div>',
        css=(_FOLDER / "copy.css").read_text(encoding="utf-8"),
        js=_SCRIPT.name,
        isolate_styles=False,  # so that what is searched for in the page is found
    )


__all__ = ["CopiedText", "copied_texts"]
