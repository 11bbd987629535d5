"""A text field for queries that is checked while one types; the text travels as data and never becomes markup.

Streamlit's own text area tells its text only when one leaves it. This one sends it some 300 ms after the last key,
marks the place that the engine refuses and shows the engine's words, with the caret, under the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.components.served import ServedComponent, nothing

_FOLDER = Path(__file__).parent
_FIELD = ServedComponent(
    _FOLDER, "editor", "clustercep", "query_editor", (_FOLDER / "editor.html").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class ShownProblem:
    """Why a text is no query. Lines and columns count from 1, ends are exclusive, None: of no place.

    `excerpt`: the line and, under it, the caret.
    """

    message: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    excerpt: tuple[str, ...] = ()
    expected: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """What stands in the field; `run` when Ctrl+Enter was pressed in this very run of the page."""

    text: str
    run: bool


def typed_text(key: str, start: str) -> str:
    """The text as last sent by the field of this key; `start` before it is shown."""
    state = st.session_state.get(key)
    text = state.get("text") if state is not None else None
    return text if isinstance(text, str) else start


def query_editor(
    key: str,
    start: str,
    *,
    problem: ShownProblem | None,
    verdict: str,
    types: Sequence[str],
    max_chars: int,
    on_change: Callable[[], None] | None = None,
) -> Typed:
    """The field; a new key is a new field with `start` in it. `problem`, `verdict`: about `typed_text(key, start)`."""
    checked = typed_text(key, start)
    data: dict[str, Any] = {
        "checked": checked,
        "problem": None if problem is None else asdict(problem),
        "verdict": verdict,
        "types": list(types),
        "max_chars": max_chars,
    }
    state = _FIELD(
        key=key,
        data=data,
        default={"text": start},
        on_text_change=on_change or nothing,
        on_run_change=nothing,
    )
    return Typed(typed_text(key, start), bool(state.get("run")))


__all__ = ["ShownProblem", "Typed", "query_editor", "typed_text"]
