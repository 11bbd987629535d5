"""Queries over the matches of other queries: which depends on which, and what a match is as an event.

A type of a pattern that is no type of the schema but the name of another query (with - written as _) stands for that
query's matches. Their attributes are the query's RETURN values and the attributes of its partition key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from engine.errors import EventError, QueryTypeError, Span
from engine.events import AttributeType, EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.resolver import ResolvedQuery
from engine.language.source import did_you_mean
from engine.runtime.compiled import CompiledQuery, compile_parsed

Parameters = Mapping[str, int | float | str]


def compile_queries(
    texts: Mapping[str, str],
    schema: EventSchema,
    parameters: Mapping[str, Parameters] | None = None,
    *,
    only: Collection[str] | None = None,
) -> list[CompiledQuery]:
    """Parse, check and plan queries that may use each other's matches; producers come before their consumers.

    texts: query by name; parameters: values by name of the query; only: these and what they use, all without. Raises
    QueryError with place, cause and remedy: also for queries that use each other in a circle, and for a type that is
    neither one of the schema nor a query.
    """
    parsed: dict[str, ast.Query] = {}
    producers: dict[str, tuple[str, ...]] = {}
    todo = list(reversed(list(texts if only is None else only)))
    while todo:
        name = todo.pop()
        if name not in parsed:
            parsed[name] = parse(texts[name], name)
            producers[name] = _producers(name, parsed[name], texts, schema)
            todo += reversed(producers[name])
    compiled: dict[str, CompiledQuery] = {}
    for name in _in_order(producers, parsed, texts):
        own = [compiled[producer] for producer in producers[name]]
        extended = _with_matches(schema, own, parsed[name], name, texts[name])
        given = (parameters or {}).get(name, {})
        compiled[name] = compile_parsed(parsed[name], texts[name], extended, given, name=name, producers=own)
    return with_consumed(compiled.values())


def with_consumed(queries: Iterable[CompiledQuery]) -> list[CompiledQuery]:
    """The queries, each knowing whether another of them uses its matches."""
    listed = list(queries)
    consumed = {producer.name for query in listed for producer in query.producers}
    return [replace(query, is_consumed=query.name in consumed) for query in listed]


def match_attributes(resolved: ResolvedQuery, key: tuple[str, ...]) -> dict[str, AttributeType]:
    """The attributes of a query's matches with their types: RETURN values that can be named, and the key."""
    attributes = {name: resolved.schema.attributes[name] for name in key}
    returned = zip(resolved.query.returns, resolved.return_types, strict=True)
    return attributes | {item.name: kind for item, kind in returned if item.name.isidentifier()}


# ------------------------------------------------------------------ internals


def _match_type(name: str) -> str:
    return name.replace("-", "_")


def _used_types(query: ast.Query, schema: EventSchema) -> Iterator[tuple[str, Span | None]]:
    """The types of the pattern that the schema does not have."""
    for component, _ in ast.components(query.pattern):
        if component.event_type not in schema.types:
            yield component.event_type, component.span


def _producers(name: str, query: ast.Query, texts: Mapping[str, str], schema: EventSchema) -> tuple[str, ...]:
    named: dict[str, list[str]] = {}
    for other in texts:
        named.setdefault(_match_type(other), []).append(other)
    text = texts[name]
    found: list[str] = []
    for event_type, span in _used_types(query, schema):
        owners = named.get(event_type, [])
        if not owners:
            known = sorted({*schema.types, *named} - {_match_type(name)})
            raise QueryTypeError(
                f"no event type and no query is called {event_type}",
                span,
                f"one of {', '.join(known)}" if len(known) <= 40 else f"one of {len(known)} types and queries",
                did_you_mean(event_type, known),
                text,
                name,
            )
        if len(owners) > 1:
            raise QueryTypeError(
                f"{event_type} stands for the matches of two queries: {', '.join(owners)}",
                span,
                "one query of that name",
                "rename one of them",
                text,
                name,
            )
        found += [owner for owner in owners if owner not in found]
    return tuple(found)


def _in_order(
    producers: Mapping[str, tuple[str, ...]], queries: Mapping[str, ast.Query], texts: Mapping[str, str]
) -> list[str]:
    """Every query after those that it uses; raises QueryTypeError for a circle."""
    ordered: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in ordered:
            return
        if name in path:
            circle = " -> ".join((*path[path.index(name) :], name))
            span = next(
                (c.span for c, _ in ast.components(queries[path[-1]].pattern) if c.event_type == _match_type(name)),
                None,
            )
            raise QueryTypeError(
                f"the queries use each other's matches in a circle: {circle}",
                span,
                "queries that use the matches of others without coming back to themselves",
                "let one of them read events instead",
                texts[path[-1]],
                path[-1],
            )
        for producer in producers[name]:
            visit(producer, (*path, name))
        ordered[name] = None

    for name in producers:
        visit(name, ())
    return list(ordered)


def _with_matches(
    schema: EventSchema, producers: list[CompiledQuery], query: ast.Query, name: str, text: str
) -> EventSchema:
    """The schema with the types of the producers' matches."""
    types = dict(schema.types)
    for producer in producers:
        own = producer.match_type
        types[own] = match_attributes(producer.resolved, producer.plan.match_key)
        try:
            EventSchema.of(types)
        except EventError as error:
            span = next((c.span for c, _ in ast.components(query.pattern) if c.event_type == own), None)
            raise QueryTypeError(
                f"the matches of {producer.name} cannot be events: {error}",
                span,
                "RETURN values whose names stand for one type everywhere",
                f"name the value differently in {producer.name}, as in RETURN ... AS another_name",
                text,
                name,
            ) from None
    return EventSchema(types)


__all__ = ["compile_queries", "match_attributes", "with_consumed"]
