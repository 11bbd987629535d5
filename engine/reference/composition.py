"""Composition: the matches of a query as events for others (DESIGN 3).

A match is an event of the type that its query's name is, hyphens written as underscores. It has the interval of the
match's last event and comes after all events of the stream that have the same place; its attributes are the values of
RETURN and of the partition key. A match that is not certain enters only a query with CERTAIN_ABOVE c, from confidence
c on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from engine.errors import UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE, EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.expressions import NO_AGGREGATES, Aggregates
from engine.reference.observed import ObservedEvent, exact, observe
from engine.reference.rows.output import ROUNDING, ReferenceRow, rows_with_ends

AFTER_EVENTS = 2**31 - 1
"""Source rank of matches."""

Identify = Callable[[ResolvedQuery, ReferenceRow], str]
"""The event id of a match."""


def readable_id(resolved: ResolvedQuery, row: ReferenceRow) -> str:
    """Name, window and bindings as text."""
    return f"{resolved.name} {row.window or ''} {row.bindings}"


def reference_cascade(
    queries: Sequence[ResolvedQuery],
    batch: EventBatch,
    aggregates: Aggregates = NO_AGGREGATES,
    identify: Identify = readable_id,
) -> dict[str, list[ReferenceRow]]:
    """The rows of each query over the events and the matches of the queries that it names.

    `batch` has the events alone; the schema of a query has the types of the matches that it uses. Raises
    UnsupportedQueryError when queries use each other's matches in a circle.
    """
    by_type = {match_type(resolved.name): resolved for resolved in queries}
    found: dict[str, list[tuple[ReferenceRow, ObservedEvent]]] = {}

    def evaluate(resolved: ResolvedQuery, path: tuple[str, ...]) -> int:
        """Evaluates the query and what it uses; returns how many queries stand below it at most."""
        if resolved.name in path:
            raise UnsupportedQueryError(
                f"queries use each other's matches in a circle: {' -> '.join((*path, resolved.name))}",
                remedy="let one of them use the events instead",
            )
        used = [by_type[name] for name in sorted(_named(resolved)) if name in by_type]
        depths = {producer.name: evaluate(producer, (*path, resolved.name)) for producer in used}
        if resolved.name not in found:
            events = observe(batch, resolved.schema)
            for producer in used:
                events += _as_events(producer, found[producer.name], resolved, depths[producer.name], identify)
            events.sort(key=lambda event: event.stream_order)
            found[resolved.name] = rows_with_ends(resolved, events, aggregates)
        return 1 + max(depths.values(), default=-1)

    for resolved in queries:
        evaluate(resolved, ())
    return {resolved.name: [row for row, _ in found[resolved.name]] for resolved in queries}


def match_type(name: str) -> str:
    """The event type of a query's matches."""
    return name.replace("-", "_")


def _named(resolved: ResolvedQuery) -> set[str]:
    return {component.event_type for component, _ in ast.components(resolved.query.pattern)}


def _as_events(
    producer: ResolvedQuery,
    rows: Sequence[tuple[ReferenceRow, ObservedEvent]],
    consumer: ResolvedQuery,
    depth: int,
    identify: Identify,
) -> list[ObservedEvent]:
    bound = consumer.certain_above
    least = Fraction(1) if bound is None else Fraction(repr(bound))
    entering: list[ObservedEvent] = []
    ids: list[str] = []
    for row, last in rows:
        if row.confidence >= least - ROUNDING:
            ids.append(identify(producer, row))
            # One match in windows that two events of one millisecond opened: the windows look alike, the events differ.
            own = ids[-1] if (n := ids.count(ids[-1])) == 1 else f"{ids[-1]}~{n}"
            entering.append(_as_event(own, row, last, consumer, match_type(producer.name), depth))
    return entering


def _as_event(
    event_id: str, row: ReferenceRow, last: ObservedEvent, consumer: ResolvedQuery, event_type: str, depth: int
) -> ObservedEvent:
    own: Mapping[str, object] = {**dict(row.key), **row.values}
    raw: dict[str, int | float | str | None] = {}
    for name in consumer.schema.types[event_type]:
        value = own.get(name)
        assert value is None or isinstance(value, int | float | str)
        raw[name] = value
    return ObservedEvent(
        event_id=event_id,
        event_type=event_type,
        lo_ms=last.lo_ms,
        hi_ms=last.hi_ms,
        source_rank=AFTER_EVENTS,
        source_seq=depth,
        clock_id=None,
        times=last.times,
        values={name: exact(value) for name, value in raw.items()}
        | {TIME_ATTRIBUTE: Fraction(last.hi_ms), "type": event_type},
        raw={**raw, TIME_ATTRIBUTE: last.hi_ms},
    )


__all__ = ["match_type", "readable_id", "reference_cascade"]
