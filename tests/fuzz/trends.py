"""Aggregates over trends: drawn queries and streams, in pieces and with restarts, against all trends by definition."""

from __future__ import annotations

from engine import compile_query
from engine.errors import QueryError
from tests.engine.trends.evaluation import check, check_events
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase


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


__all__ = ["look_at_trends"]
