"""Trends under skip till next match and the contiguities: as many as there are matches, and by definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError
from engine.events import FOREVER_MS, EventBatch
from engine.parallel import workers
from engine.plan.trends.shared import shared_by
from engine.reference import reference_output
from engine.runtime import engine as engine_module
from engine.runtime.engine import Engine
from tests.engine.trend_cases import SCHEMA as GOLDEN_SCHEMA
from tests.engine.trend_cases import stream as golden_stream
from tests.engine.trends.evaluation import check, check_events, evaluated
from tests.engine.trends.trend_strategies import ALIKE, SCHEMA, TrendCase, alike_cases, selecting_cases
from tests.examples import examples

NEXT, PARTITION, STRICT = "skip_till_next_match", "partition_contiguity", "strict_contiguity"
FALLING = "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10"
PRICES = dict(zip(FALLING.split(), (10, 2, 9, 8, 7, 1, 6, 5, 4, 3), strict=True))
"""GRETA's stock prices (section 2)."""


def compiled(text: str) -> CompiledQuery:
    try:
        return compile_query(text, SCHEMA)
    except QueryError:
        assume(False)
        raise


def counts(query: str, text: str, ties: str = "", attr: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
    rows = evaluated(
        compile_query(f"{query} {ties} WITHIN 20 SLIDE 20 RETURN COUNT(*), COUNT(A)", GOLDEN_SCHEMA),
        golden_stream(text, **(attr or {})), GOLDEN_SCHEMA,
    )  # fmt: skip
    return [dict(row.values) for row in rows]


@pytest.mark.parametrize(
    ("strategy", "count", "count_a"),
    # From each price on, a run: 10 2 1, 2 1, 9 8 7 1, 8 7 1, 7 1, 1, 6 5 4 3, 5 4 3, 4 3, 3, of any length.
    [
        (NEXT, 3 + 2 + 4 + 3 + 2 + 1 + 4 + 3 + 2 + 1, 6 + 3 + 10 + 6 + 3 + 1 + 10 + 6 + 3 + 1),
        # But 10 2 ends at the 9 that comes next, and so does 2.
        (PARTITION, 2 + 1 + 4 + 3 + 2 + 1 + 4 + 3 + 2 + 1, 3 + 1 + 10 + 6 + 3 + 1 + 10 + 6 + 3 + 1),
        (STRICT, 2 + 1 + 4 + 3 + 2 + 1 + 4 + 3 + 2 + 1, 3 + 1 + 10 + 6 + 3 + 1 + 10 + 6 + 3 + 1),
    ],
)
def test_falling_prices(strategy: str, count: int, count_a: int) -> None:
    query = f"PATTERN A+ WHERE {strategy} AND A.attr > NEXT(A).attr"
    assert counts(query, FALLING, attr=PRICES) == [{"count": count, "count_A": count_a}]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        # The B takes a1 and a2, which b4 finds no more.
        (f"PATTERN SEQ(A, B) WHERE {NEXT}", "a1 a2 b3 b4", 2),
        # The second a1 may not follow the first one, and leaves it to a2: each alone, and a2 after either.
        (f"PATTERN A+ WHERE {NEXT}", "a1 a1 a2", 5),
        # a2 takes a1; going on to B leaves a1 a2 and a2 behind, which b4 finds once more.
        (f"PATTERN SEQ(A+, B) WHERE {NEXT}", "a1 a2 b3 b4", 2 + 2),
        # Each way for itself: a1 b3 without, and a1 c2 b3 with a C.
        (f"PATTERN SEQ(A, C?, B) WHERE {NEXT}", "a1 c2 b3", 2),
        # Negated events hide b3, which takes a1 all the same.
        (f"PATTERN SEQ(A, NOT C, B) WHERE {NEXT}", "a1 c2 b3 b4", 0),
        # No event at its bound is taken: both B find a1 a2.
        (f"PATTERN SEQ(A{{2,2}}, B) WHERE {NEXT}", "a1 a2 b3 b4", 2),
        # Events without a role lie between.
        (f"PATTERN SEQ(A, B) WHERE {STRICT}", "a1 e2 b3 a4 b5", 1),
        (f"PATTERN SEQ(A, B) WHERE {PARTITION}", "a1 e2 b3 a4 b5", 1),
        (f"PATTERN SEQ(A, B) WHERE {NEXT}", "a1 e2 b3 a4 b5", 2),
    ],
)
def test_worked_by_hand(query: str, text: str, expected: int) -> None:
    found = counts(query, text)
    assert [row["count"] for row in found] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("strategy", "strict", "source"),
    # By ties strict the first b2 takes a1, the second one may follow none; a1 b2 b2' where they are in order.
    [(NEXT, 1, 2), (PARTITION, 1, 2), (STRICT, 1, 2)],
)
def test_events_of_one_time(strategy: str, strict: int, source: int) -> None:
    query = f"PATTERN SEQ(A, B+) WHERE {strategy}"
    assert [row["count"] for row in counts(query, "a1 b2 b2")] == [strict]
    assert [row["count"] for row in counts(query, "a1 b2 b2", "TIES SOURCE")] == [source]


@settings(max_examples=examples(300), deadline=None)
@given(alike_cases())
def test_there_are_as_many_trends_as_matches(both: tuple[TrendCase, str]) -> None:
    """By both oracles and both engines."""
    case, text = both
    trends, matches = compiled(case.query), compile_query(text, SCHEMA)
    found = {row.window: row.values["n"] for row in evaluated(trends, case.stream, SCHEMA)}
    assert found == Counter(row.window for row in evaluated(matches, case.stream, SCHEMA))
    assert found == {row.window: row.values["n"] for row in reference_output(trends.resolved, case.stream)}
    assert found == Counter(row.window for row in reference_output(matches.resolved, case.stream))


@pytest.mark.parametrize("pattern", ALIKE)
@pytest.mark.parametrize("strategy", [NEXT, PARTITION, STRICT])
def test_patterns_that_are_compared_with_matches_are_evaluated(pattern: str, strategy: str) -> None:
    """But for one that reads a trend in several ways."""
    query = f"PATTERN {pattern} WHERE {strategy} WITHIN 9 SLIDE 9 RETURN COUNT(*)"
    if strategy == NEXT and "{1,2} OR" in pattern:
        with pytest.raises(QueryError, match="what it skips depends on which"):
            compile_query(query, SCHEMA)
        return
    assert compile_query(query, SCHEMA)


@settings(max_examples=examples(150), deadline=None)
@given(selecting_cases())
def test_rows_are_those_of_the_definitions_however_the_stream_is_cut(case: TrendCase) -> None:
    """Saved and restored after each part, with partitions that begin anew, and of which events they are."""
    check(compiled(case.query), case)
    check_events(compiled(f"{case.query} ALERT warning 'found'"), case)


@settings(max_examples=examples(40), deadline=None)
@given(selecting_cases())
def test_threads_change_no_row(case: TrendCase) -> None:
    compiled(case.query)
    queries = [
        compile_query(f"{case.query}{ending}", SCHEMA, name=f"q{n}")
        for n, ending in enumerate(("", ", COUNT(*) AS again"))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "LEAST_EVENTS", 0)
        patch.setattr(engine_module, "LEAST_EVENTS", 0)
        rows = Engine(queries, SCHEMA, threads=2).process(case.stream, FOREVER_MS)
    alone = [row for query in queries for row in Engine([query], SCHEMA).process(case.stream, FOREVER_MS)]
    assert sorted(map(repr, rows)) == sorted(map(repr, alone))


def test_queries_of_different_strategies_share_nothing() -> None:
    text = "PATTERN A+ {} WITHIN 9 SLIDE 9 RETURN COUNT(*)"
    wheres = ["", *(f"WHERE {strategy}" for strategy in (NEXT, PARTITION, STRICT))]
    plans = {where: compile_query(text.format(where), SCHEMA).plan for where in wheres}
    assert shared_by(plans) == {}
    again = compile_query(text.format(f"WHERE {NEXT}").replace("COUNT(*)", "SUM(A.x)"), SCHEMA).plan
    assert set(shared_by({**plans, "again": again})) == {f"WHERE {NEXT}", "again"}


@pytest.mark.parametrize(("strategy", "count"), [(NEXT, 3), (PARTITION, 2), (STRICT, 2)])
def test_events_with_intervals_are_left_out_and_lie_between(strategy: str, count: int) -> None:
    """As among matches."""
    times = [(1, 1), (2, 5), (6, 6)]
    rows = [
        {"event_id": f"e{n}", "type": "A", "t_lo_ms": lo, "t_hi_ms": hi, "source_rank": 0, "source_seq": n,
         "x": 1, "y": 1.0, "g": "u", "h": 1}
        for n, (lo, hi) in enumerate(times)
    ]  # fmt: skip
    stream = EventBatch.from_rows(rows, SCHEMA)
    texts = [f"PATTERN A+ {a} WHERE {strategy} AND [g] WITHIN 9 SLIDE 9 RETURN {n}" for a, n in
             (("a", "COUNT(*) AS n"), ("a[]", "a[1].x AS n"))]  # fmt: skip
    running = Engine([compile_query(text, SCHEMA, name=f"q{n}") for n, text in enumerate(texts)], SCHEMA)
    found = running.process(stream, FOREVER_MS)
    assert [row.values["n"] for row in found if row.query == "q0"] == [count]
    assert len([row for row in found if row.query == "q1"]) == count
    assert {counted.n_rejected for counted in running.statistics.values()} == {1}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"PATTERN A+ WHERE {NEXT} AND [A.x]", r"\[A.x\] in trends under skip_till_next_match"),
        (f"PATTERN SEQ(A+ p, A+ q) WHERE {NEXT}", "an event as p or as q, and under skip_till_next_match"),
        (f"PATTERN (A+){{2}} WHERE {NEXT}", "an event of A in several repetitions"),
        (f"PATTERN A+ AND B+ WHERE {STRICT}", "pairs of trends"),
        (f"PATTERN SEQ(A+, NOT SEQ(C, D)) WHERE {PARTITION}", "only the absence of single events at the end"),
    ],
)
def test_what_is_not_evaluated_is_refused_by_name(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        compile_query(f"{query} WITHIN 9 SLIDE 9 RETURN COUNT(*)", SCHEMA)
    assert caught.value.remedy


def test_explain_says_what_is_skipped_and_taken() -> None:
    def lines(strategy: str) -> list[str]:
        text = f"PATTERN SEQ(A+, B) WHERE {strategy} AND [g] GROUP BY g WITHIN 9 SLIDE 9 RETURN g, COUNT(*)"
        return compile_query(text, SCHEMA).explain().splitlines()

    of_next, of_partition, of_stream = map(lines, (NEXT, PARTITION, STRICT))
    assert "  0 A -> 0 A*: earlier events from which none was taken yet, one by one, O(m)" in of_next
    assert "  0 A -> 1 B: earlier events from which none was taken yet, one by one, O(m)" in of_next
    assert "  0 A -> 1 B: the event directly before, O(1)" in of_partition
    assert any(line.startswith("divided by buckets of g") for line in of_partition)
    assert any("D in every bucket" in line for line in of_partition), "it ends what goes on in each"
    assert any(line.startswith("divided    not by key: strict_contiguity") for line in of_stream)
    for found in (of_next, of_partition, of_stream):
        assert any(line.startswith("skips      ") for line in found)


def test_events_that_are_taken_are_forgotten() -> None:
    """Of one partition and state few are kept, however many there were."""
    query = "PATTERN A+ WHERE {} WITHIN 1000 SLIDE 1000 RETURN COUNT(*)"
    text = " ".join(f"a{n}" for n in range(1, 900))
    running = Engine(
        [compile_query(query.format(each), GOLDEN_SCHEMA, name=each) for each in (NEXT, PARTITION, STRICT)],
        GOLDEN_SCHEMA,
    )
    assert running.process(golden_stream(text), 900) == []
    assert {counted.n_kept for counted in running.statistics.values()} == {1}
    rows = running.process(EventBatch.empty(), FOREVER_MS)
    assert [row.values["count"] for row in rows] == [899 * 900 // 2] * 3
