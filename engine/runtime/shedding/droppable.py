"""Events of which types may be dropped under overload: those without which matches are missing, but none is made."""

from __future__ import annotations

from collections.abc import Mapping

from engine.compiled.query import CompiledQuery
from engine.events import EventSchema
from engine.language import ast


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
    resolved = query.resolved
    if query.reads_all_types:
        return dict.fromkeys(schema.types, "looks at every event: windows of events, contiguity, parts of the key")
    if reason := _reason(query, is_whole=is_whole):
        return dict.fromkeys(query.types & schema.types.keys(), reason)
    return {
        variable.event_type: "negated" for variable in resolved.variables.values() if variable.negated
    }  # fmt: skip


def _reason(query: CompiledQuery, *, is_whole: bool) -> str | None:
    """Why matches of some of the events need not be matches of all of them."""
    asked = query.resolved.query
    steps = [step for branch in query.branches for step in branch.steps]
    is_single = len(steps) == 1 and not steps[0].kleene
    if query.resolved.is_trend:
        return "trends are counted"
    if is_whole:
        return "another query needs all of its matches"
    if asked.select_first or asked.consume:
        return "which match is taken depends on the others"
    if asked.output in (ast.Output.TOP, ast.Output.NON_OVERLAPPING) or asked.limit is not None:
        return "which rows are told depends on the others"
    if asked.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH and not is_single:
        return "another event would take the place of a dropped one"
    return None


__all__ = ["droppable_types", "kept_whole"]
