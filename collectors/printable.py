"""Text from outside as people may see it, in logs, messages and tables."""

from __future__ import annotations

MAX_MESSAGE_CHARS = 500
"""Longest problem message: names and values in it come from files, which may hold anything."""


def printable(text: str, max_chars: int = MAX_MESSAGE_CHARS) -> str:
    """`text` without control characters and undecodable bytes, cut to `max_chars`: safe to log and to show."""
    cut = text if len(text) <= max_chars else text[: max_chars - 1] + "…"
    if cut.isprintable() and cut.isascii():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in cut)


__all__ = ["MAX_MESSAGE_CHARS", "printable"]
