"""Events of which types may be dropped under overload: those without which matches are missing, but none is made."""

from __future__ import annotations

from collections.abc import Mapping

from engine.compiled.query import CompiledQuery
from engine.events import EventSchema


def kept_whole(queries: Mapping[str, CompiledQuery], schema: EventSchema) -> dict[str, str]:
    """Types of which no event may be dropped, or a query would tell what is not so, each with the reason."""
    whole = frozenset[str]().union(*(query.needs_whole for query in queries.values()))
    found: dict[str, str] = {}
    for name in sorted(queries):
        for event_type, reason in _needed(queries[name], is_whole=name in whole, schema=schema).items():
            found.setdefault(event_type, f"{name}: {reason}")
    return found


def droppable_types(queries: Mapping[str, CompiledQuery], schema: EventSchema) -> tuple[str, ...]:
    """The other types of the schema, in order of their names."""
    return tuple(sorted(frozenset(schema.types) - kept_whole(queries, schema).keys()))


def _needed(query: CompiledQuery, *, is_whole: bool, schema: EventSchema) -> dict[str, str]:
    reason = "another query needs all of its matches" if is_whole else None
    if reason := query.why_whole or reason:
        return dict.fromkeys(schema.types if query.reads_all_types else query.types & schema.types.keys(), reason)
    negated = (variable.event_type for variable in query.resolved.variables.values() if variable.negated)
    return dict.fromkeys(negated, "negated")


__all__ = ["droppable_types", "kept_whole"]
