"""Runbook paragraphs with the values of their queries' parameters: who is told has no configuration at hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.alerting.text import plain
from app.durations import format_duration, format_size, parse_duration_ms

if TYPE_CHECKING:
    from engine import CompiledQuery


def with_parameters(runbook: str, query: CompiledQuery, text: str) -> str:
    """`factor` in backquotes becomes `factor` (3) where a parameter of the query is named for the first time.

    `text` is the query's: a default that has a unit of time there makes the value a duration.
    """
    for name, value in query.resolved.parameters.items():
        if (named := f"`{name}`") in runbook:
            runbook = runbook.replace(named, f"{named} ({_shown(name, value, text)})", 1)
    return runbook


def _shown(name: str, value: float | str, text: str) -> str:
    if isinstance(value, str):
        return plain(value)
    if _is_duration(name, text):
        return format_duration(value)
    return format_size(value) if name.endswith("_bytes") else f"{value:,}"


def _is_duration(name: str, text: str) -> bool:
    written = re.search(rf"\b{re.escape(name)}[ \t]*==?[ \t]*([0-9.]+[ \t]*[A-Za-z]+)", text)
    if written is None:
        return False
    try:
        parse_duration_ms(written[1])
    except ValueError:  # a word behind a number: the next clause
        return False
    return True


__all__ = ["with_parameters"]
