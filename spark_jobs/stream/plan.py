"""From the configured queries to groups: which queries share buckets, and which events these need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import engine
from app.alerting.catalog import QueryInfo
from app.live.assembly import BRIEF_MS, types_of_one_source
from app.queries.loading import Loaded
from app.settings import Settings
from collectors.schema import event_table, load_event_types
from engine.events import EventSchema
from spark_jobs.stream.groups import WITHOUT_KEY, BucketOptions, CountedByDriver, Group, Route, StreamPlan, type_rows


def bucket_options(settings: Settings, schema: EventSchema) -> BucketOptions:
    """As the live process has them."""
    return BucketOptions(
        max_rows=settings.engine.max_rows,
        work_budget=settings.engine.work_budget,
        trend_overlap=settings.engine.trend_overlap,
        precedence=tuple(settings.sources.precedence),
        remember_ids_ms=settings.sources.remember_ids_ms,
        brief_types=types_of_one_source(event_table()),
        brief_ms=BRIEF_MS,
        max_evidence_events=settings.alerting.max_evidence_events,
        aggregates=tuple(settings.queries.aggregates),
        event_types=type_rows(schema),
        latency_bound_ms=settings.engine.latency_bound_ms,
    )


def stream_plan(queries: Loaded, settings: Settings, n_buckets: int, schema: EventSchema | None = None) -> StreamPlan:
    """Groups for the queries, each of which is told by exactly one. `schema`: else the collectors' event types."""
    by_key: dict[tuple[str, ...], list[engine.CompiledQuery]] = {}
    for query in queries.compiled:
        if not query.is_silent:
            by_key.setdefault(query.distribution.key, []).append(query)
    counted: set[str] = set()
    groups = []
    for key in sorted(by_key):
        group = _group(key, by_key[key], queries.infos, n_buckets, frozenset(counted))
        counted |= group.route.counted
        groups.append(group)
    return StreamPlan(tuple(groups), bucket_options(settings, schema or load_event_types()))


def _group(
    key: tuple[str, ...],
    own: Sequence[engine.CompiledQuery],
    infos: Mapping[str, QueryInfo],
    n_buckets: int,
    counted: frozenset[str],
) -> Group:
    # An event that one query needs in every bucket may go to all of them for the others, too.
    broadcast = frozenset().union(*(query.distribution.broadcast for query in own))
    types = frozenset().union(*(query.distribution.types for query in own))
    if not key:
        broadcast = types = frozenset().union(*(query.read_types for query in own))
    route = Route(
        group="+".join(key) or WITHOUT_KEY,
        key=key,
        keyed=types - broadcast,
        broadcast=broadcast,
        n_buckets=n_buckets if key else 1,
        counted=types - counted,
    )
    needed = {query.name: query for top in own for query in top.chain}
    names = sorted(needed)
    told = tuple(sorted(query.name for query in own))
    return Group(
        route,
        tuple((name, engine.print_query(needed[name].resolved.query)) for name in names),
        tuple((name, needed[name].hash) for name in names),
        told,
        tuple(infos[name] for name in told),
        tuple(infos[name] for name in names if name not in told),
        tuple(_limited(own)) if route.n_buckets > 1 else (),
    )


def _limited(queries: Sequence[engine.CompiledQuery]) -> Iterator[CountedByDriver]:
    for query in sorted(queries, key=lambda query: query.name):
        written = query.resolved.query
        if written.limit is not None or written.top_k is not None:
            yield CountedByDriver(query.name, written.limit, written.top_k)


__all__ = ["bucket_options", "stream_plan"]
