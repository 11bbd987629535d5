"""Templates of trends, how transitions are followed, and what the planner refuses."""

from __future__ import annotations

import re

import pytest

from engine.compiled.query import compile_query
from engine.errors import QueryError, UnsupportedQueryError
from engine.language import ast
from engine.plan.trends.model import JoinWay, TrendPlan
from engine.plan.trends.template import templates_of
from engine.runtime.composition import compile_queries
from tests.engine.trends.trend_strategies import SCHEMA

CLAUSES = "WITHIN 10 SLIDE 5 RETURN COUNT(*)"


def plan_of(text: str) -> TrendPlan:
    plan = compile_query(text, SCHEMA).plan
    assert isinstance(plan, TrendPlan)
    return plan


def transitions(pattern: str) -> set[tuple[str, str]]:
    """By the names of variables."""
    template = plan_of(f"PATTERN {pattern} {CLAUSES}").templates.positive
    return {(template.states[one].variable, template.states[other].variable) for one, other in template.transitions}


def test_templates_of_the_paper() -> None:
    """Figure 5, and Figure 13's pattern with a type several times."""
    assert transitions("(SEQ(A+, B))+") == {("A", "A"), ("A", "B"), ("B", "A")}
    several = "SEQ(A+ a1, B b2, A a3, A+ a4, B+ b5)"
    assert transitions(several) == {
        ("a1", "a1"), ("a1", "b2"), ("b2", "a3"), ("a3", "a4"), ("a4", "a4"), ("a4", "b5"), ("b5", "b5"),
    }  # fmt: skip


@pytest.mark.parametrize(("pattern", "n_states"), [("(A+)+", 1), ("SEQ(A p, A+ q)", 2), ("SEQ(A+ p, A+ q)", 2)])
def test_a_trend_has_one_path(pattern: str, n_states: int) -> None:
    assert len(plan_of(f"PATTERN {pattern} {CLAUSES}").templates.positive.states) == n_states


@pytest.mark.parametrize(
    ("pattern", "where", "way"),
    [
        ("A+", "", JoinWay.SUM),
        ("A+", "WHERE A.x > 1", JoinWay.SUM),
        ("A+", "WHERE A.x < NEXT(A).x", JoinWay.INDEX),
        ("A+", "WHERE NEXT(A).x * 2 >= A.x + 1", JoinWay.INDEX),
        ("A+", "WHERE A.x = NEXT(A).x", JoinWay.SCAN),
        ("A+", "WHERE A.x < NEXT(A).x AND A.y < NEXT(A).y", JoinWay.DOMINANCE),
        ("A+", "WHERE A.x + 1 < NEXT(A).y AND A.x * 2 >= NEXT(A).y", JoinWay.DOMINANCE),
        ("A+", "WHERE A.x < NEXT(A).x AND A.x + NEXT(A).x < 3", JoinWay.SCAN),
        ("A+", "WHERE A.x < NEXT(A).x AND A.y < NEXT(A).y AND A.y > NEXT(A).x", JoinWay.SCAN),
        ("A+", "WHERE A.x < NEXT(A).x AND A.y = NEXT(A).y", JoinWay.SCAN),
        ("SEQ(A, NOT C, B)", "WHERE A.x < NEXT(B).x AND A.y < NEXT(B).y", JoinWay.SCAN),
        ("A+", "WHERE A.x + NEXT(A).x < 3", JoinWay.SCAN),
        ("SEQ(A, NOT C, B)", "", JoinWay.SUM),
        ("SEQ(A, NOT C+, B)", "", JoinWay.SUM),
        ("SEQ(A, NOT SEQ(C, D), B)", "", JoinWay.SCAN),
        ("SEQ(A, NOT C, B)", "WHERE A.x < NEXT(B).x", JoinWay.SCAN),
    ],
)
def test_the_way_of_a_transition(pattern: str, where: str, way: JoinWay) -> None:
    plan = plan_of(f"PATTERN {pattern} {where} {CLAUSES}")
    assert {join.way for join in plan.joins} == {way}
    assert way.summary in compile_query(f"PATTERN {pattern} {where} {CLAUSES}", SCHEMA).explain()


@pytest.mark.parametrize(
    ("negated", "where", "ways"),
    [
        ("SEQ(C, D)", "", [JoinWay.SUM]),
        ("SEQ(C, D)", "WHERE C.x < NEXT(D).x", [JoinWay.LATEST]),
        ("SEQ(C, NOT E, D)", "", [JoinWay.SUM]),
        ("SEQ(C, NOT SEQ(E, F), D)", "", [JoinWay.BEST]),
        ("SEQ(C, NOT SEQ(E, F), D)", "WHERE C.x < NEXT(D).x", [JoinWay.LATEST]),
        ("SEQ(C, NOT E+, D)", "WHERE E.x < NEXT(E).x", [JoinWay.SUM]),
        ("C+", "WHERE C.x < NEXT(C).x", []),  # each C is a trend by itself
        ("C{2,2}", "WHERE C.x < NEXT(C).x", [JoinWay.LATEST]),
    ],
)
def test_the_way_of_a_negated_transition(negated: str, where: str, ways: list[JoinWay]) -> None:
    pattern = re.sub(r"\b([EF])\b", r"B \1", negated)
    plan = plan_of(f"PATTERN SEQ(A, NOT {pattern}, A z) {where} {CLAUSES}")
    assert [join.way for join in plan.negated_joins[0]] == ways
    explained = compile_query(f"PATTERN SEQ(A, NOT {pattern}, A z) {where} {CLAUSES}", SCHEMA).explain()
    assert all(way.summary in explained for way in ways if way is not JoinWay.SUM)
    assert plan.keeps_negated == bool(set(ways) - {JoinWay.SUM})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"PATTERN SEQ(A+ p, A+ q) WHERE p.x > 1 {CLAUSES}", "read in several ways, an event as p or as q"),
        ("PATTERN SEQ(A+ p, A+ q) WITHIN 9 SLIDE 9 RETURN COUNT(q)", "what the query asks of q depends on which"),
        (f"PATTERN SEQ(A+ p, A+ q, NOT C) {CLAUSES}", "negations depend on which"),
        (f"PATTERN SEQ(A, B) WHERE B.x < NEXT(A).x {CLAUSES}", "no event of A comes right after one of B"),
        (f"PATTERN ANY(2, A, B, C) {CLAUSES}", "trends of ANY are not evaluated"),
        ("PATTERN A+ WITHIN 2048 SLIDE 1 EXACT 8000 BITS RETURN COUNT(*)", r"(?s)146 numbers.*fewer bits"),
        (f"PATTERN A+ WHERE skip_till_next_match AND [A.x] {CLAUSES}", "in trends under skip_till_next_match"),
        (f"PATTERN SEQ(C, D) WHERE [g] {CLAUSES}", None),
        (f"PATTERN D+ OR A WHERE [g] {CLAUSES}", "without an event that has all of its key"),
        ("PATTERN A+ WITHIN 1 day SLIDE 1 s RETURN COUNT(*)", "would be in 86400 windows at once"),
        ("PATTERN A{60} a WITHIN 4096 SLIDE 1 RETURN SUM(a.x)", r"491,520 numbers for each partition(.|\n)*262,144"),
        (f"PATTERN A{{63}} {CLAUSES}", "repetitions are told apart"),
        (f"PATTERN SEQ(A{{40}} p, B{{40}} q) {CLAUSES}", "a template of over 62 states"),
        (f"PATTERN SEQ(A, NOT SEQ(B{{40}} p, C{{40}} q), D) {CLAUSES}", "a template of over 62 states"),
        (f"PATTERN (((((A a){{30}}){{30}}){{30}}){{30}}){{6}} {CLAUSES}", "a template of over 62 states"),
    ],
)
def test_what_is_not_evaluated_is_refused_by_name(query: str, message: str | None) -> None:
    if message is None:
        assert compile_query(query, SCHEMA)
        return
    with pytest.raises(QueryError, match=message) as caught:
        compile_query(query, SCHEMA)
    assert caught.value.expected or caught.value.remedy


@pytest.mark.parametrize(
    ("query", "place", "remedy"),
    [
        ("PATTERN SEQ(A+ p, A+ q)\nWHERE p.x > 1", "SEQ(A+ p, A+ q)", "leave out one of the repetitions"),
        ("PATTERN SEQ(A+ p, A+ q, NOT C)", "SEQ(A+ p, A+ q, NOT C)", "or the negation"),
        ("PATTERN SEQ(A, B)\nWHERE B.x < NEXT(A).x", "B.x < NEXT(A).x", "exchange the two"),
        ("PATTERN SEQ(A, NOT SEQ(C, D), B)\nWHERE D.x < NEXT(C).x", "D.x < NEXT(C).x", "exchange the two"),
    ],
)
def test_what_the_planner_refuses_is_shown_in_its_line(query: str, place: str, remedy: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(f"{query}\n{CLAUSES}", SCHEMA, name="trends.cep")
    told = str(caught.value).split("\n")
    at = next(number for number, line in enumerate(query.split("\n"), 1) if place in line)
    column = query.split("\n")[at - 1].index(place)
    assert told[0].startswith(f"trends.cep:{at}:{column + 1}: ")
    assert told[1] == f"  | {query.split(chr(10))[at - 1]}"
    assert told[2] == f"  | {' ' * column}{'^' * len(place)}"
    assert remedy in told[-1]
    assert told[-1].startswith("  remedy: ")


def test_states_are_counted_while_they_are_built() -> None:
    nested: ast.Pattern = ast.Component("A", "a")
    for _ in range(12):
        nested = ast.Repeat(nested, 60, 60)
    optional = tuple(ast.Repeat(ast.Component("A", f"a{k}"), 0, 1) for k in range(20_000))
    for pattern in (nested, ast.Sequence((*optional, ast.Component("B", "b")))):
        with pytest.raises(UnsupportedQueryError, match="a template of over 62 states"):
            templates_of(pattern, lambda _: False)


def test_many_alternatives_are_told_apart_in_no_time() -> None:
    """Each step of two paths at once would be 3,600 times 3,600 pairs."""
    same = " OR ".join(f"A a{k}" for k in range(60))
    assert len(plan_of(f"PATTERN ({same})+ {CLAUSES}").templates.positive.states) == 1
    once = " OR ".join(f"SEQ(A a{k}, B b{k})" for k in range(30))
    assert len(plan_of(f"PATTERN {once} {CLAUSES}").templates.positive.states) == 2


def test_rows_of_trends_are_no_events() -> None:
    texts = {"rising": f"PATTERN A+ {CLAUSES}", "uses": "PATTERN rising r WHERE skip_till_any_match WITHIN 9"}
    with pytest.raises(QueryError, match="rising aggregates trends"):
        compile_queries(texts, SCHEMA)


def test_baselines_refuse_trends() -> None:
    from engine.baselines import BaselineKind
    from engine.runtime.engine import Engine

    with pytest.raises(UnsupportedQueryError):
        Engine([compile_query(f"PATTERN A+ {CLAUSES}", SCHEMA)], SCHEMA, baseline=BaselineKind.RUNS)


def test_trends_are_divided_by_groups_and_windows() -> None:
    found = compile_query(f"PATTERN SEQ(A, D?, B) WHERE [h] GROUP BY g {CLAUSES}", SCHEMA).distribution
    assert (found.keys, found.broadcast) == ({"A": ("g",), "B": ("g",)}, frozenset("D"))
    assert (found.sliceable, found.needs_exact_times, found.reach_ms, found.look_back_ms) == (True, True, 10, 0)
    whole = compile_query(f"PATTERN SEQ(NOT C, A) WHERE [g] EXACT {CLAUSES}", SCHEMA)
    assert (dict(whole.distribution.keys), whole.distribution.sliceable) == ({}, False)
    assert "not by key: without GROUP BY a row is about the trends of all events" in whole.explain()
    assert "not by time: under EXACT" in whole.explain()


@pytest.mark.parametrize(
    ("clauses", "is_sliceable"),
    [
        ("EXACT RETURN COUNT(*), COUNT(A), MAX(A.x), AVG(A.x)", True),
        ("HAVING MAX(A.x) < 5 EXACT RETURN COUNT(*)", False),  # a part may have no 5, and too many trends
        ("EXACT RETURN SUM(A.x)", False),  # a part may lack those below 0
        ("EXACT RETURN COUNT(A) - COUNT(*) AS d", False),
        ("HAVING MAX(A.x) < 5 RETURN COUNT(*) - SUM(A.x) AS d", True),
    ],
)
def test_windows_of_which_a_part_may_have_larger_numbers_are_not_cut_under_exact(
    clauses: str, is_sliceable: bool
) -> None:
    query = compile_query(f"PATTERN A+ WITHIN 10 SLIDE 10 {clauses}", SCHEMA)
    assert query.distribution.sliceable is is_sliceable


@pytest.mark.parametrize(
    ("pattern", "states", "taking"),
    [
        ("A+ a", "a", {("a", "a")}),
        ("SEQ(A a, B b)", "ab", {("a", "b")}),
        ("SEQ(A+ a, B b)", "ab", {("a", "a")}),
        ("(SEQ(A+ a, B b))+", "ab", {("a", "a"), ("b", "a")}),
        ("SEQ((SEQ(A a, B b))+, C c)", "abc", {("a", "b"), ("b", "a")}),
        ("SEQ(A{2,2} a, B b)", "aab", {("a", "a")}),
        ("SEQ(A a, C? c, B b)", "abacb", {("a", "b"), ("a", "c"), ("c", "b")}),
        ("(SEQ(A a, B? b))+", "aba", {("a", "a"), ("a", "b"), ("b", "a")}),
    ],
)
def test_what_takes_an_event_under_skip_till_next_match(
    pattern: str, states: str, taking: set[tuple[str, str]]
) -> None:
    template = plan_of(f"PATTERN {pattern} WHERE skip_till_next_match {CLAUSES}").templates.positive
    assert sorted(state.variable for state in template.states) == sorted(states)
    names = {(template.states[one].variable, template.states[other].variable) for one, other in template.taking}
    assert names == taking
    assert template.taking <= set(template.transitions)
