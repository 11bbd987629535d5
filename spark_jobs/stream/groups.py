"""Which queries run where: those of one key share buckets, the queries without a key have one bucket of their own.

What goes to the executors is small and plain: texts, names and numbers. They compile the queries themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache

import engine
from app.alerting.catalog import QueryInfo
from app.queries.aggregates import register_configured
from engine.errors import StateError
from engine.events import AttributeType, EventSchema

TypeRow = tuple[str, tuple[tuple[str, AttributeType], ...]]
"""An event type and its attributes."""

WITHOUT_KEY = ""
"""Name of the group of the queries that cannot be divided."""


@dataclass(frozen=True)
class Route:
    """The events that a group takes, and to which of its buckets they go."""

    group: str
    key: tuple[str, ...]
    """Attributes whose values tell the bucket; () for a group of one bucket."""
    keyed: frozenset[str]
    """Types whose events go to the bucket of their key; one without a value of it is in no match and goes nowhere."""
    broadcast: frozenset[str]
    """Types whose events go to every bucket."""
    n_buckets: int
    counted: frozenset[str]
    """Types whose events are counted here, and in no other group; broadcast ones in the first bucket alone."""


@dataclass(frozen=True)
class Group:
    """What every bucket of a group evaluates."""

    route: Route
    texts: tuple[tuple[str, str], ...]
    """Query texts by name, parameters filled in: the group's own queries and those whose matches they use."""
    hashes: tuple[tuple[str, str], ...]
    told: tuple[str, ...]
    """The queries whose rows are told; another group tells those of the others."""
    infos: tuple[QueryInfo, ...]
    """Of the queries that are told."""
    producers: tuple[QueryInfo, ...] = ()
    """Of the others, whose matches they use."""
    limited: tuple[CountedByDriver, ...] = ()
    """Those with LIMIT or TOP, of a group of several buckets."""

    @property
    def name(self) -> str:
        """Of its key: it stays the same when other queries come or go."""
        return self.route.group


@dataclass(frozen=True)
class CountedByDriver:
    """LIMIT or TOP of a query whose windows may have rows in several buckets: the driver counts them."""

    name: str
    limit: int | None
    top_k: int | None


@dataclass(frozen=True)
class BucketOptions:
    """What is the same for all buckets."""

    max_rows: int
    work_budget: int
    trend_overlap: int
    precedence: tuple[str, ...]
    remember_ids_ms: int
    brief_types: frozenset[str]
    brief_ms: int
    max_evidence_events: int
    aggregates: tuple[str, ...] = ()
    event_types: tuple[TypeRow, ...] = ()
    """Those that the queries were compiled for."""
    latency_bound_ms: int | None = None
    """Of each bucket by itself."""

    @property
    def schema(self) -> EventSchema:
        """The event types."""
        return EventSchema.of({name: dict(attributes) for name, attributes in self.event_types})


def type_rows(schema: EventSchema) -> tuple[TypeRow, ...]:
    """For BucketOptions: plain, and hashable."""
    return tuple((name, tuple(attributes.items())) for name, attributes in schema.types.items())


@dataclass(frozen=True)
class StreamPlan:
    """Everything that the executors need to know."""

    groups: tuple[Group, ...]
    options: BucketOptions
    stream_id: str = ""
    """Tells this stream's engines from those of another one in the same worker process."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """Of all groups."""
        return tuple(group.route for group in self.groups)

    def group(self, name: str) -> Group:
        """By name; raises KeyError."""
        return next(group for group in self.groups if group.name == name)


@lru_cache(maxsize=64)
def compiled_queries(group: Group, options: BucketOptions) -> tuple[engine.CompiledQuery, ...]:
    """The group's queries, compiled once per process.

    Raises StateError when one means something else here than where the job was started: another version of the program.
    """
    register_configured(options.aggregates)
    compiled = tuple(engine.compile_queries(dict(group.texts), options.schema))
    found, expected = {query.name: query.hash for query in compiled}, dict(group.hashes)
    for name, digest in expected.items():
        if found.get(name) != digest:
            raise StateError(
                f"query {name} has the hash {found.get(name)} on this executor, {digest} on the driver; expected the "
                "same program on both: ship it anew with --py-files"
            )
    return compiled


def meaning(groups: Sequence[Group]) -> dict[str, dict[str, object]]:
    """What decides which state is whose, as JSON-able values by group."""
    return {
        group.name: {
            "queries": dict(group.hashes),
            "key": list(group.route.key),
            "keyed": sorted(group.route.keyed),
            "broadcast": sorted(group.route.broadcast),
            "n_buckets": group.route.n_buckets,
        }
        for group in groups
    }


def digest(group: Group) -> str:
    """Of everything that a group's buckets do."""
    text = json.dumps([meaning([group]), asdict(group)], sort_keys=True, default=_plain)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Iterable):
        return sorted(value)
    raise TypeError(f"not expected in a plan: {value!r}")


__all__ = [
    "WITHOUT_KEY",
    "BucketOptions",
    "CountedByDriver",
    "Group",
    "Route",
    "StreamPlan",
    "compiled_queries",
    "digest",
    "meaning",
    "type_rows",
]
