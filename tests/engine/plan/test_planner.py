"""Where predicates are evaluated, and the classes of section 5.2 of SASE++."""

from __future__ import annotations

import pytest

from engine import compile_query, parse
from engine.errors import QueryTypeError
from engine.events import AttributeType, EventSchema
from engine.language.printer import print_expression
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.model import Consistency, Edge, Plan, Step
from engine.plan.sequence.consistency import classify

SCHEMA = EventSchema.of(
    {
        "A": {"k": AttributeType.STRING, "j": AttributeType.STRING, "x": AttributeType.INT},
        "B": {"k": AttributeType.STRING, "j": AttributeType.STRING, "x": AttributeType.INT},
        "L": {"x": AttributeType.INT},
        "J": {"j": AttributeType.STRING},
    }
)


def planned(pattern: str, conjuncts: str, extra: str = "") -> Plan:
    text = f"PATTERN {pattern} WHERE skip_till_any_match {{ {conjuncts} }} WITHIN 100 {extra}"
    return compile_query(text, SCHEMA).plan


def on_edges(step: Step) -> dict[str, list[tuple[str, bool]]]:
    edges = {Edge.BEGIN: step.begin, Edge.TAKE: step.take, Edge.PROCEED: step.proceed}
    return {
        edge.value: [(print_expression(p.conjunct), p.local) for p in predicates.predicates]
        for edge, predicates in edges.items()
        if predicates.predicates
    }


@pytest.mark.parametrize(
    ("conjunct", "variable", "expected"),
    [
        ("a.x > 1", "a", {"begin": True}),
        ("b[1].x = 2", "b", {"begin": True}),
        ("b[i].x < 4", "b", {"begin": True, "take": True}),
        ("b[i].x >= b[i-1].x", "b", {"take": False}),
        ("b[i].x > a.x", "b", {"begin": False, "take": False}),
        ("b[i].x > max(b[..i-1].x)", "b", {"take": False}),
        ("b[b.len].x > 2", "b", {"proceed": False}),
        ("count(b[]) >= 2", "b", {"proceed": False}),
        ("c.x = avg(b[].x)", "c", {"begin": False}),
        ("c.x > a.x", "c", {"begin": False}),
        ("c.x > 1", "c", {"begin": True}),
    ],
)
def test_a_conjunct_stands_on_the_earliest_edge_that_binds_all_it_names(
    conjunct: str, variable: str, expected: dict[str, bool]
) -> None:
    plan = planned("SEQ(A a, B+ b[], A c)", conjunct)
    for step in plan.steps:
        found = {edge: locals_[0][1] for edge, locals_ in on_edges(step).items()}
        assert found == (expected if step.variable == variable else {})


def test_local_predicates_come_first_and_loops_last() -> None:
    plan = planned("SEQ(A a, B+ b[], A c)", "c.x > a.x AND b[i].x < c.x AND c.x > 1")
    begin = plan.steps[2].begin
    assert [p.local for p in begin.predicates] == [True, False, False]
    assert begin.rest - begin.first == 1
    assert begin.last - begin.first == 2
    assert [loop.over for loop in begin.loops] == [1]
    assert [p.program for p in begin.predicates] == list(range(begin.first, begin.last + 1))


def test_types_without_the_key_are_broadcast() -> None:
    plan = planned("SEQ(A a, L+ b[], B c)", "[k]")
    assert plan.key == ("k",)
    assert plan.broadcast == {"L"}
    assert [step.keyed for step in plan.steps] == [True, False, True]


def test_an_equivalence_that_not_every_keyed_type_has_becomes_a_predicate() -> None:
    plan = planned("SEQ(J a, A b, B c)", "[j] AND [k]")
    assert plan.key == ("j",)
    assert on_edges(plan.steps[2]) == {"begin": [("c.k = b.k", False)]}


def test_a_leading_negation_waits_for_the_last_event() -> None:
    plan = planned("SEQ(!L n, A a, B c)", "n.x > a.x")
    assert [(n.after, n.decided_at, n.keyed) for n in plan.negations] == [(-1, 2, True)]


def test_a_negation_that_names_a_later_event_waits_for_it() -> None:
    plan = planned("SEQ(A a, !L n, B b, A c)", "n.x > c.x")
    assert [(n.after, n.decided_at) for n in plan.negations] == [(0, 2)]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("b[i].x > 5", Consistency.TRUE_FALSE),
        ("b[i].x > a.x", Consistency.TRUE_FALSE),
        ("b[i].x > max(b[..i-1].x)", Consistency.TRUE),
        ("max(b[..i-1].x) < b[i].x", Consistency.TRUE),
        ("b[i].x < max(b[..i-1].x)", Consistency.FALSE),
        ("b[i].x > min(b[..i-1].x)", Consistency.FALSE),
        ("b[i].x <= min(b[..i-1].x)", Consistency.TRUE),
        ("count(b[..i-1]) < 3", Consistency.TRUE),
        ("count(b[..i-1]) >= 3", Consistency.FALSE),
        ("b[i].x > avg(b[..i-1].x)", Consistency.INCONSISTENT),
        ("b[i].x > sum(b[..i-1].x)", Consistency.INCONSISTENT),
        ("b[i].x = max(b[..i-1].x)", Consistency.INCONSISTENT),
        ("b[i].x >= b[i-1].x", Consistency.INCONSISTENT),
        ("b[i].x > max(b[..i-1].x) + b[i-1].x", Consistency.INCONSISTENT),
        ("max(b[].x) + 1 < a.x", Consistency.TRUE),
        ("a.x - max(b[].x) > 2 * a.x", Consistency.TRUE),
        ("-min(b[].x) < a.x", Consistency.TRUE),
        ("2 * max(b[].x) + count(b[]) > a.x", Consistency.FALSE),
        ("max(b[].x) * -2 > a.x", Consistency.TRUE),
        ("max(b[].x) / 4 > a.x", Consistency.FALSE),
        ("max(b[].x) * a.x > 1", Consistency.INCONSISTENT),
        ("max(b[].x) < min(b[].x) + 3", Consistency.TRUE),
        ("max(b[].x) + min(b[].x) > 3", Consistency.INCONSISTENT),
        ("sum(b[].x) + 1 > a.x", Consistency.INCONSISTENT),
        ("NOT max(b[].x) > a.x", Consistency.TRUE),
        ("(max(b[].x) < 4 OR count(b[]) < 3)", Consistency.TRUE),
        ("(max(b[].x) < 4 OR a.x > 1)", Consistency.TRUE),
        ("(max(b[].x) < 4 OR min(b[].x) < 1)", Consistency.INCONSISTENT),
    ],
)
def test_consistency_classes(predicate: str, expected: Consistency) -> None:
    query = parse(f"PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match {{ {predicate} }} WITHIN 9")
    assert classify(query.predicates[0], frozenset({"b"})) is expected


def test_a_collapsed_row_returns_only_what_all_its_matches_share() -> None:
    planned("SEQ(A a, B+ b[], A c)", "[k]", "OUTPUT COLLAPSED RETURN a.x, c.x AS cx, b[1].k AS bk")
    with pytest.raises(QueryTypeError, match="has not one value in a collapsed row"):
        planned("SEQ(A a, B+ b[], A c)", "[k]", "OUTPUT COLLAPSED RETURN max(b[].x)")


def test_explain_says_where_and_why() -> None:
    text = (
        "PATTERN SEQ(A a, L+ b[], B c) WHERE skip_till_any_match { [k] AND b[i].x >= b[i-1].x AND b[i].x < 4 }"
        " WITHIN 10 minutes OUTPUT COLLAPSED CONFIDENCE >= 0.9"
    )
    explained = compile_query(text, SCHEMA, name="drift").explain()
    for part in (
        "query      drift",
        "postponed",
        "window     last - first <= 600000 ms",
        "COLLAPSED, confidence >= 0.9",
        "by k: A, B",
        "broadcast  L",
        "take    b[i].x < 4   [true-false-value consistent; on the event alone, as it arrives]",
        "take    b[i].x >= b[i - 1].x   [inconsistent; decided when matches are built]",
    ):
        assert part.replace("[i - 1]", "[i-1]") in explained


@pytest.mark.parametrize(
    "conjunct", ["b[i-1].x <= b[b.len].x", "b[b.len].x > max(b[..i-1].x)", "c.x > b[i-1].x + b[b.len].x"]
)
def test_terms_that_share_a_register_are_evaluated_by_an_automaton(conjunct: str) -> None:
    assert isinstance(planned("SEQ(A a, B+ b[], A c)", conjunct), AutomatonPlan)
