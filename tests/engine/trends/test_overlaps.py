"""Trends over events whose times are intervals, against every possible world."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import FOREVER_MS, EventBatch
from engine.matching.output.match_row import Expectation
from engine.matching.protocol import Limits
from engine.reference import reference_output
from engine.runtime.engine import Engine
from tests.engine.trends.evaluation import check_events, check_overlaps, evaluated
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, overlap_cases
from tests.examples import examples


def events(*times: tuple[str, int, int], **more: list[Any]) -> EventBatch:
    rows = [
        {
            "event_id": f"e{n}",
            "type": kind,
            "t_lo_ms": lo,
            "t_hi_ms": hi,
            "source_rank": 0,
            "source_seq": n,
            **{name: values[n] for name, values in more.items()},
        }
        for n, (kind, lo, hi) in enumerate(times)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


@settings(max_examples=examples(200), deadline=None)
@given(overlap_cases())
def test_rows_are_expected_values_over_all_worlds(case: TrendCase) -> None:
    query = _planned(case)
    try:
        reference_output(query.resolved, case.stream)
    except UnsupportedQueryError:  # too many worlds
        assume(False)
    check_overlaps(query, case)


@settings(max_examples=examples(60), deadline=None)
@given(overlap_cases(max_events=5))
def test_events_of_alerts(case: TrendCase) -> None:
    query = _planned(case)
    try:
        check_events(compile_query(f"{case.query} ALERT warning 'found'", SCHEMA), case)
    except UnsupportedQueryError:
        assume(False)
    assert query.explain()


def _planned(case: TrendCase) -> CompiledQuery:
    try:
        return compile_query(case.query, SCHEMA)
    except QueryError:
        assume(False)
        raise


TWO = compile_query("PATTERN A+ WITHIN 10 SLIDE 10 RETURN COUNT(*)", SCHEMA)


def test_an_event_is_in_a_trend_once() -> None:
    """Each alone, and one of the two pairs where the times differ: 2 + 6/9. A walk that comes back has 74/27."""
    stream = events(("A", 1, 3), ("A", 1, 3))
    (row,) = evaluated(TWO, stream, SCHEMA)
    assert row.values["count"] == pytest.approx(72 / 27, rel=1e-15)
    assert row.expected is Expectation.EXPECTED
    assert not row.exact


def _drawn(n: int, kind: str, t: int, width: int, **values: Any) -> dict[str, Any]:
    times = {"t_lo_ms": t, "t_hi_ms": t + width, "source_rank": 0, "source_seq": n}
    return {"event_id": f"e{n}", "type": kind, **times, **dict.fromkeys(SCHEMA.types[kind]), **values}


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        pytest.param(
            "PATTERN SEQ(A p, A+ q) WHERE [p.x] GROUP BY g WITHIN 8 SLIDE 8 TIES SOURCE RETURN COUNT(*), AVG(p.y) AS a",
            (_drawn(0, "A", 12, 4, x=0, y=0.5, g="v", h=2),),
            id="read by all of the key and by a part of it",
        ),
        pytest.param(
            "PATTERN SEQ(A, B+, C) WHERE [g, h] WITHIN 1 SLIDE 1 RETURN COUNT(*)",
            (_drawn(0, "A", 0, 1, g="u", h=1), _drawn(1, "A", 0, 0, g="u", h=2)),
            id="a batch without an interval of its own",
        ),
        pytest.param(
            "PATTERN SEQ(A+ p, B, A+ q) WITHIN 8 SLIDE 5 RETURN COUNT(*)",
            (_drawn(0, "A", 8, 11), _drawn(1, "B", 10, 11)),
            id="a bound where no world has a trend",
        ),
    ],
)
def test_found_by_the_search(query: str, rows: tuple[dict[str, Any], ...]) -> None:
    for cuts in ((), (0,), (1,)):
        check_overlaps(compile_query(query, SCHEMA), TrendCase(query, rows, cuts))


@pytest.mark.parametrize(("capacity", "n_ways_back"), [(3, 0), (2, 6), (1, 6), (0, 6)])
def test_without_room_a_way_back_counts_and_the_row_says_so(capacity: int, n_ways_back: int) -> None:
    """Three events, of which one alone and two pairs; sequences of three have one each, or come back (A B A)."""
    (row,) = evaluated(TWO, events(*[("A", 1, 3)] * 3), SCHEMA, limits=Limits(trend_overlap=capacity))
    assert row.values["count"] == pytest.approx(3 + 3 * 6 / 9 + (6 + n_ways_back) / 27, rel=1e-14)
    assert row.expected is (Expectation.UPPER_BOUND if n_ways_back else Expectation.EXPECTED)


def test_without_room_walks_alone_are_a_row_that_says_so() -> None:
    """A B A with one A: in a world where A is before B, and in another where it is behind it."""
    query = compile_query("PATTERN SEQ(A p, B, A q) WITHIN 10 SLIDE 10 RETURN COUNT(*)", SCHEMA)
    stream = events(("A", 1, 3), ("B", 2, 2))
    assert evaluated(query, stream, SCHEMA) == []
    (row,) = evaluated(query, stream, SCHEMA, limits=Limits(trend_overlap=0))
    assert row.values["count"] == pytest.approx(1 / 9, rel=1e-14)
    assert row.expected is Expectation.UPPER_BOUND


def test_what_cannot_come_back_needs_no_room() -> None:
    query = compile_query("PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 20 SLIDE 20 RETURN COUNT(*)", SCHEMA)
    stream = events(*(("A", 1, 9) for _ in range(12)), x=list(range(12)))
    (row,) = evaluated(query, stream, SCHEMA, limits=Limits(trend_overlap=0))
    # C(12, k) sets of k events, in the one order of their values with probability C(9, k) / 9^k
    expected = sum(_choose(12, k) * _choose(9, k) / 9**k for k in range(1, 10))
    assert row.values["count"] == pytest.approx(expected, rel=1e-12)
    assert row.expected is Expectation.EXPECTED


@pytest.mark.parametrize(
    ("pattern", "may_return"),
    [
        ("SEQ(A p, A q)", False),
        ("A{1,2}", False),
        ("SEQ(B?, A p, A q, C)", False),
        ("A{1,3}", True),
        ("SEQ(A p, B, A q)", True),
        ("SEQ(A p, B?, A q)", True),
        ("(SEQ(A, B))+", True),
    ],
)
def test_two_events_in_a_row_are_no_way_back(pattern: str, may_return: bool) -> None:
    """None comes directly after itself: room for sets is needed where another one may lie between."""
    query = compile_query(f"PATTERN {pattern} WITHIN 10 SLIDE 10 RETURN COUNT(*) AS n", SCHEMA)
    assert ("may come to themselves again" in query.explain()) is may_return
    stream = events(("A", 1, 3), ("A", 1, 3), ("B", 2, 4), ("A", 2, 4), ("C", 3, 6))
    (expected,) = reference_output(query.resolved, stream)
    (row,) = evaluated(query, stream, SCHEMA, limits=Limits(trend_overlap=0))
    assert row.expected is (Expectation.UPPER_BOUND if may_return else Expectation.EXPECTED)
    found, exact = row.values["n"], expected.values["n"]
    assert isinstance(found, float)
    assert isinstance(exact, float)
    assert found > exact if may_return else found == pytest.approx(exact, rel=1e-12)


def _choose(n: int, k: int) -> float:
    found = 1.0
    for i in range(k):
        found *= (n - i) / (i + 1)
    return found


def test_intervals_that_leave_nothing_open_count_as_exact_times() -> None:
    (row,) = evaluated(TWO, events(("A", 1, 3), ("A", 4, 4), ("A", 5, 9)), SCHEMA)
    assert row.values["count"] == 7
    assert isinstance(row.values["count"], int)
    assert row.exact
    assert row.expected is None


def test_a_window_has_the_part_of_an_interval_that_lies_in_it() -> None:
    rows = evaluated(TWO, events(("A", 8, 12)), SCHEMA)
    assert {row.window: row.values["count"] for row in rows} == pytest.approx({(0, 10): 3 / 5, (10, 20): 2 / 5})


def test_having_compares_the_expected_value() -> None:
    stream = events(("A", 1, 3), ("A", 1, 3))
    for bound, n_rows in (("2.6", 1), ("2.7", 0)):
        query = compile_query(f"PATTERN A+ WITHIN 10 SLIDE 10 HAVING COUNT(*) > {bound} RETURN COUNT(*)", SCHEMA)
        assert len(evaluated(query, stream, SCHEMA)) == n_rows


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("PATTERN SEQ(A+, NOT C, B)", {}),
        ("PATTERN A+", {"skew_ms": [0, 1, 0]}),
        ("PATTERN A+", {"weights": [None, [0.5, 0.25, 0.25], None]}),
        ("PATTERN A+", {"clock_id": ["k", "k", "k"]}),
    ],
)
def test_what_cannot_be_taken_is_left_out_and_counted(query: str, more: dict[str, list[Any]]) -> None:
    compiled = compile_query(f"{query} WITHIN 20 SLIDE 20 RETURN COUNT(*)", SCHEMA)
    running = Engine([compiled], SCHEMA)
    running.process(events(("A", 1, 1), ("A", 1, 3), ("B", 9, 9), **more), 5)
    again = Engine([compiled], SCHEMA)
    again.restore(running.save())
    for each in (running, again):
        (row,) = each.process(EventBatch.empty(), FOREVER_MS)
        assert row.values["count"] == 1
        assert each.statistics[compiled.name].n_rejected == 1


def test_many_events_within_one_interval_are_not_held_for_ever() -> None:
    """Each of 600 may come before or after the one with the interval: that is told apart for 512."""
    times = [("A", 1, 900), *(("A", t, t) for t in range(2, 602))]
    query = compile_query("PATTERN A{1,2} WITHIN 1000 SLIDE 1000 RETURN COUNT(*)", SCHEMA)
    (row,) = evaluated(query, events(*times), SCHEMA)
    assert row.values["count"] == pytest.approx(601 + 601 * 600 / 2 - 600 / 900, rel=1e-12)
    query = compile_query("PATTERN A+ WITHIN 1000 SLIDE 1000 RETURN COUNT(*)", SCHEMA)
    (row,) = evaluated(query, events(*times), SCHEMA)
    assert row.expected is Expectation.UPPER_BOUND


def test_too_many_at_once_are_left_out_and_counted() -> None:
    query = compile_query("PATTERN A WITHIN 1000 SLIDE 1000 RETURN COUNT(*)", SCHEMA)
    running = Engine([query], SCHEMA)
    (row,) = running.process(events(*[("A", 1, 900)] * 520), FOREVER_MS)
    assert row.values["count"] == pytest.approx(512)
    assert running.statistics[query.name].n_rejected == 8


def test_many_that_overlap_have_an_end() -> None:
    """A chain without a gap: what is over is let go, and what is open is told as an upper bound."""
    query = compile_query("PATTERN A+ WITHIN 20 SLIDE 20 RETURN COUNT(*)", SCHEMA)
    running = Engine([query], SCHEMA, limits=Limits(trend_overlap=2))
    rows = []
    for n in range(0, 400, 10):
        rows += running.process(events(*(("A", n + k, n + k + 14) for k in range(10))), n + 10)
        assert running.statistics[query.name].n_kept < 60
    assert len(rows) == 20  # from (-20, 0] to (360, 380]
    assert rows[0].expected is Expectation.EXPECTED  # it has one event alone
    assert all(row.expected is Expectation.UPPER_BOUND for row in rows[1:])


def test_an_event_without_the_group_is_told_of_in_each_partition_that_it_leaves() -> None:
    query = "PATTERN SEQ(A, C*, B) GROUP BY h WITHIN 40 SLIDE 40 RETURN COUNT(*) ALERT warning 'found'"
    rows = [
        *({"type": "A", "t_lo_ms": 1 + h, "t_hi_ms": 3 + h, "h": h} for h in (1, 2)),
        {"type": "C", "t_lo_ms": 3, "t_hi_ms": 8},
        *({"type": "B", "t_lo_ms": 7 + h, "t_hi_ms": 9 + h, "h": h} for h in (1, 2)),
        *({"type": "A", "t_lo_ms": 30 + h, "t_hi_ms": 30 + h, "h": h} for h in (1, 2)),
    ]
    numbered = [{"event_id": f"e{n}", "source_rank": 0, "source_seq": n, **row} for n, row in enumerate(rows)]
    case = TrendCase(query, tuple(numbered), ())
    check_events(compile_query(query, SCHEMA), case)
