"""Tells the page when a place of it is scrolled to.

The browser alone knows; it tells the server once, which then makes and sends what belongs there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dashboard.components.served import ServedComponent

_PLACE = ServedComponent(
    Path(__file__).parent, "sight", "clustercep-sight", "sight", '<div class="clustercep-unseen"></div>', isolated=False
)


def watched_place(key: str, height_px: int, on_seen: Callable[[], None]) -> None:
    """A place of this height that calls `on_seen`, before the page or its fragment runs again, once it is seen."""
    _PLACE(key=key, data={"height": height_px}, on_seen_change=on_seen, width="stretch", height=height_px)


__all__ = ["watched_place"]
