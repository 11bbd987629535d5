"""What a query over the matches of others reads: events and matches as one stream, in order, behind its own watermark.

A consumer's watermark is held back to what its producers can still tell: a trailing negation decides a match only a
window after its first event, an imprecise last event may begin before others that are decided.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.compiled.query import CompiledQuery
from engine.errors import EngineError
from engine.events import FOREVER_MS, EventBatch
from engine.kernels.confidence.sequences import TOLERANCE
from engine.matching.output.match_row import Binding, MatchRow, binding_json

_AFTER_EVENTS = np.iinfo(np.int32).max
"""Source rank of matches: they come after all events of the millisecond in which their last event is."""


class Feed:
    """The stream of one consumer; `watermark_ms` is its own, never ahead of the events' watermark."""

    def __init__(self, query: CompiledQuery) -> None:
        self.watermark_ms = -FOREVER_MS
        self._query = query
        self._waiting = EventBatch.empty()

    def put(self, events: EventBatch) -> None:
        """Take in events, in any order. Raises EngineError for one that the feed has passed: a promise was broken."""
        if not len(events):
            return
        passed = events.t_lo_ms < self.watermark_ms
        if passed.any():
            first = events.table.column("event_id")[int(np.flatnonzero(passed)[0])]
            raise EngineError(
                f"{self._query.name}: {first} comes behind the watermark {self.watermark_ms} ms of its feed"
            )
        self._waiting = EventBatch.concat([self._waiting, events])

    def release(self, watermark_ms: int) -> EventBatch:
        """The events before `watermark_ms`, which a lower one than before does not take back, in stream order."""
        self.watermark_ms = max(self.watermark_ms, watermark_ms)
        ready = self._waiting.t_lo_ms < self.watermark_ms
        released = self._waiting.where(ready).sorted()
        self._waiting = self._waiting.where(~ready)
        return released

    def save(self) -> pa.Table:
        """What waits, and the watermark in the metadata."""
        return self._waiting.table.replace_schema_metadata({"watermark_ms": str(self.watermark_ms)})

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata
        self.watermark_ms = int(metadata[b"watermark_ms"])
        self._waiting = EventBatch(table.replace_schema_metadata(None))


def in_order(queries: Sequence[CompiledQuery]) -> tuple[CompiledQuery, ...]:
    """Producers before their consumers; raises EngineError when one that a query uses is not among `queries`."""
    by_name = {query.name: query for query in queries}
    for query in queries:
        for producer in query.producers:
            if producer.name not in by_name or by_name[producer.name].hash != producer.hash:
                raise EngineError(
                    f"{query.name} uses the matches of {producer.name}, which is not among the queries of this engine; "
                    "give it all queries that compile_queries returned"
                )
    return tuple(sorted(queries, key=lambda query: query.depth))


def with_producers(names: Iterable[str], queries: Sequence[CompiledQuery]) -> frozenset[str]:
    """These queries and all that they use, directly or not."""
    by_name = {query.name: query for query in queries}
    return frozenset(query.name for name in names for query in by_name[name].chain)


def match_events(producer: CompiledQuery, rows: Sequence[MatchRow], consumer: CompiledQuery) -> EventBatch:
    """The matches of `producer` as events for `consumer`: certain ones, and those above its CERTAIN_ABOVE.

    Such an event has the interval of the match's last event and no clock; its id is a digest of the query's name and
    hash, the window and the bindings. A match in several windows of one extent, opened in one millisecond, is one event
    in each: the second has ~2 behind its id, and so on. They are told together, so that no division changes this.
    """
    least = consumer.resolved.certain_above
    least = 1.0 if least is None else least
    entering = [row for row in rows if row.confidence >= least - TOLERANCE]
    if not entering:
        return EventBatch.empty()
    schema = consumer.resolved.schema
    columns: dict[str, Any] = {
        "event_id": _numbered(
            match_id(producer.name, producer.hash, row.key, row.window, row.bindings) for row in entering
        ),
        "type": [producer.match_type] * len(entering),
        "t_lo_ms": np.array([row.last_hi_ms if row.last_lo_ms is None else row.last_lo_ms for row in entering]),
        "t_hi_ms": np.array([row.last_hi_ms for row in entering]),
        "source_rank": np.full(len(entering), _AFTER_EVENTS, np.int32),
        "source_seq": np.full(len(entering), producer.depth, np.int64),
    }
    for name in schema.types[producer.match_type]:
        columns[name] = [row.values[name] if name in row.values else dict(row.key).get(name) for row in entering]
    return EventBatch.from_columns(columns, schema)


def _numbered(ids: Iterable[str]) -> list[str]:
    """The ids, those that were there already with their number."""
    n_times = Counter[str]()
    numbered = []
    for event_id in ids:
        n_times[event_id] += 1
        numbered.append(event_id if n_times[event_id] == 1 else f"{event_id}~{n_times[event_id]}")
    return numbered


def match_id(
    query: str,
    query_hash: str,
    key: Sequence[tuple[str, object]],
    window: tuple[int, int] | None,
    bindings: Mapping[str, Binding],
) -> str:
    """The event id of a match, of whatever runtime."""
    texts = {variable: binding_json(ids) for variable, ids in bindings.items()}
    return match_id_of_json(query, query_hash, key, window, texts)


def match_id_of_json(
    query: str,
    query_hash: str,
    key: Sequence[tuple[str, object]],
    window: tuple[int, int] | None,
    bindings: Mapping[str, str],
) -> str:
    """The same for bindings that are JSON texts already, as `binding_json` writes them."""
    # The JSON text of [query, query_hash, key, window, [[variable, ids], ...]].
    bound = ", ".join(f"[{json.dumps(variable)}, {text}]" for variable, text in bindings.items())
    identity = f"{json.dumps([query, query_hash, key, window])[:-1]}, [{bound}]]"
    return hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()


__all__ = ["Feed", "in_order", "match_events", "match_id", "match_id_of_json", "with_producers"]
