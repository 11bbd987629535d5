"""Large batches under one inequality, where sums are brought from half to half, against sums over all pairs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import ge, gt, le, lt

import numpy as np
import pytest

from engine.compiled.query import compile_query
from engine.events import EventBatch
from engine.trends import indexes
from tests.engine.trends.evaluation import evaluated
from tests.engine.trends.trend_strategies import SCHEMA

N_EVENTS = 700
OPS = {"<": lt, "<=": le, ">": gt, ">=": ge}
Compare = Callable[[float, float], bool]


def stream(n_values: int, most_alike: int) -> EventBatch:
    """`most_alike`: how many events have one time at most; some have no x."""
    random = np.random.default_rng(n_values + most_alike)
    alike = random.integers(1, most_alike + 1, N_EVENTS)
    t_ms = 1 + np.repeat(np.arange(N_EVENTS), alike)[:N_EVENTS]
    x = random.integers(0, n_values, N_EVENTS).astype(object)
    x[random.random(N_EVENTS) < 0.02] = None
    kinds = random.choice(list("AAB"), N_EVENTS)
    rows = [
        {
            "event_id": f"e{n}", "type": str(kinds[n]), "t_lo_ms": int(t_ms[n]), "t_hi_ms": int(t_ms[n]),
            "source_rank": 0, "source_seq": n, "x": x[n], "y": float(random.integers(0, n_values)), "g": "u",
        }
        for n in range(N_EVENTS)
    ]  # fmt: skip
    return EventBatch.from_rows(rows, SCHEMA)


def by_definition(
    batch: EventBatch, compare: Compare, within: int, slide: int, *, by_position: bool
) -> list[list[int]]:
    """Of `SEQ(A+, B)`, A followed by larger (smaller, ...) A and by any B whose y compares so: for each window with a
    trend how many there are, and the sum of x over all."""
    rows = list(zip(*(batch.table.column(name).to_pylist() for name in ("type", "t_lo_ms", "x", "y")), strict=True))
    found = []
    for window in range(-(within // slide), rows[-1][1] // slide + 1):
        inside = [
            (position, *row) for position, row in enumerate(rows) if window * slide < row[1] <= window * slide + within
        ]
        before: list[tuple[int, int | None, int, int]] = []  # order, x, trends that end here and their sum
        count = total = 0
        for position, kind, t_ms, x, y in inside:
            order = position if by_position else t_ms
            value = x if kind == "A" else y
            own = [
                each for each in before
                if each[0] < order and value is not None and each[1] is not None and compare(each[1], value)
            ]  # fmt: skip
            n, s = sum(each[2] for each in own), sum(each[3] for each in own)
            if kind == "B":
                count, total = count + n, total + s
            else:
                before.append((order, x, n + 1, s + (n + 1) * (x or 0)))
        if count:
            found.append([count, total])
    return found


@pytest.mark.parametrize("op", list(OPS))
@pytest.mark.parametrize(("n_values", "most_alike", "ties"), [(9, 1, ""), (10_000, 40, ""), (60, 40, "TIES SOURCE")])
@pytest.mark.parametrize(("within", "slide"), [(1_000, 1_000), (300, 100)])
def test_every_pair_meets_once(
    op: str, n_values: int, most_alike: int, ties: str, within: int, slide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact while numbers fit, then up to rounding; in one batch and in some, with restarts, in blocks of any size."""
    batch = stream(n_values, most_alike)
    text = (
        f"PATTERN SEQ(A+, B) WHERE A.x {op} NEXT(A).x AND A.x {op} NEXT(B).y WITHIN {within} SLIDE {slide} {ties} "
        "RETURN COUNT(*), SUM(A.x)"
    )
    query = compile_query(text, SCHEMA)
    expected = by_definition(batch, OPS[op], within, slide, by_position=bool(ties))
    assert expected
    end_ms = int(batch.t_lo_ms[-1])
    monkeypatch.setattr(indexes, "LEAST_INDEXED", 20)
    for least, block, cuts in ((16, 16, ()), (4, 2, (end_ms // 2,)), (1, 3, (end_ms // 3, end_ms // 3 + 5, end_ms))):
        monkeypatch.setattr(indexes, "LEAST_AHEAD", least)
        monkeypatch.setattr(indexes, "BLOCK", block)
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
