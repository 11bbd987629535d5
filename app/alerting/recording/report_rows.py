"""Rows of reports: what a query without alerts finds."""

from __future__ import annotations

from typing import Any

from app.alerting.catalog import QueryInfo
from app.alerting.recording.episodes import canonical_key, is_exact, report_id
from app.alerting.recording.match import Match
from app.alerting.text import fill
from app.store.storable import storable_values

LIVE = "live"
HISTORY = "history"


def report_row(info: QueryInfo, match: Match, lane: str, events: str | None = None) -> dict[str, Any]:
    """The columns of ReportRow, but when it is written.

    `events`: the engine.bindings_digest of a match that comes without its events.
    """
    key, key_text = dict(match.key), canonical_key(match.key)
    return {
        "id": report_id(match.query, info.hash, match, key_text, events),
        "query": match.query,
        "query_hash": info.hash,
        "key": storable_values(key),
        "key_text": key_text,
        "start_ms": match.first_lo_ms,
        "end_ms": match.last_hi_ms,
        "confidence": match.confidence,
        "n_matches": match.count,
        "n_matches_exact": is_exact(match),
        "values": storable_values(match.values),
        "summary": fill(info.summary, {**key, **match.values, "query": match.query}),
        "lane": lane,
    }


__all__ = ["HISTORY", "LIVE", "report_row"]
