"""How severities and states look everywhere: each has a sign and a word, so that none is told by colour alone."""

from __future__ import annotations

from typing import Literal

from app.settings import Severity
from app.store.states import OPEN_STATES, SILENCED

BESIDE = "beside"
"""Key of a container whose columns stand beneath each other where they would be too narrow to be read."""

STYLE = f"""<style>
.st-key-{BESIDE} [data-testid="stColumn"] {{ min-width: min(100%, 22rem); }}
button[kind^="primary"]:not(:disabled) {{ background-color: #1f5f99; border-color: #1f5f99; color: #ffffff; }}
button[kind^="primary"]:not(:disabled):hover {{ background-color: #2f78bd; border-color: #2f78bd; }}
</style>"""
"""Primary buttons, those of forms, too (`primaryFormSubmit`): white text on them reads at 4.5 : 1 in both modes, which
no colour does that is also text on dark ground."""

BadgeColor = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]

SEVERITIES = tuple(severity.value for severity in reversed(Severity))
"""The most urgent first."""

STATES = (*OPEN_STATES, SILENCED, "resolved")
"""What alerts are filtered by; silenced stands beside an open state."""

SIGNS = {
    "critical": "▲",
    "warning": "◆",
    "info": "●",
    "firing": "⚑",
    "acknowledged": "✓",
    "silenced": "◌",
    "resolved": "○",
}

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


def standing(state: str, silenced: bool) -> str:
    """A state with its sign, and whether a silence covers it: `✓ acknowledged ◌ silenced`."""
    return f"{signed(state)} {signed(SILENCED)}" if silenced and state in OPEN_STATES else signed(state)
