"""Counts beyond 64 bits and beyond doubles, against whole numbers of any size."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.output.match_row import MatchRow
from engine.runtime.engine import Engine
from engine.trends.numbers import Scaled, calculated, simplest
from tests.examples import examples

SCHEMA = EventSchema.of({"A": {"x": AttributeType.INT, "y": AttributeType.FLOAT}})


def rows_of(query: str, values: list[int]) -> list[MatchRow]:
    n = len(values)
    columns = {
        "event_id": [f"e{k}" for k in range(n)],
        "type": ["A"] * n,
        "t_lo_ms": np.arange(1, n + 1),
        "t_hi_ms": np.arange(1, n + 1),
        "source_rank": np.zeros(n, np.int64),
        "source_seq": np.arange(n),
        "x": np.array(values),
        "y": np.array(values, np.float64) / 4,
    }
    running = Engine([compile_query(query, SCHEMA)], SCHEMA)
    return list(running.process(EventBatch.from_columns(columns, SCHEMA), FOREVER_MS))


def number(value: object) -> Fraction:
    """Of a row: a number, or the decimals of one beyond all doubles."""
    assert isinstance(value, int | float | str)
    return Fraction(value)


@pytest.mark.parametrize("n", [1, 61, 62, 63, 64, 100, 1000, 1100, 5000])
@pytest.mark.parametrize("where", ["", "WHERE A.x < NEXT(A).x", "WHERE A.x < NEXT(A).x AND A.y < NEXT(A).y"])
def test_all_subsequences(n: int, where: str) -> None:
    """Values that rise: every subsequence is a trend, along sums, and under one inequality and two."""
    query = f"PATTERN A+ {where} WITHIN {n} SLIDE {n} RETURN COUNT(*), COUNT(A), SUM(A.x), AVG(A.y), MAX(A.x)"
    (row,) = rows_of(query, list(range(n)))
    count, total = 2**n - 1, 2 ** (n - 1) * n * (n - 1) // 2
    assert row.exact is (n < 57)  # the sum is larger than the count
    assert row.values["max_x"] == n - 1
    assert float(number(row.values["avg_y"])) == pytest.approx((n - 1) / 8, rel=1e-9)
    for name, expected in (("count", count), ("count_A", n * 2 ** (n - 1)), ("sum_x", total)):
        found = number(row.values[name])
        assert abs(found - expected) <= Fraction(expected) * n * Fraction(1, 2**51)
        if expected < 2**61:
            assert found == expected


def test_having_compares_what_no_double_holds() -> None:
    values = list(range(2000))
    assert rows_of("PATTERN A+ WITHIN 2000 SLIDE 2000 HAVING COUNT(*) > 1e300 RETURN COUNT(*)", values)
    assert not rows_of("PATTERN A+ WITHIN 2000 SLIDE 2000 HAVING COUNT(A) < COUNT(*) RETURN COUNT(*)", values)
    (row,) = rows_of("PATTERN A+ WITHIN 2000 SLIDE 2000 RETURN COUNT(A) / COUNT(*) AS per", values)
    assert row.values["per"] == pytest.approx(1000.0)


@pytest.mark.parametrize(("n", "is_exact"), [(62, True), (63, False)])
def test_arithmetic_that_leaves_64_bits_is_not_exact(n: int, is_exact: bool) -> None:
    (row,) = rows_of(f"PATTERN A+ WITHIN {n} SLIDE {n} RETURN COUNT(*) * 2 AS twice", list(range(n)))
    assert row.exact is is_exact
    assert isinstance(row.values["twice"], int) is is_exact


@pytest.mark.parametrize(("n", "is_exact"), [(62, True), (63, False)])
def test_partitions_of_a_group_whose_sum_leaves_64_bits_are_not_exact(n: int, is_exact: bool) -> None:
    query = "PATTERN A+ WHERE [x] WITHIN 200 SLIDE 200 RETURN COUNT(*)"
    (row,) = rows_of(query, [0] * n + [1] * n)
    assert row.exact is is_exact
    assert number(row.values["count"]) == (2 * (2**n - 1) if is_exact else 2**64)


def test_remainders_of_whole_numbers_are_exact() -> None:
    (row,) = rows_of("PATTERN A+ WITHIN 200 SLIDE 200 RETURN COUNT(*), COUNT(*) % 10 AS r", list(range(60)))
    assert row.values["r"] == (2**60 - 1) % 10 == 5
    assert [calculated("%", left, right) for left, right in ((7, 3), (-7, 3), (7, -3), (-7, -3))] == [1, -1, 1, -1]


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", math.inf, 0.0, math.inf),
        ("+", 0, math.inf, math.inf),
        ("-", 0.0, math.inf, -math.inf),
        ("*", math.inf, 0.0, None),
        ("/", math.inf, 0.0, None),
        ("/", 1.0, math.inf, 0.0),
        ("+", math.inf, -math.inf, None),
        ("+", 2**4000, math.inf, math.inf),  # whole ones of any size: EXACT
        ("-", math.inf, 2**4000, math.inf),
        ("*", -(2**4000), math.inf, -math.inf),
        ("/", 2**4000, math.inf, 0.0),
        ("/", math.inf, -(2**4000), -math.inf),
        ("%", 2**4000, 2.5, None),
        ("%", 2.5, 2**4000, 2.5),
    ],
)
def test_infinite_operands(op: str, left: float, right: float, expected: float | None) -> None:
    assert calculated(op, left, right) == expected


NUMBERS = st.one_of(st.integers(-(2**3000), 2**3000), st.floats(allow_nan=False, allow_infinity=False))


@settings(max_examples=examples(300), deadline=None)
@given(NUMBERS, NUMBERS, st.sampled_from("+-*/"))
def test_arithmetic_has_the_precision_of_doubles(left: float, right: float, op: str) -> None:
    a, b = Fraction(left), Fraction(right)
    if op == "/" and not b:
        assert calculated(op, left, right) is None
        return
    exact = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[op]
    found = calculated(op, simplest(left), simplest(right))
    assert found is not None
    value = _value(found)
    scale = abs(a) + abs(b) if op in "+-" else abs(exact)
    tiny = Fraction(1, 2**1070)  # doubles end there
    assert abs(value - exact) <= scale * Fraction(1, 2**49) + tiny


@settings(max_examples=examples(200), deadline=None)
@given(NUMBERS, NUMBERS)
def test_order_is_that_of_the_numbers(left: float, right: float) -> None:
    a, b = simplest(left), simplest(right)
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        assert (Scaled.of(a) < Scaled.of(b)) == (_value(Scaled.of(a)) < _value(Scaled.of(b)))


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 2**5000))
def test_decimals_have_all_digits(value: int) -> None:
    found = Scaled.of(value)
    assert abs(Fraction(str(found)) - _value(found)) <= _value(found) * Fraction(1, 10**16)


def _value(number: float | Scaled) -> Fraction:
    if isinstance(number, Scaled):
        return Fraction(number.mantissa) * Fraction(2) ** number.exponent
    return Fraction(number)


@pytest.mark.parametrize("largest", [1, 1000, 2**52, 2**53])
@pytest.mark.parametrize("n_times", [1, 3, 40])
def test_many_events_of_one_time(largest: int, n_times: int) -> None:
    """They are in no trend together; their values are negative, NULL or very large among others."""
    random = np.random.default_rng(largest + n_times)
    n = 300 * n_times
    values = [None if x % 7 == 0 else int(x) for x in random.integers(-largest // 3, largest, n, endpoint=True)]
    times = np.arange(n) // 300 + 1
    rows = [
        {"event_id": f"e{k}", "type": "A", "t_lo_ms": int(t), "t_hi_ms": int(t), "source_seq": k, "x": values[k]}
        for k, t in enumerate(times)
    ]
    query = (
        "PATTERN A+ WITHIN 50 SLIDE 50 RETURN COUNT(*) AS n, COUNT(A) AS a, SUM(A.x) AS s, AVG(A.x) AS mean, "
        "MIN(A.x) AS least, MAX(A.x) AS most"
    )
    (row,) = Engine([compile_query(query, SCHEMA)], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    count = events = total = magnitude = n_known = 0
    for t in range(1, n_times + 1):
        own = [values[k] for k in np.flatnonzero(times == t)]
        known = [x for x in own if x is not None]
        each = 1 + count
        count, events = count + len(own) * each, events + len(own) * (events + each)
        total += len(own) * total + sum(known) * each
        magnitude += len(own) * magnitude + sum(map(abs, known)) * each
        n_known += len(own) * n_known + len(known) * each
    rel = 1e-12
    assert float(number(row.values["n"])) == pytest.approx(float(count), rel=rel)
    assert float(number(row.values["a"])) == pytest.approx(float(events), rel=rel)
    assert abs(number(row.values["s"]) - total) <= magnitude * Fraction(1, 10**12)
    assert abs(number(row.values["mean"]) - Fraction(total, n_known)) <= Fraction(magnitude, n_known) / 10**12
    everything = [x for x in values if x is not None]
    assert (row.values["least"], row.values["most"]) == (min(everything), max(everything))
    if max(count, events, magnitude) < 2**61:
        assert (row.values["n"], row.values["a"], row.values["s"]) == (count, events, total)
        assert row.exact


def _same_time(values: list[float | None], name: str = "y", t_ms: int = 100) -> list[dict[str, object]]:
    return [
        {"event_id": f"e{t_ms}-{k}", "type": "A", "t_lo_ms": t_ms, "t_hi_ms": t_ms, "source_seq": k, name: value}
        for k, value in enumerate(values)
    ]


def _only_row(query: str, rows: list[dict[str, object]]) -> MatchRow:
    (row,) = Engine([compile_query(query, SCHEMA)], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    return row


def test_large_values_of_one_time_do_not_become_infinite() -> None:
    query = "PATTERN A+ WITHIN 500 SLIDE 500 RETURN SUM(A.y) AS s, AVG(A.y) AS mean"
    row = _only_row(query, _same_time([1.5e308, 1.5e308, None, -1.5e308]))
    assert row.values == {"s": 1.5e308, "mean": pytest.approx(5e307)}
    row = _only_row(query, _same_time([1.5e308, 1.5e308]))
    assert float(number(row.values["s"]) / 10**300) == pytest.approx(3e8)
    assert _only_row(query, _same_time([1.0, math.inf, 1.0])).values["s"] == math.inf


@pytest.mark.parametrize("n_last", [1, 3])
def test_counts_of_one_variable_are_exact_up_to_2_63_also_of_one_time(n_last: int) -> None:
    query = "PATTERN SEQ(A+ p, A q) WHERE p.x < 2 AND q.x > 2 WITHIN 500 SLIDE 500 RETURN COUNT(*) AS n, COUNT(q) AS q"
    n = 61 if n_last == 3 else 62
    before = [row for t in range(1, n + 1) for row in _same_time([1], "x", t)]
    row = _only_row(query, before + _same_time([3] * n_last, "x"))
    total = n_last * (2**n - 1)
    assert (row.values["n"], row.values["q"]) == (total, total)
