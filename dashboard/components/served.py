"""A component of ours whose script has an address: a text would be loaded from a `blob:`, from which our pages may run
nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

SCRIPTS = "script"
"""The folder in a component's folder that is served."""


@dataclass(frozen=True, slots=True)
class ServedComponent:
    """What of a component lies in `folder`: `script/STEM.js` and `STEM.css`.

    package, name: by which Streamlit knows it. html: what its script fills. isolated: its style is its own, and what is
    searched for in the page is not found in it.
    """

    folder: Path
    stem: str
    package: str
    name: str
    html: str
    isolated: bool = True

    @property
    def full_name(self) -> str:
        """Of all components of the server."""
        return f"{self.package}.{self.name}"

    def __call__(self, **given: Any) -> Any:
        """Put it on the page; takes and returns what Streamlit's components do. A server that does not know it yet is
        told where its script is."""
        manager = get_bidi_component_manager()
        if manager.get_component_asset_root(self.full_name) is None:
            manifest = ComponentManifest(self.package, "1", [ComponentConfig(self.name, SCRIPTS)])
            manager.register_from_manifest(manifest, self.folder)
        return _registered(self)(**given)


@cache
def _registered(served: ServedComponent) -> Any:
    return st.components.v2.component(
        served.full_name,
        html=served.html,
        css=(served.folder / f"{served.stem}.css").read_text(encoding="utf-8"),
        js=f"{served.stem}.js",
        isolate_styles=served.isolated,
    )


def nothing() -> None:
    """Streamlit wants a callback for every value that a component has."""


__all__ = ["ServedComponent", "nothing"]
