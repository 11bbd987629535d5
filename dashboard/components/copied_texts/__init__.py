"""Texts to copy, each with its button. Streamlit's `st.code` loads the grammars of all languages for that.

All text travels as data and never becomes markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from dashboard.components.served import ServedComponent

_TEXTS = ServedComponent(
    Path(__file__).parent,
    "copy",
    "clustercep-copy",
    "copied_texts",
    '<div class="clustercep-copied"></div>',
    isolated=False,  # so that what is searched for in the page is found
)


@dataclass(frozen=True, slots=True)
class CopiedText:
    """`label` stands above it, if there is one; `name` says what the button copies.

    kind: of a "command" long lines are wrapped; in "lines" what stands below each other stays there (a caret, columns);
    a "query" is wrapped, and its comments, texts and clauses have looks of their own.
    """

    name: str
    text: str
    label: str = ""
    kind: Literal["command", "lines", "query"] = "command"


def copied_texts(key: str, texts: Sequence[CopiedText]) -> None:
    """The texts, one below the other; long ones are scrolled."""
    _TEXTS(key=key, data={"texts": [asdict(text) for text in texts]}, width="stretch")


__all__ = ["CopiedText", "copied_texts"]
