"""Aggregates over trends: drawn queries and streams, in pieces and with restarts, against all trends by definition."""

from __future__ import annotations

from collections import Counter

from engine import compile_query
from engine.errors import QueryError
from engine.reference import reference_output
from tests.engine.trends.evaluation import check, check_events, check_overlaps, evaluated
from tests.engine.trends.sharing import check_sharing
from tests.engine.trends.trend_strategies import SCHEMA, SharingCase, TrendCase


def look_at_trends(case: TrendCase) -> None:
    """What the planner takes has the rows of the oracle; explain and its graph are there."""
    try:
        query = compile_query(case.query, SCHEMA)
    except QueryError:
        return
    assert query.explain()
    assert query.dot()
    check(query, case)
    check_events(compile_query(f"{case.query} ALERT warning 'found'", SCHEMA), case)


def look_at_alike(both: tuple[TrendCase, str]) -> None:
    """Of each window as many trends as rows of the same query about matches."""
    case, text = both
    try:
        trends = compile_query(case.query, SCHEMA)
    except QueryError:
        return
    found = {row.window: row.values["n"] for row in evaluated(trends, case.stream, SCHEMA)}
    matches = compile_query(text, SCHEMA)
    assert found == Counter(row.window for row in evaluated(matches, case.stream, SCHEMA))
    assert found == Counter(row.window for row in reference_output(matches.resolved, case.stream))


def look_at_overlaps(case: TrendCase) -> None:
    """The same over events whose times are intervals; what the oracle gives up on is left out."""
    try:
        query = compile_query(case.query, SCHEMA)
        reference_output(query.resolved, case.stream)
    except QueryError:
        return
    check_overlaps(query, case)
    check_events(compile_query(f"{case.query} ALERT warning 'found'", SCHEMA), case)


def look_at_shared_trends(case: SharingCase) -> None:
    """Several queries in one engine, with restarts, reloads and threads, against each alone."""
    check_sharing(case)


__all__ = ["look_at_alike", "look_at_overlaps", "look_at_shared_trends", "look_at_trends"]
