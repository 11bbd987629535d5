"""Streams divided as a `Distribution` says, without Spark: what every part is, and which of its rows are its own."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine import CompiledQuery, Distribution, Engine, MatchRow
from engine.events import FOREVER_MS, EventBatch


class Part(NamedTuple):
    """Events, and the times in which the first event of a row begins that is not found elsewhere."""

    events: EventBatch
    from_ms: int = -FOREVER_MS
    to_ms: int = FOREVER_MS


def by_key(stream: EventBatch, distribution: Distribution, n_buckets: int) -> Iterator[Part]:
    """Buckets of keys; those without events of a key are left out."""
    rows: list[list[int]] = [[] for _ in range(n_buckets)]
    everywhere: list[int] = []
    keyed = set[int]()
    for number, event in enumerate(stream.table.to_pylist()):
        if event["type"] in distribution.broadcast:
            everywhere.append(number)
        elif event["type"] in distribution.keys:
            values = [event.get(name) for name in distribution.keys[event["type"]]]
            if None not in values:
                bucket = zlib.crc32(repr(values).encode()) % n_buckets
                rows[bucket].append(number)
                keyed.add(bucket)
    for bucket in sorted(keyed):
        yield Part(EventBatch(stream.table.take(sorted(rows[bucket] + everywhere))))


def by_time(stream: EventBatch, distribution: Distribution, length_ms: int, origin_ms: int = 0) -> Iterator[Part]:
    """Slices of this length, all that need an event: windows may begin before the first one."""
    if not len(stream):
        return
    longest_ms = int((stream.t_hi_ms - stream.t_lo_ms).max()) * distribution.n_links
    after_ms, before_ms = distribution.reach_ms + longest_ms, distribution.look_back_ms + longest_ms
    read = stream.of_types(distribution.types)
    first, last = (int(ms - origin_ms) // length_ms for ms in (stream.t_lo_ms.min() - after_ms, stream.t_hi_ms.max()))
    for number in range(first, last + 1):
        from_ms = origin_ms + number * length_ms
        to_ms = from_ms + length_ms
        needed = (read.t_lo_ms < to_ms + after_ms) & (read.t_hi_ms >= from_ms - before_ms)
        if needed.any():
            yield Part(read.where(needed), from_ms, to_ms)


def rows_of(queries: Sequence[CompiledQuery], part: Part, n_batches: int = 1) -> list[MatchRow]:
    """The rows of the last query that are the part's own; its events come in so many batches, in their order."""
    engine = Engine(queries, queries[-1].resolved.schema)
    ordered = part.events.sorted()
    found: list[MatchRow] = []
    for n in range(n_batches):
        start, stop = n * len(ordered) // n_batches, (n + 1) * len(ordered) // n_batches
        batch = EventBatch(ordered.table.slice(start, stop - start))
        found += engine.process(batch, int(batch.t_lo_ms[-1]) if len(batch) else -FOREVER_MS)
    found += engine.finish()
    own = [row for row in found if row.query == queries[-1].name]
    return [row for row in own if part.from_ms <= row.first_lo_ms < part.to_ms]


def comparable(rows: Sequence[MatchRow]) -> list[object]:
    """Rows in an order of their own, confidences as far as sums in another order agree."""
    listed = [
        (
            str(row.key), str(row.window), str(dict(row.bindings)), row.first_lo_ms, row.last_hi_ms,
            round(row.confidence, 9), str({n: _rounded(v) for n, v in row.values.items()}), row.count,
            str({v: sorted(ids) for v, ids in (row.candidates or {}).items()}), row.exact,
        )
        for row in rows
    ]  # fmt: skip
    return sorted(listed)


def _rounded(value: object) -> object:
    return round(value, 9) + 0.0 if isinstance(value, float) else value
