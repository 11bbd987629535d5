"""Hostile text (names of jobs, users, hosts and files; log lines) made harmless for a page.

Three layers read what `st.markdown` and the labels of widgets are given: Markdown itself (with HTML, LaTeX and colour
directives), then replacements in the finished text (emoji and icon shortcodes, arrows, addresses that become links),
then the layout (direction marks, stacked accents, endless lines). `md` disarms all three; `inert` the last one.
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS = 200
MAX_STACKED_MARKS = 3
"""Accents on one letter: real languages need no more, and hundreds of them paint over neighbouring lines."""

JOINER = "\u2060"
"""WORD JOINER: no width, no line break. It ends a shortcode or an address without being seen."""

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_READ_IN_TEXT = re.compile(
    r"(?<=[:@])(?=\S)"  # shortcodes :name:, addresses with a scheme, mail addresses
    r"|(?<=www)(?=\.)"
    r"|(?<=[<>=~-])(?=[<>=~-])",  # arrows and dashes that become symbols
    re.IGNORECASE,
)


def inert(value: object, max_chars: int = MAX_CHARS) -> str:
    """`value` as one line of visible characters, at most `max_chars` of them (an ellipsis tells that some are missing).

    White space of any kind and length is one space; characters of format (directions, joiners) go; what else cannot be
    shown (controls, halves of characters) becomes the replacement character.
    """
    if value is None:
        return "unknown"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if len(text) > 8 * max_chars:
        text = text[: 8 * max_chars]
        shortened = True
    else:
        shortened = False
    shown = " ".join("".join(_visible(text)).split())
    if len(shown) > max_chars or shortened:
        return shown[: max(0, max_chars - 1)].rstrip() + "…"
    return shown


def md(value: object, max_chars: int = MAX_CHARS) -> str:
    """`inert(value)`, so that `st.markdown` and labels show exactly this text and nothing of it acts."""
    marked = _READ_IN_TEXT.sub(JOINER, inert(value, max_chars))
    escaped = _PUNCTUATION.sub(r"\\\1", marked)
    return f"\u2068{escaped}\u2069" if _turns_direction(escaped) else escaped


def lines(value: object, max_lines: int = 200, max_chars: int = 4_000) -> str:
    """Text of several lines to copy: each line inert but for its indentation; long and many ones are cut."""
    found = str(value).splitlines()
    shown = [_indented(line, max_chars) for line in found[:max_lines]]
    if len(found) > max_lines:
        shown.append(f"… and {len(found) - max_lines:,} more lines")
    return "\n".join(shown)


def _indented(line: str, max_chars: int) -> str:
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].replace("\t", "    ")[:80] + inert(body, max_chars)


def _visible(text: str) -> list[str]:
    shown: list[str] = []
    n_marks = 0
    for c in text:
        category = unicodedata.category(c)
        n_marks = n_marks + 1 if category in ("Mn", "Me") else 0
        if category == "Cf" or n_marks > MAX_STACKED_MARKS:
            continue
        shown.append(" " if c.isspace() else c if c.isprintable() else "\ufffd")
    return shown


def _turns_direction(text: str) -> bool:
    """Letters written from right to left move the punctuation around them; an isolate keeps that inside."""
    return any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
