"""What buckets tell the driver, as rows: matches, evidence, late events, counters and problems.

Matches travel losslessly, so that alerting on the driver sees what the engine found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import LongType, StringType, StructField, StructType

import engine

if TYPE_CHECKING:
    from engine import Binding, MatchRow

TOLD = StructType(
    [
        StructField("kind", StringType(), False),
        StructField("bucket_group", StringType(), False),
        StructField("bucket", LongType(), False),
        StructField("watermark_ms", LongType(), False),
        StructField("query", StringType(), True),
        StructField("content", StringType(), False),
    ]
)
"""Rows of the stream's output; `content` is JSON, `query` is set for matches."""

STATUS, MATCH, EVIDENCE, LATE = "status", "match", "evidence", "late"
"""Kinds: one status per bucket and call, one row per match, per event of the best matches, per late event."""


def match_content(row: MatchRow, events: str | None = None) -> str:
    """A match as JSON; `told_match` reads it. `events`: the digest of those that a row comes without."""
    possible = row.possible
    content: dict[str, object] = {
        "events": events,
        "key": [list(part) for part in row.key],
        "first_lo_ms": row.first_lo_ms,
        "last_hi_ms": row.last_hi_ms,
        "bindings": [[name, ids] for name, ids in row.bindings.items()],
        "confidence": row.confidence,
        "values": [[name, value] for name, value in row.values.items()],
        "count": row.count,
        "count_exact": row.count_exact,
        "candidates": None if row.candidates is None else [[name, ids] for name, ids in row.candidates.items()],
        "exact": row.exact,
        "capped": row.capped,
        "window": row.window,
        "last_lo_ms": row.last_lo_ms,
        "possible": None if possible is None else possible.to_json(),
    }
    return json.dumps(content, default=_plain)


def match_of(query: str, content: str) -> MatchRow:
    """The match that `match_content` wrote."""
    return told_match(query, content)[0]


def told_match(query: str, content: str) -> tuple[MatchRow, str | None]:
    """The match that `match_content` wrote, and the digest of its events where it comes without them."""
    found = json.loads(content)
    candidates, window, possible = found["candidates"], found["window"], found["possible"]
    row = engine.MatchRow(
        query=query,
        key=tuple((name, value) for name, value in found["key"]),
        first_lo_ms=found["first_lo_ms"],
        last_hi_ms=found["last_hi_ms"],
        bindings={name: _binding(ids) for name, ids in found["bindings"]},
        confidence=found["confidence"],
        values=dict(found["values"]),
        count=found["count"],
        count_exact=found["count_exact"],
        candidates=None if candidates is None else {name: tuple(ids) for name, ids in candidates},
        exact=found["exact"],
        capped=found["capped"],
        window=None if window is None else (window[0], window[1]),
        last_lo_ms=found["last_lo_ms"],
        possible=None if possible is None else engine.Possibilities.from_json(possible),
    )
    return row, found["events"]


def event_content(event: Mapping[str, Any], **more: Any) -> str:
    """An event's columns as JSON."""
    return json.dumps({**event, **more}, default=_plain)


def _binding(ids: Iterable[Any]) -> Binding:
    return cast("Binding", tuple(entry if isinstance(entry, str) else _binding(entry) for entry in ids))


def _plain(value: Any) -> object:
    """Kernels that run uncompiled return NumPy's numbers."""
    return value.item()


__all__ = [
    "EVIDENCE",
    "LATE",
    "MATCH",
    "STATUS",
    "TOLD",
    "event_content",
    "match_content",
    "match_of",
    "told_match",
]
