"""Large batches under one inequality and two, where sums are brought from half to half, against sums over all pairs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import pytest

from engine.compiled.query import compile_query
from engine.events import EventBatch
from engine.plan.trends.model import JoinWay
from engine.trends import indexes
from tests.engine.trends.evaluation import evaluated
from tests.engine.trends.trend_strategies import SCHEMA

N_EVENTS = 700
OPS = {"<": lt, "<=": le, ">": gt, ">=": ge}
Compare = Callable[[float, float], bool]
Pairs = Callable[[Any, Any, str], list[tuple[Compare, float | None, float | None]]]
"""What is compared: of x and y of an earlier A, and of a later event, which is of a type."""


def stream(n_values: int, most_alike: int) -> EventBatch:
    """`most_alike`: how many events have one time at most; some have no x. Without `n_values` A and B take turns,
    and the n-th of both have one value, which no other has."""
    random = np.random.default_rng(n_values + most_alike)
    alike = random.integers(1, most_alike + 1, N_EVENTS)
    t_ms = 1 + np.repeat(np.arange(N_EVENTS), alike)[:N_EVENTS]
    x = random.integers(0, max(1, n_values), N_EVENTS).astype(object)
    x[random.random(N_EVENTS) < 0.02] = None
    y = random.integers(0, max(1, n_values), N_EVENTS).astype(np.float64)
    y[random.random(N_EVENTS) < 0.02] = np.nan
    kinds = random.choice(list("AAB"), N_EVENTS)
    if n_values == 0:
        kinds = np.tile(["A", "B"], N_EVENTS // 2)
        x = np.repeat(random.permutation(N_EVENTS // 2), 2).astype(object)
        y = x.astype(np.float64)
    rows = [
        {
            "event_id": f"e{n}", "type": str(kinds[n]), "t_lo_ms": int(t_ms[n]), "t_hi_ms": int(t_ms[n]),
            "source_rank": 0, "source_seq": n, "x": x[n], "y": float(y[n]), "g": "u",
        }
        for n in range(N_EVENTS)
    ]  # fmt: skip
    return EventBatch.from_rows(rows, SCHEMA)


def by_definition(batch: EventBatch, pairs: Pairs, within: int, slide: int, *, by_position: bool) -> list[list[int]]:
    """Of `SEQ(A+, B)`, A followed by any A and B of which all pairs compare so: for each window with a trend how many
    there are, and the sum of x over all."""
    rows = list(zip(*(batch.table.column(name).to_pylist() for name in ("type", "t_lo_ms", "x", "y")), strict=True))
    found = []
    for window in range(-(within // slide), rows[-1][1] // slide + 1):
        inside = [
            (position, *row) for position, row in enumerate(rows) if window * slide < row[1] <= window * slide + within
        ]
        before: list[tuple[int, Any, int, int]] = []  # order, x and y, trends that end here and their sum
        count = total = 0
        for position, kind, t_ms, x, y in inside:
            order = position if by_position else t_ms
            own = [each for each in before if each[0] < order and follows(pairs(each[1], (x, y), kind))]
            n, s = sum(each[2] for each in own), sum(each[3] for each in own)
            if kind == "B":
                count, total = count + n, total + s
            else:
                before.append((order, (x, y), n + 1, s + (n + 1) * (x or 0)))
        if count:
            found.append([count, total])
    return found


def follows(pairs: list[tuple[Compare, float | None, float | None]]) -> bool:
    """A NULL or NaN compares to nothing."""
    return all(
        one is not None and other is not None and one == one and other == other and compare(one, other)
        for compare, one, other in pairs
    )


def check(text: str, pairs: Pairs, batch: EventBatch, within: int, slide: int, ties: str) -> None:
    """Exact while numbers fit, then up to rounding; in one batch and in some, with restarts, in blocks and tiles of any
    size."""
    query = compile_query(f"{text} WITHIN {within} SLIDE {slide} {ties} RETURN COUNT(*), SUM(A.x)", SCHEMA)
    expected = by_definition(batch, pairs, within, slide, by_position=bool(ties))
    assert expected
    end_ms = int(batch.t_lo_ms[-1])
    parts = (
        (16, 16, 512, 2**20, ()), (4, 2, 7, 2**20, (end_ms // 2,)),
        (1, 3, 1, 2**20, (end_ms // 3, end_ms // 3 + 5, end_ms)), (2, 2, 64, 300, (end_ms // 3,)),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "LEAST_INDEXED", 20)
        for least, block, tile, most, cuts in parts:
            patch.setattr(indexes, "LEAST_AHEAD", least)
            patch.setattr(indexes, "BLOCK", block)
            patch.setattr(indexes, "TILE", tile)
            patch.setattr(indexes, "MOST_AHEAD", most)
            for restarts in (False, True):
                rows = evaluated(query, batch, SCHEMA, cuts, restarts=restarts)
                assert len(rows) == len(expected)
                for row, numbers in zip(rows, expected, strict=True):
                    for name, number in zip(("count", "sum_x"), numbers, strict=True):
                        value = row.values[name]
                        assert isinstance(value, int | float | str)
                        if number < 2**61:
                            assert value == number
                        assert abs(Fraction(value) - number) <= Fraction(number, 10**10)


STREAMS = [(9, 1, ""), (10_000, 40, ""), (60, 300, ""), (60, 40, "TIES SOURCE")]
"""How many values there are, how many events have one time at most, and the clause of ties."""

WINDOWS = [(1_000, 1_000), (300, 100)]


@pytest.mark.parametrize("op", list(OPS))
@pytest.mark.parametrize(("n_values", "most_alike", "ties"), [*STREAMS, (0, 1, "")])
@pytest.mark.parametrize(("within", "slide"), WINDOWS)
def test_every_pair_meets_once(op: str, n_values: int, most_alike: int, ties: str, within: int, slide: int) -> None:
    def pairs(one: Any, other: Any, kind: str) -> list[tuple[Compare, float | None, float | None]]:
        return [(OPS[op], one[0], other[0 if kind == "A" else 1])]

    text = f"PATTERN SEQ(A+, B) WHERE A.x {op} NEXT(A).x AND A.x {op} NEXT(B).y"
    check(text, pairs, stream(n_values, most_alike), within, slide, ties)


@pytest.mark.parametrize(("within", "slide"), [(1_000, 1_000), (600, 300)])
def test_numbers_of_several_scales_meet(within: int, slide: int) -> None:
    """Any of 460 A may follow another, so that the later ones end up to 2^460 trends; B takes those of smaller values,
    whose numbers are doubles of two scales in any order."""

    def pairs(one: Any, other: Any, kind: str) -> list[tuple[Compare, float | None, float | None]]:
        return [(lt, one[0], other[1])] if kind == "B" else []

    batch = stream(1_000, 1)
    check("PATTERN SEQ(A+, B) WHERE A.x < NEXT(B).y", pairs, batch, within, slide, "")
    assert by_definition(batch, pairs, 1_000, 1_000, by_position=False)[0][0] > 2**400


@pytest.mark.parametrize(("op", "second"), [("<", "<"), ("<=", ">"), (">", ">="), (">=", "<")])
@pytest.mark.parametrize(("n_values", "most_alike", "ties"), STREAMS)
@pytest.mark.parametrize(("within", "slide"), WINDOWS)
def test_every_pair_meets_once_under_two(
    op: str, second: str, n_values: int, most_alike: int, ties: str, within: int, slide: int
) -> None:
    """Between A and B the values are others, one of them calculated."""

    def pairs(one: Any, other: Any, kind: str) -> list[tuple[Compare, float | None, float | None]]:
        if kind == "A":
            return [(OPS[op], one[0], other[0]), (OPS[second], one[1], other[1])]
        return [(OPS[op], one[0], other[1]), (OPS[second], one[1], None if other[0] is None else other[0] + 1)]

    text = (
        f"PATTERN SEQ(A+, B) WHERE A.x {op} NEXT(A).x AND A.y {second} NEXT(A).y AND A.x {op} NEXT(B).y "
        f"AND A.y {second} NEXT(B).x + 1"
    )
    assert {join.way for join in compile_query(f"{text} WITHIN 9 SLIDE 9 RETURN COUNT(*)", SCHEMA).plan.joins} == {
        JoinWay.DOMINANCE
    }
    check(text, pairs, stream(n_values, most_alike), within, slide, ties)


@pytest.mark.parametrize(
    ("conditions", "n_pairs"),
    [
        ("A.x <= NEXT(B).x", 300 * 301 // 2),
        ("A.x < NEXT(B).x", 300 * 299 // 2),
        ("A.x < NEXT(B).x AND A.y <= NEXT(B).y", 300 * 299 // 2),
        ("A.x <= NEXT(B).x AND A.y > NEXT(B).x - 2", 300 + 299),
    ],
)
def test_events_of_two_types_with_the_same_values_in_the_same_order_stay_two(conditions: str, n_pairs: int) -> None:
    """As starts and ends of tasks have them: what follows is no copy of what is followed."""
    rows = [
        {
            "event_id": f"{kind}{n}", "type": kind, "t_lo_ms": t_ms, "t_hi_ms": t_ms, "source_rank": 0,
            "source_seq": t_ms, "x": n, "y": float(n), "g": "u",
        }
        for n in range(300)
        for kind, t_ms in (("A", 2 * n + 1), ("B", 2 * n + 2))
    ]  # fmt: skip
    query = compile_query(f"PATTERN SEQ(A, B) WHERE {conditions} WITHIN 999 SLIDE 999 RETURN COUNT(*)", SCHEMA)
    (row,) = evaluated(query, EventBatch.from_rows(rows, SCHEMA), SCHEMA)
    assert row.values["count"] == n_pairs
