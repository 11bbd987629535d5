"""How severities and states look everywhere: each has a sign and a word, so that none is told by colour alone."""

from __future__ import annotations

from typing import Literal

from app.settings import Severity
from app.store.states import OPEN_STATES, SILENCED

BESIDE = "beside"
"""Key of a container whose columns stand beneath each other where they would be too narrow to be read."""

_LINE = "color-mix(in srgb, currentColor 20%, transparent)"

STYLE = f"""<style>
[data-testid="stMainBlockContainer"] {{ padding-top: 3.75rem; }}
.st-key-{BESIDE} [data-testid="stColumn"] {{ min-width: min(100%, 22rem); }}
button[kind^="primary"]:not(:disabled) {{ background-color: #1f5f99; border-color: #1f5f99; color: #ffffff; }}
button[kind^="primary"]:not(:disabled):hover {{ background-color: #2f78bd; border-color: #2f78bd; }}
[data-testid="stCode"] .token {{ color: inherit !important; }}
[data-testid="stCode"] .token.keyword {{ font-weight: 600; }}
[data-testid="stCode"] .token.comment {{ font-style: italic; }}
.clustercep-table {{ border: 1px solid {_LINE}; border-radius: 0.5rem; max-height: 40rem; overflow: auto; }}
.clustercep-table table {{ border-collapse: collapse; font-size: 0.875rem; margin: 0; width: 100%; }}
.clustercep-table th, .clustercep-table td {{
  border: 0; border-bottom: 1px solid {_LINE}; max-width: 40rem; overflow-wrap: break-word; padding: 0.35rem 0.6rem;
  text-align: left; vertical-align: top; }}
.clustercep-table th {{ font-weight: 600; }}
.clustercep-table tbody tr:last-child td {{ border-bottom: 0; }}
.clustercep-table td.number, .clustercep-table th.number {{
  font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }}
.clustercep-table td.broken {{ overflow-wrap: anywhere; }}
.clustercep-table td.whole {{ white-space: nowrap; }}
.clustercep-table a {{ color: inherit; text-decoration: underline; }}
.clustercep-table .share {{ align-items: center; display: flex; gap: 0.6rem; white-space: nowrap; }}
.clustercep-table .bar {{ background: {_LINE}; border-radius: 3px; flex: 1; height: 0.5rem; min-width: 2.5rem; }}
.clustercep-table .bar > span {{ background: #2f78bd; border-radius: 3px; display: block; height: 100%; }}
dl.clustercep-facts {{
  display: flex; flex-wrap: wrap; gap: 0.6rem 1.6rem; margin: 0 !important; padding: 0 !important; }}
.clustercep-facts dt {{ font-size: 0.875rem; font-weight: 400; opacity: 0.75; }}
.clustercep-facts dd {{ margin: 0; overflow-wrap: anywhere; }}
</style>"""
"""Primary buttons, those of forms, too (`primaryFormSubmit`): white text on them reads at 4.5 : 1 in both modes, which
no colour does that is also text on dark ground. Words of a query are told apart by weight: of Streamlit's colours for
them some read at 3 : 1."""

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
