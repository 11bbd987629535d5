"""A chart on the page.

Streamlit has Altair check each part of a chart against the schema of Vega-Lite whenever a page is shown: most of what a
chart costs. Here nothing is checked; tests look at what the code of each chart makes.
"""

from __future__ import annotations

import threading
from typing import Any, Literal

import altair as alt
import streamlit as st
from altair.utils import schemapi
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.state.common import WidgetCallback

_TRANSFORMER = "frames_by_name"
_altair = threading.Lock()
"""What it is set to is set for all threads, and each viewer has one."""

schemapi.disable_debug_mode()  # parts are not checked when they are made either


def draw(
    chart: alt.TopLevelMixin | dict[str, Any],
    *,
    alt: str,
    place: DeltaGenerator | None = None,
    key: str | None = None,
    on_select: Literal["ignore", "rerun"] | WidgetCallback = "ignore",
    selection_mode: str | None = None,
) -> None:
    """Show a chart (or its `specification`) as wide as its place, by default the page; `alt` says what it shows."""
    (place or st).vega_lite_chart(
        spec=chart if isinstance(chart, dict) else specification(chart),
        width="stretch",
        key=key,
        on_select=on_select,
        selection_mode=selection_mode,
        alt=alt,
    )


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Vega-Lite's, with the frames themselves under `datasets`, named by their order."""
    frames: list[Any] = []
    with _altair, alt.theme.enable("none"), alt.data_transformers.enable(_TRANSFORMER, frames=frames):
        found: dict[str, Any] = chart.to_dict(validate=False)
    found["datasets"] = {_name(index): frame for index, frame in enumerate(frames)}
    return found


def _by_name(data: Any, frames: list[Any]) -> dict[str, str]:
    index = next((index for index, frame in enumerate(frames) if frame is data), len(frames))
    if index == len(frames):
        frames.append(data)
    return {"name": _name(index)}


def _name(index: int) -> str:
    return f"frame-{index}"


alt.data_transformers.register(_TRANSFORMER, _by_name)

__all__ = ["draw", "specification"]
