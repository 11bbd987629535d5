"""Rows of reports: what a query without alerts finds, and what a finished job's history corrects of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.alerting.catalog import QueryInfo
from app.alerting.episodes import canonical_key, is_exact, report_id
from app.alerting.match import Match
from app.alerting.text import fill
from app.store.models import ReportRow
from app.store.storable import storable_values
from app.store.writer import Writer

LIVE = "live"
HISTORY = "history"


def write_reports(
    writer: Writer,
    queries: Mapping[str, QueryInfo],
    matches: Sequence[Match],
    *,
    lane: str,
    events: Mapping[int, str],
    now_ms: int,
) -> int:
    """Write the rows of those matches that are of reports; returns how many are new.

    `events`: the engine.bindings_digest of rows that come without their events, by place in `matches`.
    """
    return writer.add_reports(
        _report_row(info, match, lane, events.get(position), now_ms)
        for position, match in enumerate(matches)
        if (info := queries[match.query]).is_report
    )


def remove_incomplete(writer: Writer, queries: Mapping[str, QueryInfo], matches: Sequence[Match]) -> None:
    """Remove rows that an incomplete live view gave for the queries and keys of matches that are complete."""
    complete: dict[tuple[str, str], list[Match]] = {}
    for match in matches:
        if queries[match.query].is_report and match.key:
            complete.setdefault((match.query, canonical_key(match.key)), []).append(match)
    for (query, key_text), found in complete.items():
        query_hash = queries[query].hash
        writer.remove_reports(
            query,
            key_text,
            LIVE,
            min(match.first_lo_ms for match in found),
            max(match.last_hi_ms for match in found),
            keep={report_id(query, query_hash, match, key_text) for match in found},
        )


def _report_row(info: QueryInfo, match: Match, lane: str, events: str | None, now_ms: int) -> ReportRow:
    key, key_text = dict(match.key), canonical_key(match.key)
    return ReportRow(
        id=report_id(match.query, info.hash, match, key_text, events),
        query=match.query,
        query_hash=info.hash,
        key=storable_values(key),
        key_text=key_text,
        start_ms=match.first_lo_ms,
        end_ms=match.last_hi_ms,
        confidence=match.confidence,
        n_matches=match.count,
        n_matches_exact=is_exact(match),
        values=storable_values(match.values),
        summary=fill(info.summary, {**key, **match.values, "query": match.query}),
        lane=lane,
        created_ms=now_ms,
    )


__all__ = ["HISTORY", "LIVE", "remove_incomplete", "write_reports"]
