"""The oracle's trends against worked examples, and against the rows of match queries."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.language.parser import parse
from engine.language.resolver import resolve
from engine.reference import ReferenceRow, reference_output
from tests.engine.trend_cases import GOLDEN, LONG, SCHEMA, stream


def output(query: str, text: str = LONG, **attr: int) -> list[ReferenceRow]:
    return reference_output(resolve(parse(query), SCHEMA, text=query), stream(text, **attr))


@pytest.mark.parametrize("name", GOLDEN)
def test_worked_examples(name: str) -> None:
    golden = GOLDEN[name]
    found = {row.window[0]: row.values for row in output(golden.query, golden.text, **golden.attr) if row.window}
    assert found == golden.rows


@pytest.mark.parametrize("ties", ["STRICT", "SOURCE"])
@pytest.mark.parametrize(
    ("trends", "matches"),
    [
        ("A+", "A+ a[]"),
        ("SEQ(A+, B)", "SEQ(A+ a[], B b)"),
        ("(SEQ(A, B))+", "(SEQ(A a, B b))+"),
        ("SEQ(A+, NOT E, B)", "SEQ(A+ a[], !E e, B b)"),
        ("A OR SEQ(A a2, B)", "OR(A a, SEQ(A a2, B b))"),
        ("SEQ(C?, A+, B)", "SEQ(C? c, A+ a[], B b)"),
    ],
)
def test_counts_are_those_of_match_queries(trends: str, matches: str, ties: str) -> None:
    clauses = f"WITHIN 5 SLIDE 2 TIES {ties}"
    rows = output(f"PATTERN {trends} {clauses} RETURN COUNT(*)")
    listed = output(f"PATTERN {matches} WHERE skip_till_any_match {clauses}")
    assert {row.window: row.values["count"] for row in rows} == dict(Counter(row.window for row in listed))


def test_groups_and_equivalence() -> None:
    rows = output("PATTERN SEQ(A, B) WHERE [attr] GROUP BY attr WITHIN 10 SLIDE 10 RETURN attr, COUNT(*)", a1=1, b2=1)
    assert [(row.key, row.values) for row in rows] == [((("attr", 1),), {"attr": 1, "count": 1})]
