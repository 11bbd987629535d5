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
    for name, value in query.resolved.parameters.items():
        if (named := f"`{name}`") in runbook:
            runbook = runbook.replace(named, f"{named} ({parameter_text(query, name, value)})", 1)
    return runbook


def parameter_text(query: CompiledQuery, name: str, value: float | str) -> str:
    """A value of the query's parameter with its unit; its own text is inert."""
    if isinstance(value, str):
        return plain(value)
    if name in query.resolved.durations:
        return format_duration(value)
    return format_size(value) if name.endswith("_bytes") else f"{value:,}"


__all__ = ["parameter_text", "with_parameters"]
