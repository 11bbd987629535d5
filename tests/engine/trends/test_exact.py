"""EXACT: whole numbers of any size up to the bits that are asked for, against Python's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.errors import UnsupportedQueryError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.row_json import row_from_json, row_to_json
from engine.matching.output.reading.trend_tables import trend_table
from engine.runtime.engine import Engine
from engine.trends import indexes
from tests.engine.trends.evaluation import evaluated
from tests.engine.trends.test_large_numbers import rows_of
from tests.examples import examples

NUMBERS = {"x": AttributeType.INT, "g": AttributeType.INT}
SCHEMA = EventSchema.of({"A": NUMBERS, "B": NUMBERS})
LARGEST = 2**53


@dataclass(frozen=True)
class Numbers:
    """Of the trends that end in an event: how many, events of A in them, their x, and how many of these there are."""

    n: int
    n_a: int
    x: int
    n_x: int

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(self.n + other.n, self.n_a + other.n_a, self.x + other.x, self.n_x + other.n_x)


NOTHING = Numbers(0, 0, 0, 0)


@dataclass(frozen=True)
class Case:
    """`(SEQ(A+, B))+`, or A+ alone, with a condition on neighbours among A or without."""

    rows: tuple[dict[str, Any], ...]
    has_b: bool
    is_rising: bool
    is_by_source: bool
    within: int
    slide: int
    cuts: tuple[int, ...]

    @property
    def query(self) -> str:
        pattern = "(SEQ(A+, B))+" if self.has_b else "A+"
        where = "WHERE A.x < NEXT(A).x" if self.is_rising else ""
        ties = "TIES SOURCE" if self.is_by_source else ""
        return (
            f"PATTERN {pattern} {where} GROUP BY g WITHIN {self.within} SLIDE {self.slide} {ties} EXACT 2000 BITS "
            "RETURN COUNT(*) AS n, COUNT(A) AS n_a, SUM(A.x) AS x, SUM(A.x) * COUNT(*) - COUNT(A) AS more, "
            "AVG(A.x) AS mean"
        )

    def expected(self) -> Iterator[tuple[tuple[int, int], int, Numbers]]:
        """Windows, groups and numbers, by the sums over all predecessors."""
        first = min(row["t_lo_ms"] - self.within for row in self.rows) // self.slide
        last = max(row["t_lo_ms"] for row in self.rows) // self.slide
        for k in range(first, last + 1):
            window = (k * self.slide, k * self.slide + self.within)
            for g in (1, 2):
                own = [row for row in self.rows if window[0] < row["t_lo_ms"] <= window[1] and row["g"] == g]
                total = self._total(own)
                if total.n:
                    yield window, g, total

    def _total(self, events: Sequence[dict[str, Any]]) -> Numbers:
        found: list[Numbers] = []
        total = NOTHING
        for at, event in enumerate(events):
            own = NOTHING if self.has_b and event["type"] == "B" else Numbers(1, 0, 0, 0)
            for before, its in zip(events[:at], found, strict=True):
                if self._are_adjacent(before, event):
                    own += its
            if event["type"] == "A":
                known = event["x"] is not None
                own = Numbers(own.n, own.n_a + own.n, own.x + own.n * (event["x"] or 0), own.n_x + own.n * known)
            elif not self.has_b:
                own = NOTHING
            found.append(own)
            if event["type"] == ("B" if self.has_b else "A"):
                total += own
        return total

    def _are_adjacent(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        if not self.is_by_source and one["t_lo_ms"] == other["t_lo_ms"]:
            return False
        kinds = one["type"] + other["type"]
        if kinds == "AA":
            values = one["x"], other["x"]
            return not self.is_rising or (None not in values and values[0] < values[1])
        return kinds in ("AB", "BA")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = st.sampled_from("AAAAB")
    value = st.one_of(st.integers(-LARGEST, LARGEST), st.sampled_from([LARGEST, -LARGEST, 0, None]))
    event = st.tuples(kinds, st.integers(0, 2), value, st.sampled_from([1, 1, 1, 2]))
    t_ms, rows = 0, []
    for kind, step, x, g in draw(st.lists(event, min_size=1, max_size=150)):
        t_ms += step
        at = {"t_lo_ms": t_ms, "t_hi_ms": t_ms, "source_rank": 0, "source_seq": len(rows)}
        rows.append({"event_id": f"e{len(rows)}", "type": kind, "x": x, "g": g, **at})
    slide = draw(st.sampled_from([7, 50, 200]))
    within = draw(st.sampled_from([slide, 2 * slide, slide + slide // 2]))
    cuts = draw(st.sets(st.integers(0, t_ms + 1), max_size=3))
    return Case(tuple(rows), *(draw(st.booleans()) for _ in range(3)), within, slide, tuple(sorted(cuts)))


@settings(max_examples=examples(100), deadline=None)
@given(cases())
def test_nothing_is_rounded(case: Case) -> None:
    query = compile_query(case.query, SCHEMA)
    stream = EventBatch.from_rows(case.rows, SCHEMA)
    expected = [
        (window, (("g", g),), (its.n, its.n_a, its.x if its.n_x else None, its.x * its.n - its.n_a))
        for window, g, its in case.expected()
    ]
    means = [its.x / its.n_x if its.n_x else None for _, _, its in case.expected()]
    whole = evaluated(query, stream, SCHEMA)
    assert [_retired(row) for row in whole] == [row if row[2][2] is not None else _unknown(row) for row in expected]
    assert [row.values["mean"] for row in whole] == [pytest.approx(mean, rel=1e-12) for mean in means]
    assert all(row.exact for row in whole)
    assert evaluated(query, stream, SCHEMA, case.cuts, restarts=True) == whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "LEAST_INDEXED", 0)
        patch.setattr(indexes, "WAITING_PER_ROOT", 0.0)
        assert evaluated(query, stream, SCHEMA, case.cuts) == whole


def _retired(row: MatchRow) -> tuple[Any, ...]:
    return row.window, row.key, tuple(_whole(row.values[name]) for name in ("n", "n_a", "x", "more"))


def _unknown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    window, key, (n, n_a, _, _) = row
    return window, key, (n, n_a, None, None)


def _whole(value: object) -> int | None:
    """Beyond 64 bits numbers are text."""
    if isinstance(value, str):
        assert abs(int(value)) >= 2**63
        return int(value)
    assert value is None or (isinstance(value, int) and abs(value) < 2**63)
    return value


@pytest.mark.parametrize("n", [1, 55, 56, 57, 63, 64, 112, 1000, 4000])
@pytest.mark.parametrize("where", ["", "WHERE A.x < NEXT(A).x", "WHERE A.x < NEXT(A).x AND A.y < NEXT(A).y"])
def test_all_subsequences(n: int, where: str) -> None:
    """Along sums, and under one inequality and two."""
    query = f"PATTERN A+ {where} WITHIN {n} SLIDE {n} EXACT RETURN COUNT(*) AS n, COUNT(A) AS a, SUM(A.x) AS x"
    (row,) = rows_of(query, list(range(n)))
    assert row.exact
    expected = {"n": 2**n - 1, "a": n * 2 ** (n - 1), "x": 2**n * n * (n - 1) // 4 if n > 1 else 0}
    assert {name: int(str(value)) for name, value in row.values.items()} == expected
    assert row_from_json(row.query, json.loads(json.dumps(row_to_json(row)))) == row


def test_tables_have_all_digits() -> None:
    query = compile_query("PATTERN A+ WITHIN 2000 SLIDE 2000 EXACT RETURN COUNT(*) AS n", SCHEMA)
    rows = [{"event_id": f"e{t}", "type": "A", "t_lo_ms": t, "t_hi_ms": t, "x": t, "g": 1} for t in range(1, 1501)]
    found = Engine([query], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    (emitted,) = trend_table(query.resolved, found).column("values").to_pylist()
    assert emitted == {"n": {"decimal": str(2**1500 - 1), "value": None}}


@pytest.mark.parametrize(("n", "bits"), [(64, 64), (1200, 1200)])
def test_what_has_more_bits_is_refused_with_its_size(n: int, bits: int) -> None:
    query = f"PATTERN A+ WITHIN 9000 SLIDE 9000 EXACT {bits} BITS"
    (row,) = rows_of(f"{query} RETURN COUNT(*) AS n", list(range(n)))
    assert int(str(row.values["n"])) == 2**n - 1
    with pytest.raises(UnsupportedQueryError, match=rf"n of the window .* has {n + 1:,} bits") as caught:
        rows_of(f"{query} RETURN COUNT(*) AS n", list(range(n + 1)))
    assert "leave EXACT out" in str(caught.value)
    with pytest.raises(UnsupportedQueryError, match=rf"COUNT\(\*\) of the window .* has about {3 * n + 1:,} bits"):
        rows_of(f"{query} RETURN COUNT(*) AS n", list(range(3 * n)))
    with pytest.raises(UnsupportedQueryError, match="a of the window"):
        rows_of(f"{query} RETURN COUNT(A) AS a", list(range(n)))


def test_windows_that_are_not_told_may_have_more() -> None:
    query = "PATTERN A+ WITHIN 9000 SLIDE 9000 EXACT 64 BITS HAVING COUNT(*) < 1000 RETURN COUNT(*) AS n"
    assert rows_of(query, list(range(2000))) == []


def test_sums_whose_terms_cancel_out_are_exact() -> None:
    values = [LARGEST, -LARGEST, LARGEST, -LARGEST + 1] * 100
    (row,) = rows_of("PATTERN A+ WITHIN 900 SLIDE 900 EXACT RETURN SUM(A.x) AS x", values)
    assert int(str(row.values["x"])) == 2**399 * 100


def test_among_intervals_that_leave_nothing_open_numbers_are_exact_and_among_others_expected() -> None:
    query = compile_query("PATTERN A+ WITHIN 500 SLIDE 500 EXACT RETURN COUNT(*) AS n", SCHEMA)
    (row,) = evaluated(query, _intervals(80, (90, 95)), SCHEMA)
    assert row.values == {"n": str(2**81 - 1)}
    assert row.expected is None
    (row,) = evaluated(query, _intervals(79, (79, 80)), SCHEMA)
    assert row.expected == "expected"
    assert row.values["n"] == pytest.approx(2**79 * 1.75, rel=1e-12)  # the last one follows the 79th, or only the 78th


def _intervals(n: int, last: tuple[int, int]) -> EventBatch:
    """Events at 1, 2, ..., n ms and one in an interval."""
    spans = [*((t, t) for t in range(1, n + 1)), last]
    rows = [
        {"event_id": f"e{k}", "type": "A", "t_lo_ms": lo, "t_hi_ms": hi, "source_seq": k, "x": k, "g": 1}
        for k, (lo, hi) in enumerate(spans)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def test_groups_of_several_partitions_are_put_together() -> None:
    query = compile_query("PATTERN A+ WHERE [x] WITHIN 500 SLIDE 500 EXACT RETURN COUNT(*) AS n", SCHEMA)
    rows = [{"event_id": f"e{k}", "type": "A", "t_lo_ms": k, "t_hi_ms": k, "x": k % 3, "g": 1} for k in range(1, 301)]
    (row,) = Engine([query], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    assert row.exact
    assert row.values == {"n": str(3 * (2**100 - 1))}
