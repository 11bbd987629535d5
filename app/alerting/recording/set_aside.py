"""Episodes and rows of reports as text, while they wait in a checkpoint for their turn to be stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.hosts import Hosts
from app.alerting.recording import certainty
from app.alerting.recording.episodes import BoundMatch, Episode, canonical_key
from app.alerting.recording.extremes import Extremes, shown_match
from app.alerting.recording.found import Found
from app.alerting.recording.report_rows import LIVE
from app.json_text import json_text


def to_table(found: Found, queries: Mapping[str, QueryInfo], max_evidence_events: int) -> pa.Table:
    """All that has to be stored of what the live lane found; whether it is a row of a report, and its content."""
    episodes = [json_text(episode_json(e, queries[e.query], max_evidence_events)) for e in found.episodes]
    reports = [json_text(row) for row in found.reports]
    is_report = [False] * len(episodes) + [True] * len(reports)
    return pa.table(
        {"is_report": pa.array(is_report, pa.bool_()), "content": pa.array(episodes + reports, pa.large_string())}
    )


def from_table(table: pa.Table) -> Found:
    """What `to_table` was given, but its counters; raises KeyError, TypeError or ValueError for anything else."""
    episodes: list[Episode] = []
    reports: list[dict[str, Any]] = []
    for is_report, content in zip(*(table.column(name).to_pylist() for name in ("is_report", "content")), strict=True):
        found = json.loads(content)
        if is_report:
            reports.append(found)
        else:
            episodes.append(episode_of_json(found))
    return Found(LIVE, episodes, reports)


def episode_json(episode: Episode, info: QueryInfo, max_evidence_events: int) -> dict[str, Any]:
    """An episode; of its matches only that which it shows keeps its events, as an alert does."""
    shown = shown_match(episode.extremes, info.shown)
    bound = list(shown.evidence(max_evidence_events))
    return {
        "query": episode.query,
        "key": list(episode.key),
        "start_ms": episode.start_ms,
        "end_ms": episode.end_ms,
        "n_matches": episode.n_matches,
        "n_matches_exact": episode.n_matches_exact,
        "best_confidence": episode.best_confidence,
        "extremes": episode.extremes.to_json(),
        "hosts": episode.hosts.to_json(),
        "onset": episode.onset,
        "possible": episode.possible.to_json() or _bounds(episode),
        "shown": shown.digest,
        "bound": bound,
        "n_events": shown.n_events,
        **({"shed": True} if episode.shed else {}),
        **({"expectation": episode.expectation} if episode.expectation else {}),
        **({"members": sorted(map(list, episode.bound))} if episode.bound else {}),
        **({"claimed": True} if episode.is_claimed else {}),
    }


def episode_of_json(kept: Mapping[str, Any]) -> Episode:
    """What `episode_json` returned."""
    extremes = Extremes.from_json(kept["extremes"])
    for seen in extremes.all():
        if seen.digest == kept["shown"]:
            seen.set_events([(name, event_id) for name, event_id in kept["bound"]], kept["n_events"])
    key = tuple((name, value) for name, value in kept["key"])
    return Episode(
        query=kept["query"],
        key=key,
        key_text=canonical_key(key),
        start_ms=kept["start_ms"],
        end_ms=kept["end_ms"],
        n_matches=kept["n_matches"],
        n_matches_exact=kept["n_matches_exact"],
        best_confidence=kept["best_confidence"],
        extremes=extremes,
        hosts=Hosts.from_json(kept["hosts"]),
        onset=dict(kept["onset"]),
        possible=engine.Possibilities.from_json(kept["possible"]),
        shed=bool(kept.get("shed", False)),
        expectation=kept.get("expectation"),
        bound=frozenset(BoundMatch(query, key_text, at_ms) for query, key_text, at_ms in kept.get("members", ())),
        is_claimed=bool(kept.get("claimed", False)),
    )


def _bounds(episode: Episode) -> str:
    """Of more than is kept with an alert, what is kept of it."""
    text = certainty.bounds_of(certainty.roughly(episode.possible)).to_json()
    assert text is not None, "two numbers are short"
    return text


__all__ = ["episode_json", "episode_of_json", "from_table", "to_table"]
