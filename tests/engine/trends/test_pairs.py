"""Pairs of trends, `P AND Q`: against all pairs by definition, and what is refused."""

from __future__ import annotations

import math
from math import comb

import pytest
from hypothesis import assume, given, settings

from engine import CompiledQuery, Engine, compile_query
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import FOREVER_MS, EventBatch
from engine.plan.trends.model import JoinWay, TrendPairPlan
from engine.reference import reference_output
from engine.runtime import engine as engine_module
from tests.engine.trend_cases import LONG
from tests.engine.trend_cases import SCHEMA as GOLDEN_SCHEMA
from tests.engine.trend_cases import stream as golden_stream
from tests.engine.trends.evaluation import check, check_events, evaluated, shown
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase, pair_cases
from tests.examples import examples

CLAUSES = "WITHIN 10 SLIDE 5 RETURN COUNT(*)"


def planned(case: TrendCase) -> CompiledQuery:
    try:
        return compile_query(case.query, SCHEMA)
    except QueryError:
        assume(False)
        raise


def events(text: str) -> EventBatch:
    """Of the types in a text, one each millisecond from 1 ms on."""
    rows = [
        {"event_id": f"e{t}", "type": kind, "t_lo_ms": t, "t_hi_ms": t, "source_seq": t, "x": t % 5, "y": t / 4,
         "g": "u", "h": 1}
        for t, kind in enumerate(text, start=1)
    ]  # fmt: skip
    return EventBatch.from_rows(rows, SCHEMA)


def values(query: str, stream: EventBatch) -> list[dict[str, object]]:
    return [dict(row.values) for row in evaluated(compile_query(query, SCHEMA), stream, SCHEMA)]


LOOKED_AT = "COUNT(*), COUNT(A), SUM(A.attr), AVG(A.attr), MIN(A.attr), MAX(A.attr)"


@pytest.mark.parametrize("clauses", ["WITHIN 12 SLIDE 12", "WITHIN 8 SLIDE 3 TIES SOURCE"])
@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        ("A+ AND A+", ""),
        ("A+ AND A+", "A.attr < NEXT(A).attr"),
        ("(A OR B)+ AND SEQ(A+, B)", "A.attr < NEXT(A).attr AND A.attr != 6"),
        ("SEQ(A+, NOT C, B) AND SEQ(A+, NOT E, B)", ""),
        ("SEQ(A+, NOT E, B) AND SEQ(A+, NOT C, B)", ""),
        ("SEQ(A+, B) AND SEQ(A+, NOT E, B)", "A.attr < NEXT(A).attr"),
        ("SEQ(A+, NOT SEQ(C, NOT E, D), B) AND SEQ(A+, NOT C c2, B)", ""),
        ("SEQ(A+, NOT C, B) AND SEQ(A+, NOT SEQ(C c1, NOT E, D), B)", ""),
        ("SEQ(NOT E, A+) AND SEQ(A+, NOT E e2)", ""),
        ("SEQ(A+, NOT C) AND SEQ(A+, NOT D)", ""),
        ("SEQ(A+, NOT D) AND SEQ(NOT C, A+)", "A.attr > NEXT(A).attr"),
        ("(SEQ(A+, B))+ AND (SEQ(A+, NOT E, B))+", ""),
        ("SEQ(A{2,} a, B) AND SEQ(A{1,2} a, B)", ""),
        ("SEQ(A, B?) AND SEQ(A, C*)", ""),
    ],
)
def test_worked_streams(pattern: str, where: str, clauses: str) -> None:
    """Conditions and absence that either part asks for, on the trends of both."""
    requested = LOOKED_AT.replace("A.", "a.").replace("(A)", "(a)") if " a," in pattern else LOOKED_AT
    query = compile_query(f"PATTERN {pattern} {where and f'WHERE {where}'} {clauses} RETURN {requested}", GOLDEN_SCHEMA)
    stream = golden_stream(LONG.replace("e3", "e3 b3 a3"), a1=5, a3=6, a4=4, a8=9)
    expected = shown(reference_output(query.resolved, stream))
    assert expected
    assert shown(evaluated(query, stream, GOLDEN_SCHEMA)) == expected
    assert shown(evaluated(query, stream, GOLDEN_SCHEMA, (2, 4, 7), restarts=True)) == expected


@settings(max_examples=examples(150), deadline=None)
@given(pair_cases())
def test_rows_are_those_of_the_definition(case: TrendCase) -> None:
    query = planned(case)
    expected = reference_output(query.resolved, case.stream)
    assert shown(evaluated(query, case.stream, SCHEMA)) == shown(expected)


@settings(max_examples=examples(100), deadline=None)
@given(pair_cases())
def test_neither_cuts_nor_restarts_nor_indexes_change_them(case: TrendCase) -> None:
    check(planned(case), case)


@settings(max_examples=examples(60), deadline=None)
@given(pair_cases())
def test_alerts_have_the_events_of_both_trends_once(case: TrendCase) -> None:
    planned(case)
    check_events(compile_query(f"{case.query} ALERT warning 'found'", SCHEMA), case)


@settings(max_examples=examples(30), deadline=None)
@given(pair_cases())
def test_threads_change_nothing(case: TrendCase) -> None:
    query = planned(case)
    other = compile_query("PATTERN A+ WITHIN 4 SLIDE 4 RETURN COUNT(*)", SCHEMA, name="other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "LEAST_EVENTS", 0)
        rows = Engine([query, other], SCHEMA, threads=2).process(case.stream, FOREVER_MS)
    assert shown(row for row in rows if row.query == query.name) == shown(reference_output(query.resolved, case.stream))


@pytest.mark.parametrize("ties", ["STRICT", "SOURCE"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A+", "A+ p"),
        ("A{2,}", "A{1,3} p"),
        ("(A OR B b)+", "SEQ(A p, B q)"),
        ("SEQ(A+, B)", "SEQ(A+ p, B+ q)"),
        ("SEQ(A, B?)", "SEQ(A p, C?)"),
    ],
)
def test_the_paper_counts_the_same(one: str, other: str, ties: str) -> None:
    """Section 9: of C_i and C_j trends of one part alone and C_ij of both, C_i C_j + C_i C_ij + C_j C_ij + C_ij over 2;
    C_ij by the trends of either part, each of which counts once."""
    stream = golden_stream(LONG)

    def n_of(pattern: str) -> int:
        query = compile_query(f"PATTERN {pattern} TIES {ties} WITHIN 20 SLIDE 20 RETURN COUNT(*) AS n", GOLDEN_SCHEMA)
        (row,) = evaluated(query, stream, GOLDEN_SCHEMA)
        assert isinstance(row.values["n"], int)
        return row.values["n"]

    n_both = n_of(one) + n_of(other) - n_of(f"({one}) OR ({other})")
    alone, its_alone = n_of(one) - n_both, n_of(other) - n_both
    expected = alone * its_alone + alone * n_both + its_alone * n_both + comb(n_both, 2)
    assert n_of(f"({one}) AND ({other})") == expected


def test_counts_of_any_size_are_exact_or_say_so() -> None:
    for n in (20, 31, 32, 33, 62, 63, 64, 700):
        trends = 2**n - 1
        count, of_a = comb(trends, 2), (trends - 1) * n * 2 ** (n - 1)
        text = "PATTERN A+ AND A+ WITHIN 9000 SLIDE 9000 {} RETURN COUNT(*) AS n, COUNT(A) AS a, SUM(A.x) AS x"
        query = compile_query(text.format(""), SCHEMA)
        (row,) = evaluated(query, events("A" * n), SCHEMA)
        assert row.exact is (of_a < 2**63 and sum(t % 5 for t in range(1, n + 1)) * of_a // n < 2**63)
        if n < 500:
            assert row.values["n"] == (count if count < 2**63 else pytest.approx(float(count), rel=1e-12))
            assert float(str(row.values["a"])) == pytest.approx(float(of_a), rel=1e-12)
        else:
            assert str(row.values["n"]).endswith(f"e+{len(str(count)) - 1}")
        (row,) = evaluated(
            compile_query(text.format("EXACT 1500 BITS"), SCHEMA), events("A" * n), SCHEMA, (7,), restarts=True
        )
        assert row.exact
        x = sum(t % 5 for t in range(1, n + 1)) * 2 ** (n - 1) * (trends - 1)
        assert [int(str(row.values[name])) for name in ("n", "a", "x")] == [count, of_a, x]


def test_what_exact_has_no_room_for_is_refused_only_where_it_is_told() -> None:
    text = "PATTERN A+ AND B+ WITHIN 900 SLIDE 900 EXACT 64 BITS {} RETURN COUNT(*) AS n"
    query = compile_query(text.format(""), SCHEMA)
    assert values(text.format(""), events("A" * 300)) == []  # without a B there is no pair
    assert values(text.format(""), events("A" * 32 + "B" * 32)) == [{"n": str((2**32 - 1) ** 2)}]
    for stream in (events("A" * 33 + "B" * 33), events("A" * 300 + "B")):
        with pytest.raises(UnsupportedQueryError, match=r"(?s)of the window \(0, 900\] ms has .* bits"):
            evaluated(query, stream, SCHEMA)
    assert values(text.format("HAVING COUNT(*) < 100"), events("A" * 300 + "B")) == []


def test_infinite_values_stay_what_they_are() -> None:
    rows = [
        {
            "event_id": f"e{t}",
            "type": "A",
            "t_lo_ms": t,
            "t_hi_ms": t,
            "source_seq": t,
            "x": 1,
            "y": y,
            "g": "u",
            "h": 1,
        }
        for t, y in enumerate((1.0, math.inf, 2.0), start=1)
    ]
    query = "PATTERN A+ AND A+ WITHIN 9 SLIDE 9 RETURN COUNT(*), SUM(A.y) AS s, MIN(A.y) AS least, MAX(A.y) AS most"
    (found,) = values(query, EventBatch.from_rows(rows, SCHEMA))
    assert found == {"count": 21, "s": math.inf, "least": 1.0, "most": math.inf}


def test_events_with_intervals_are_left_out_and_counted_once() -> None:
    query = compile_query(f"PATTERN A+ AND SEQ(A, B) {CLAUSES}", SCHEMA)
    assert query.exact_times is not None
    rows = [
        {"event_id": f"e{t}", "type": kind, "t_lo_ms": t, "t_hi_ms": t + wide, "source_seq": t, "x": 1, "y": 1.0,
         "g": "u", "h": 1}
        for t, kind, wide in ((1, "A", 0), (2, "A", 1), (3, "B", 0), (4, "B", 2))
    ]  # fmt: skip
    running = Engine([query], SCHEMA)
    (row, *_) = running.process(EventBatch.from_rows(rows, SCHEMA), FOREVER_MS)
    assert row.values == {"count": 1}
    assert running.statistics[query.name].n_rejected == 2
    with pytest.raises(UnsupportedQueryError, match="both trends of a pair"):
        reference_output(query.resolved, EventBatch.from_rows(rows, SCHEMA))


def plan_of(text: str) -> TrendPairPlan:
    plan = compile_query(text, SCHEMA).plan
    assert isinstance(plan, TrendPairPlan)
    return plan


def test_conditions_of_both_parts_on_the_same_neighbours_are_one() -> None:
    plan = plan_of(f"PATTERN A+ p AND A+ q WHERE p.x < NEXT(p).x AND q.x < NEXT(q).x AND p.y > 1 AND q.y > 1 {CLAUSES}")
    assert plan.both is not None
    assert [join.way for join in plan.both.joins] == [JoinWay.INDEX]
    assert [len(reads.programs) for reads in plan.both.reads] == [1]
    plan = plan_of(f"PATTERN A+ p AND A+ q WHERE p.x < NEXT(p).x AND q.y < NEXT(q).y {CLAUSES}")
    assert plan.both is not None
    assert [join.way for join in plan.both.joins] == [JoinWay.DOMINANCE]


@pytest.mark.parametrize(
    ("pattern", "n_states"),
    [("A+ AND SEQ(A, B)", 0), ("A+ AND A+ p", 1), ("SEQ(A+, B) AND SEQ(A, A, B)".replace("A, A", "A a1, A a2"), 3),
     ("SEQ(A, B, C) AND SEQ(A, B)", 0)],
)  # fmt: skip
def test_a_graph_for_the_trends_of_both_is_there_only_where_there_may_be_some(pattern: str, n_states: int) -> None:
    plan = plan_of(f"PATTERN {pattern} {CLAUSES}")
    assert (0 if plan.both is None else len(plan.both.templates.positive.states)) == n_states


def test_explain_and_dot_tell_of_each_graph() -> None:
    query = compile_query(f"PATTERN A+ AND SEQ(A p, NOT C, A+ q) {CLAUSES}", SCHEMA)
    emitted = query.explain()
    assert "this is not AND of matches" in emitted
    assert "part 2     SEQ(A p, !C, A+ q[])" in emitted
    assert "without absent 0 before" in emitted.split("both  ")[1]
    assert query.dot().count("subgraph") == 3
    assert "no trend is one of both parts" in compile_query(f"PATTERN A+ AND B+ {CLAUSES}", SCHEMA).explain()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"PATTERN SEQ(A AND B, C) {CLAUSES}", "AND inside another operator"),
        (f"PATTERN (A AND B)+ {CLAUSES}", "AND inside another operator"),
        (f"PATTERN (A AND B) OR C {CLAUSES}", "AND inside another operator"),
        (f"PATTERN SEQ(A, NOT (B AND C), D) {CLAUSES}", "AND inside another operator"),
        (f"PATTERN A AND B AND C {CLAUSES}", "AND of 3 patterns: trends are counted in pairs"),
        (f"PATTERN A* AND B {CLAUSES}", "can match without any event"),
        (f"PATTERN NOT A AND B {CLAUSES}", "NOT is no part of a SEQ here"),
        (f"PATTERN SEQ(A, NOT C, B) AND C {CLAUSES}", "C stands for different things in the parts of an AND"),
        (f"PATTERN A x AND B x {CLAUSES}", "x stands for different things in the parts of an AND"),
        (
            "PATTERN A+ p AND A+ q WITHIN 9 SLIDE 9 RETURN SUM(p.x)",
            "an event of which is p in the one and q in the other",
        ),
        (f"PATTERN A+ p AND SEQ(A p, A+ q) WHERE [p.x] {CLAUSES}", r"\[p.x\] asks for p"),
        (f"PATTERN A p AND B q WHERE p.x < NEXT(q).x {CLAUSES}", "no event of q comes right after one of p"),
        (f"PATTERN A AND D WHERE [g] {CLAUSES}", "without an event that has all of its key"),
        (f"PATTERN A+ AND A+ WHERE skip_till_next_match {CLAUSES}", "under skip_till_next_match"),
        (f"PATTERN (A{{8}} p)+ AND (A{{9}} q)+ {CLAUSES}", "both parts of AND match have a template of 72 states"),
        (f"PATTERN ANY(1, A, B) AND C {CLAUSES}", "trends of ANY are not evaluated"),
    ],
)
def test_what_is_not_evaluated_is_refused_by_name(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        compile_query(query, SCHEMA)
    assert caught.value.expected or caught.value.remedy


def test_a_key_divides_pairs_and_group_by_puts_them_together() -> None:
    rows = [
        {
            "event_id": f"e{t}",
            "type": kind,
            "t_lo_ms": t,
            "t_hi_ms": t,
            "source_seq": t,
            "x": 1,
            "y": 1.0,
            "g": g,
            "h": h,
        }
        for t, (kind, g, h) in enumerate([("A", "u", 1), ("A", "u", 2), ("B", "u", 1), ("B", "u", 1), ("B", "v", 2)], 1)
    ]
    stream = EventBatch.from_rows(rows, SCHEMA)
    assert values("PATTERN A AND B WITHIN 9 SLIDE 9 RETURN COUNT(*)", stream) == [{"count": 6}]
    assert values("PATTERN A AND B GROUP BY g WITHIN 9 SLIDE 9 RETURN g, COUNT(*)", stream) == [{"g": "u", "count": 4}]
    keyed = "PATTERN A AND B WHERE [h] {} WITHIN 9 SLIDE 9 RETURN COUNT(*), COUNT(A) AS a"
    assert values(keyed.format(""), stream) == [{"count": 3, "a": 3}]
    assert values(keyed.format("GROUP BY g"), stream) == [{"count": 2, "a": 2}]
