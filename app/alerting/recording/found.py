"""What matches come to before the store is asked: episodes, and rows of reports. Small enough to be set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.alerting.catalog import QueryInfo
from app.alerting.recording.episodes import (
    NOTHING_MISSING,
    Episode,
    FindMatch,
    canonical_key,
    group,
    is_shed,
    nothing_found,
)
from app.alerting.recording.match import Match
from app.alerting.recording.report_rows import LIVE, report_row

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WholeReport:
    """All rows of one report and key that there are in a closed interval."""

    query: str
    key_text: str
    from_ms: int
    to_ms: int
    ids: frozenset[str]


@dataclass(frozen=True)
class Found:
    """By the matches of one lane."""

    lane: str
    episodes: Sequence[Episode] = ()
    """In the order of `app.alerting.recording.episodes.group`."""
    reports: Sequence[Row] = ()
    """Columns of ReportRow, but when it is written."""
    whole: Sequence[WholeReport] = ()
    """Of a finished job: what these rows replace."""
    counters: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Rows and matches: (statistic, lane, query)."""

    @property
    def n_rows(self) -> Counter[str]:
        """Rows that queries returned."""
        return Counter({query: n for (name, _, query), n in self.counters.items() if name == "rows"})


def found_in(
    matches: Sequence[Match],
    queries: Mapping[str, QueryInfo],
    lane: str = LIVE,
    events: Mapping[int, str] | None = None,
    *,
    missing_until_ms: Mapping[str, int] = NOTHING_MISSING,
    find: FindMatch = nothing_found,
) -> Found:
    """Take matches apart, in one pass over them; `missing_until_ms`: see `episodes.is_shed`; `find`: the
    matches that incidents bind.

    `events`: the engine.bindings_digest of rows of reports that come without their events, by place in `matches`.
    """
    digests = events or {}
    counters: Counter[tuple[str, str, str]] = Counter()
    reports: list[Row] = []
    alerting: list[Match] = []
    for position, match in enumerate(matches):
        counters["rows", lane, match.query] += 1
        counters["matches", lane, match.query] += match.count
        info = queries[match.query]
        if info.is_report:
            row = report_row(info, match, lane, digests.get(position))
            reports.append({**row, "n_matches_exact": False} if is_shed(match, missing_until_ms) else row)
        else:
            alerting.append(match)
    whole = () if lane == LIVE else _whole(reports)
    return Found(lane, group(alerting, queries, missing_until_ms, find), reports, whole, counters)


def _whole(reports: Sequence[Row]) -> list[WholeReport]:
    by_key: dict[tuple[str, str], list[Row]] = {}
    of_all = canonical_key(())
    for row in reports:
        if row["key_text"] != of_all:
            by_key.setdefault((row["query"], row["key_text"]), []).append(row)
    return [
        WholeReport(
            query,
            key_text,
            min(row["start_ms"] for row in rows),
            max(row["end_ms"] for row in rows),
            frozenset(row["id"] for row in rows),
        )
        for (query, key_text), rows in by_key.items()
    ]


__all__ = ["Found", "WholeReport", "found_in"]
