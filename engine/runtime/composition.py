"""Queries over the matches of other queries: which depends on which, and what a match is as an event.

A type of a pattern that is no type of the schema but the name of another query (with - written as _) stands for that
query's matches. Their attributes are the query's RETURN values and the attributes of its partition key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.compiled.query import CompiledQuery, compile_parsed, match_type, meaning_of
from engine.errors import EventError, QueryTypeError, Span
from engine.events import AttributeType, EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.resolver import ResolvedQuery, resolve
from engine.language.source import did_you_mean
from engine.matching.output.aggregates import registered_aggregates

Parameters = Mapping[str, int | float | str]


def compile_queries(
    texts: Mapping[str, str],
    schema: EventSchema,
    parameters: Mapping[str, Parameters] | None = None,
    *,
    only: Collection[str] | None = None,
    as_automata: bool = False,
) -> list[CompiledQuery]:
    """Parse, check and plan queries that may use each other's matches; producers come before their consumers.

    texts: query by name; parameters: values by name of the query; only: these and what they use, all without;
    as_automata: plain sequences, too, are evaluated by the general automaton, to compare with it. Raises QueryError
    with position, cause and remedy: also for queries that use each other in a circle, and for a type that is
    neither one of the schema nor a query.
    """
    family = _family(texts, schema, only)
    compiled: dict[str, CompiledQuery] = {}
    for name in family.order:
        own = [compiled[producer] for producer in family.producers[name]]
        query = family.parsed[name]
        extended = _with_matches(schema, [producer.resolved for producer in own], query, name, texts[name])
        given = (parameters or {}).get(name, {})
        compiled[name] = compile_parsed(
            query, texts[name], extended, given, name=name, producers=own, as_automata=as_automata
        )
    return with_consumed(compiled.values())


def resolve_queries(
    texts: Mapping[str, str],
    schema: EventSchema,
    parameters: Mapping[str, Parameters] | None = None,
    *,
    only: Collection[str] | None = None,
) -> list[ResolvedQuery]:
    """The same without plans, which the oracle does not need; raises QueryError as `compile_queries` does for what is
    no query."""
    family = _family(texts, schema, only)
    resolved: dict[str, ResolvedQuery] = {}
    aggregates = registered_aggregates()
    for name in family.order:
        own = [resolved[producer] for producer in family.producers[name]]
        query = family.parsed[name]
        extended = _with_matches(schema, own, query, name, texts[name])
        given = (parameters or {}).get(name, {})
        resolved[name] = resolve(query, extended, given, text=texts[name], name=name, aggregates=aggregates)
    return list(resolved.values())


def query_hashes(queries: Sequence[ResolvedQuery]) -> dict[str, str]:
    """The hash of each query, as `CompiledQuery` has it; producers come before their consumers."""
    found: dict[str, str] = {}
    by_type = {match_type(query.name): query.name for query in queries}
    for query in queries:
        named = {component.event_type for component, _ in ast.components(query.query.pattern)}
        found[query.name] = meaning_of(query, [found[by_type[name]] for name in named if name in by_type])
    return found


def with_consumed(queries: Iterable[CompiledQuery]) -> list[CompiledQuery]:
    """The queries, each knowing whether another of them uses its matches."""
    listed = list(queries)
    consumed = {producer.name for query in listed for producer in query.producers}
    return [replace(query, is_consumed=query.name in consumed) for query in listed]


def match_attributes(resolved: ResolvedQuery) -> dict[str, AttributeType]:
    """The attributes of a query's matches with their types: RETURN values that can be named, and those of `[x]` that
    some event of a match has."""
    bound = [name for name, variable in resolved.variables.items() if not variable.negated]
    key = [x for x in resolved.key if any(x in resolved.keyed.get(name, ()) for name in bound)]
    attributes = {name: resolved.schema.attributes[name] for name in key}
    returned = zip(resolved.query.returns, resolved.return_types, strict=True)
    return attributes | {item.name: kind for item, kind in returned if item.name.isidentifier()}


# ------------------------------------------------------------------ internals


class _Family(NamedTuple):
    """Parsed queries, the names of those that each uses, and an order in which these come first."""

    parsed: dict[str, ast.Query]
    producers: dict[str, tuple[str, ...]]
    order: list[str]


def _family(texts: Mapping[str, str], schema: EventSchema, only: Collection[str] | None) -> _Family:
    parsed: dict[str, ast.Query] = {}
    producers: dict[str, tuple[str, ...]] = {}
    todo = list(reversed(list(texts if only is None else only)))
    while todo:
        name = todo.pop()
        if name not in parsed:
            parsed[name] = parse(texts[name], name)
            producers[name] = _producers(name, parsed[name], texts, schema)
            todo += reversed(producers[name])
    return _Family(parsed, producers, _in_order(producers, parsed, texts))


def _used_types(query: ast.Query, schema: EventSchema) -> Iterator[tuple[str, Span | None]]:
    """The types of the pattern that the schema does not have."""
    for component, _ in ast.components(query.pattern):
        if component.event_type not in schema.types:
            yield component.event_type, component.span


def _producers(name: str, query: ast.Query, texts: Mapping[str, str], schema: EventSchema) -> tuple[str, ...]:
    named: dict[str, list[str]] = {}
    for other in texts:
        named.setdefault(match_type(other), []).append(other)
    text = texts[name]
    found: list[str] = []
    for event_type, span in _used_types(query, schema):
        owners = named.get(event_type, [])
        if not owners:
            known = sorted({*schema.types, *named} - {match_type(name)})
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
                (c.span for c, _ in ast.components(queries[path[-1]].pattern) if c.event_type == match_type(name)),
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
    schema: EventSchema, producers: Sequence[ResolvedQuery], query: ast.Query, name: str, text: str
) -> EventSchema:
    """The schema with the types of the producers' matches."""
    types = dict(schema.types)
    for producer in producers:
        if producer.is_trend:
            raise QueryTypeError(
                f"{producer.name} aggregates trends: its rows are of windows, and are no events",
                query.pattern.span,
                "a query whose matches are events",
                "compare the aggregates to thresholds in HAVING of that query",
                text,
                name,
            )
        own = match_type(producer.name)
        types[own] = match_attributes(producer)
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


__all__ = ["compile_queries", "match_attributes", "query_hashes", "resolve_queries", "with_consumed"]
