"""Runbook paragraphs with the values of their queries' parameters: who is told has no configuration at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.alerting.text import plain
from app.durations import format_duration, format_size

if TYPE_CHECKING:
    from engine import CompiledQuery


def with_parameters(runbook: str, query: CompiledQuery) -> str:
    """`factor` in backquotes becomes `factor` (3) where a parameter of the query is named for the first time.

    A default that is written with a unit of time makes the value a duration.
    """
    durations = query.resolved.durations
    for name, value in query.resolved.parameters.items():
        if (named := f"`{name}`") in runbook:
            runbook = runbook.replace(named, f"{named} ({_shown(name, value, name in durations)})", 1)
    return runbook


def _shown(name: str, value: float | str, is_duration: bool) -> str:
    if isinstance(value, str):
        return plain(value)
    if is_duration:
        return format_duration(value)
    return format_size(value) if name.endswith("_bytes") else f"{value:,}"


__all__ = ["with_parameters"]
