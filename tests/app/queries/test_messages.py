"""Requests to evaluate a query."""

from __future__ import annotations

import pytest

from app.queries.messages import QueryRequest
from engine.errors import UnsupportedQueryError
from tests.engine.trends.trend_strategies import SCHEMA


def asked(pattern: str) -> QueryRequest:
    return QueryRequest(f"PATTERN {pattern} WITHIN 10 SLIDE 5 RETURN COUNT(*)", {}, None, None)


def test_a_query_about_trends_is_compiled_as_any_other() -> None:
    (query,) = asked("A+").compiled(SCHEMA)
    assert query.resolved.is_trend
    with pytest.raises(UnsupportedQueryError, match="1000 repetitions are told apart"):
        asked("A{1000}").compiled(SCHEMA)
