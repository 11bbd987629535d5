"""Events that are too long for a query: it says nothing about what may last longer than its window."""

from __future__ import annotations

from engine.admission import NONE_REFUSED, Refused, too_long
from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery


def longest_interval_ms(resolved: ResolvedQuery) -> int | None:
    """The longest interval of an event that can take part, its window; None where intervals are rejected anyway."""
    query = resolved.query
    if query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH or not isinstance(query.within_ms, int):
        return None
    return query.within_ms


def fitting_events(resolved: ResolvedQuery, batch: EventBatch) -> tuple[EventBatch, Refused]:
    """The events without those of the pattern's types that are longer than the window, and these."""
    longest_ms = longest_interval_ms(resolved)
    if longest_ms is None:
        return batch, NONE_REFUSED
    named = {component.event_type for component, _ in ast.components(resolved.query.pattern)}
    return too_long(batch, longest_ms, named, resolved.name)


__all__ = ["fitting_events", "longest_interval_ms"]
