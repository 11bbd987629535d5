"""Requests to evaluate a query."""

from __future__ import annotations

import pytest

from app.query_messages import QueryRequest
from engine.errors import UnsupportedQueryError
from tests.engine.trends.trend_strategies import SCHEMA


@pytest.mark.parametrize("pattern", ["A+", "AND(A, B)", "A{1000}"])
def test_trends_are_refused_before_anything_is_planned(pattern: str) -> None:
    request = QueryRequest(f"PATTERN {pattern} WITHIN 10 SLIDE 5 RETURN COUNT(*)", {}, None, None)
    with pytest.raises(UnsupportedQueryError, match="queries about trends are not evaluated here"):
        request.compiled(SCHEMA)
