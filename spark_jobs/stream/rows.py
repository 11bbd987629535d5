"""What buckets tell the driver, as rows: matches, evidence, late events, counters and problems.

Matches travel losslessly, so that alerting on the driver sees what the engine found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import LongType, StringType, StructField, StructType

import engine

if TYPE_CHECKING:
    from engine import MatchRow

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
    """A match as JSON; `match_of_row` reads it. `events`: the digest of those that a row comes without."""
    return json.dumps({"events": events, **engine.row_to_json(row)}, default=_plain)


def match_of(query: str, content: str) -> MatchRow:
    """The match that `match_content` wrote."""
    return match_of_row(query, content)[0]


def match_of_row(query: str, content: str) -> tuple[MatchRow, str | None]:
    """The match that `match_content` wrote, and the digest of its events where it comes without them."""
    found = json.loads(content)
    return engine.row_from_json(query, found), found["events"]


def event_content(event: Mapping[str, Any], **more: Any) -> str:
    """An event's columns as JSON."""
    return json.dumps({**event, **more}, default=_plain)


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
    "match_of_row",
]
