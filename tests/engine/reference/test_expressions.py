"""Expressions: three-valued logic, exact arithmetic, terms over Kleene events."""

from __future__ import annotations

import math

import pytest

from engine.events import EventBatch
from engine.language.parser import parse_expression
from engine.reference.expressions import evaluate, truth
from engine.reference.observed import ObservedEvent, observe
from tests.engine.strategies import SCHEMA


def bound(*rows: dict[str, object]) -> tuple[ObservedEvent, ...]:
    named = [
        {"event_id": str(n), "type": "A", "t_lo_ms": n, "source_rank": 0, "source_seq": n, **row}
        for n, row in enumerate(rows)
    ]
    return tuple(observe(EventBatch.from_rows(named, SCHEMA), SCHEMA))


BINDING = {
    "a": bound({"x": 7, "y": 0.5, "s": "ok"}),
    "n": bound({"x": None, "y": math.nan, "s": None}),
    "b": bound({"x": 1, "y": 1.0}, {"x": 4}, {"x": 2, "y": 3.0}),
    "e": bound({"x": None}, {"x": None}),
    "i": bound({"y": math.inf}),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.x = 7", True),
        ("a.x != 7", False),
        ("a.s = 'ok'", True),
        ("a.s != 'bad'", True),
        ("n.x = n.x", None),
        ("n.y = n.y", None),
        ("n.s = 'ok'", None),
        ("NOT n.x = 1", None),
        ("n.x = 1 OR a.x = 7", True),
        ("n.x = 1 OR a.x = 8", None),
        ("n.x = 1 AND a.x = 8", False),
        ("n.x = 1 AND a.x = 7", None),
        ("a.x IN (1, 7)", True),
        ("a.x IN (1, NULL)", None),
        ("a.x IN (7, NULL)", True),
        ("a.x NOT IN (1, 2)", True),
        ("a.x / 0 = 1", None),
        ("a.x % 0 = 1", None),
        ("a.x / 2 = 3.5", True),
        ("-a.x % 4 = -3", True),
        ("a.x % -4 = 3", True),
        ("1 / 3 * 3 = 1", True),
        ("0.1 + 0.2 = 0.3", False),  # the doubles that were written, added exactly
        ("i.y > 1000000", True),
        ("i.y - i.y = 0", None),
        ("i.y % 3 = 0", None),
        ("a.x % i.y = 7", True),
        ("a.timestamp = 0", True),
        ("sum(b[].x) = 7", True),
        ("avg(b[].x) * 3 = 7", True),
        ("avg(b[].y) = 2", True),  # the unknown one is left out
        ("count(b[].y) = 2", True),
        ("count(b[]) = 3", True),
        ("min(b[].x) = 1 AND max(b[].x) = 4", True),
        ("first(b[].x) = 1 AND last(b[].x) = 2", True),
        ("sum(e[].x) = 0", None),
        ("count(e[].x) = 0", True),
        ("max(b[..b.len-1].x) = 4", True),
        ("sum(b[..b.len-1].x) = 5", True),
        ("b[1].x = 1 AND b[b.len].x = 2", True),
    ],
)
def test_value(text: str, value: bool | None) -> None:
    assert truth(parse_expression(text), BINDING, 1) is value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("b[i].x > b[i-1].x", {2: True, 3: False}),
        ("b[i].x > max(b[..i-1].x)", {2: True, 3: False}),
        ("avg(b[..i-1].x) = 2.5", {2: False, 3: True}),
        ("count(b[..i-1].x) = 1", {2: True, 3: False}),
    ],
)
def test_terms_at_i(text: str, values: dict[int, bool]) -> None:
    assert {i: truth(parse_expression(text), BINDING, i) for i in values} == values


def test_standard_deviation_is_that_of_the_population() -> None:
    value = evaluate(parse_expression("stddev(b[].x)"), BINDING, 1)
    assert value == pytest.approx(math.sqrt(14 / 9))
