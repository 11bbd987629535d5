"""Trend queries (GRETA, Definition 2): what they are made of, and what they are refused for."""

from __future__ import annotations

import pytest

from engine.errors import QueryError
from engine.language.ast import Attribute, Comparison, Index, Strategy, Ties, TrendAggregate
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import resolve
from tests.engine.trend_cases import GOLDEN, SCHEMA

Q2 = """
RETURN g, SUM(M.x), COUNT(*) AS n
PATTERN SEQ(A S, B M+, C E)
WHERE [g, attr] AND M.x < NEXT(M).x
GROUP-BY g WITHIN 1 minute SLIDE 30 seconds
HAVING AVG(M.x) > 3 AND g != 'idle'
"""


def test_the_papers_second_query() -> None:
    query = parse(Q2)
    assert query.is_trend
    assert query.group_by == ("g",)
    assert query.predicates == (Comparison("<", Attribute("M", Index.SINGLE, "x"), Attribute("M", Index.NEXT, "x")),)
    assert [item.expression for item in query.returns] == [
        Attribute("", Index.SINGLE, "g"),
        TrendAggregate("sum", "M", "x"),
        TrendAggregate("count"),
    ]
    assert [item.name for item in query.returns] == ["g", "sum_x", "n"]
    resolved = resolve(query, SCHEMA, text=Q2)
    assert (resolved.query.strategy, resolved.query.ties) == (Strategy.SKIP_TILL_ANY_MATCH, Ties.STRICT)
    assert resolved.key == ("g", "attr")


@pytest.mark.parametrize("text", [Q2, *(golden.query for golden in GOLDEN.values()), Q2 + "EXACT"])
def test_printed_and_parsed_again_they_are_the_same(text: str) -> None:
    assert parse(print_query(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("PATTERN A+ WITHIN 1 SLIDE 1 RETURN SUM(A.g)", "SUM of A's g, which is text"),
        ("PATTERN NOT A WITHIN 1 SLIDE 1 RETURN COUNT(*)", "NOT is the outermost operator"),
        ("PATTERN A+ a[] WITHIN 1 SLIDE 1 RETURN COUNT(*), avg(a[].x)", "about the events of one match"),
        ("PATTERN A+ a[] WITHIN 1 SLIDE 1 HAVING count(a[]) > 1 RETURN COUNT(*)", "about the events of one match"),
        ("PATTERN A+ GROUP BY nosuch WITHIN 1 SLIDE 1 RETURN COUNT(*)", "no event of the pattern has the attribute"),
        ("PATTERN A+ WITHIN 1 RETURN COUNT(*)", "has no SLIDE duration"),
        ("PATTERN A+ SLIDE 1 RETURN COUNT(*)", "has no WITHIN duration"),
        ("PATTERN A+ WITHIN 0 SLIDE 1 RETURN COUNT(*)", "WITHIN no time"),
        ("PATTERN A+ WITHIN 3 EVENTS SLIDE 1 RETURN COUNT(*)", "has no WITHIN duration"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 RETURN COUNT(B)", "the pattern has no variable B"),
        ("PATTERN SEQ(A+, NOT B) WITHIN 1 SLIDE 1 RETURN COUNT(B)", "B is negated"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 RETURN COUNT(*), A.x", "is a value of one event"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 RETURN COUNT(*), x", "a row stands for all trends"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 OUTPUT COUNT RETURN COUNT(*)", "OUTPUT in a query about trends"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 LIMIT 3 RETURN COUNT(*)", "LIMIT in a query about trends"),
        ("PATTERN SEQ(A, B) WHERE A.x < B.x WITHIN 1 SLIDE 1 RETURN COUNT(*)", "nor about two neighbours"),
        ("PATTERN A+ WHERE NEXT(A).x > 1 WITHIN 1 SLIDE 1 RETURN COUNT(*)", "nor about two neighbours"),
        ("PATTERN A+ a[] WHERE a[i].x > a[i-1].x WITHIN 1 SLIDE 1 RETURN COUNT(*)", "about the events of one match"),
        ("PATTERN SEQ(A, NOT B, C) WHERE A.x < NEXT(B).x WITHIN 1 SLIDE 1 RETURN COUNT(*)", "never neighbours"),
        ("PATTERN (SEQ(NOT C, A, B))+ WITHIN 1 SLIDE 1 RETURN COUNT(*)", "NOT at the edge of a part"),
        ("PATTERN SEQ(A, NOT SEQ(NOT C, D), B) WITHIN 1 SLIDE 1 RETURN COUNT(*)", "NOT at the edge of a part"),
        ("PATTERN SEQ(A, NOT B?, C) WITHIN 1 SLIDE 1 RETURN COUNT(*)", "negated pattern can match without any event"),
        ("PATTERN SEQ(A, NOT B*, C) WITHIN 1 SLIDE 1 RETURN COUNT(*)", "negated pattern can match without any event"),
        ("PATTERN A* WITHIN 1 SLIDE 1 RETURN COUNT(*)", "can match without any event"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 RETURN stddev(A.x)", "no aggregate over trends"),
        ("PATTERN A+ WITHIN 1 SLIDE 1 RETURN COUNT(A.x)", "counts values"),
        ("PATTERN A+ WHERE COUNT(*) > 1 WITHIN 1 SLIDE 1 RETURN COUNT(*)", "in RETURN and HAVING alone|of which there"),
        ("PATTERN A+ a[] WHERE skip_till_any_match WITHIN 1 GROUP BY x", "GROUP BY groups trends"),
        ("PATTERN A+ a[] WHERE skip_till_any_match WITHIN 1 EXACT", "EXACT is about aggregates over trends"),
        ("PATTERN A+ a[] WHERE a.x < NEXT(a).x WITHIN 1", "the query aggregates no trends"),
        ("PATTERN A+ GROUP BY x, x WITHIN 1 SLIDE 1 RETURN COUNT(*)", "GROUP BY names x twice"),
    ],
)
def test_what_is_refused_says_why(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        resolve(parse(query), SCHEMA, text=query)
    error = caught.value
    assert error.expected or error.remedy
