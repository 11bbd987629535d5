"""How severities and states look everywhere: each has a sign and a word, so that none is told by colour alone."""

from __future__ import annotations

from typing import Literal

BadgeColor = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]

SEVERITIES = ("critical", "warning", "info")
"""The most urgent first."""

STATES = ("firing", "acknowledged", "silenced", "resolved")
OPEN_STATES = STATES[:3]

SIGNS = {
    "critical": "▲",
    "warning": "◆",
    "info": "●",
    "firing": "⚑",
    "acknowledged": "✓",
    "silenced": "◌",
    "resolved": "○",
}

COLORS = {"critical": "#c4314b", "warning": "#b7791f", "info": "#3b7dbf"}
"""Readable on light and dark ground."""

BADGES: dict[str, BadgeColor] = {
    "critical": "red",
    "warning": "orange",
    "info": "blue",
    "firing": "red",
    "acknowledged": "violet",
    "silenced": "gray",
    "resolved": "green",
}

ICONS = {
    "critical": ":material/error:",
    "warning": ":material/warning:",
    "info": ":material/info:",
    "firing": ":material/notifications_active:",
    "acknowledged": ":material/how_to_reg:",
    "silenced": ":material/notifications_off:",
    "resolved": ":material/check_circle:",
}


def signed(word: str) -> str:
    """A severity or state with its sign: `▲ critical`; other words stay as they are."""
    return f"{SIGNS[word]} {word}" if word in SIGNS else word


def styled(cell: object) -> str:
    """CSS of a table's cell that holds a signed severity."""
    color = COLORS.get(str(cell).rsplit(" ", maxsplit=1)[-1])
    return f"color: {color}; font-weight: 600" if color else ""
