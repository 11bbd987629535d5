"""States, edges and the placement of conditions of automata; explain and the graph."""

from __future__ import annotations

import re

import pytest

from engine.compiled.query import CompiledQuery, compile_query
from engine.language.printer import print_expression
from engine.plan.automaton.model import Automaton, AutomatonEdge, AutomatonPlan
from engine.plan.dot import quoted
from tests.engine.strategies import SCHEMA


def compiled(pattern: str, where: str = "[k]", strategy: str = "skip_till_next_match", rest: str = "") -> CompiledQuery:
    return compile_query(f"PATTERN {pattern} WHERE {strategy} {{ {where} }} WITHIN 9 {rest}", SCHEMA, name="q")


def automaton(pattern: str, where: str = "[k]") -> Automaton:
    (branch,) = compiled(pattern, where).branches
    assert isinstance(branch, AutomatonPlan)
    return branch.states


def moves(found: Automaton) -> list[tuple[str, str, str]]:
    """(rest before, variable, rest after) of every edge."""
    texts = found.state_texts
    names = [o.component.variable for o in found.occurrences]
    return [(texts[e.source], names[e.occurrence], texts[e.target]) for e in found.edges]


def edges_of(found: Automaton, variable: str) -> list[AutomatonEdge]:
    return [e for e in found.edges if found.occurrences[e.occurrence].component.variable == variable]


def checks(found: Automaton, edge: AutomatonEdge) -> list[str]:
    return [print_expression(found.conditions[check.condition].expression) for check in edge.checks]


def test_a_group_loops_to_its_first_component_or_goes_on() -> None:
    found = automaton("SEQ((SEQ(A a, B b))+, C c)")
    assert moves(found) == [
        ("(a b)+ c", "a", "b (a b)* c"),
        ("b (a b)* c", "b", "(a b)* c"),
        ("(a b)* c", "a", "b (a b)* c"),
        ("(a b)* c", "c", "end"),
    ]
    assert [e.loops for e in found.edges] == [False, False, True, False]
    assert [e.blocks for e in found.edges] == [True, True, True, False]


def test_bounds_are_guards_and_not_unrolled() -> None:
    found = automaton("SEQ((SEQ(A a, B{2,900} b[])){3,700}, C c)")
    assert found.n_states < 8
    again, out = edges_of(found, "a")[1], edges_of(found, "c")[0]
    assert {(g.low, g.high) for g in again.guards} == {(0, 699), (2, None)}
    assert {(g.low, g.high) for g in out.guards} == {(3, None), (2, None)}


def test_and_is_the_shuffle_of_its_operands() -> None:
    found = automaton("AND(A a, SEQ(B b, C c))")
    assert found.n_states == 6  # the product of 2 and 3 states
    assert {(pair.left, pair.right) for pair in found.parallel} == {(0, 1), (0, 2), (1, 0), (2, 0)}


def test_a_looping_operand_of_and_blocks_with_its_loop_alone() -> None:
    found = automaton("SEQ(AND(A+ a[], B b), C c)")
    begun = [e for e in found.edges if found.state_texts[e.source].startswith("(a* & b)")]
    assert [(found.occurrences[e.occurrence].component.variable, e.blocks) for e in begun] == [("a", True), ("b", True)]
    left = [e for e in found.edges if found.state_texts[e.source] == "a* c"]
    assert [(found.occurrences[e.occurrence].component.variable, e.blocks) for e in left] == [("a", True), ("c", False)]


def test_a_negation_is_crossed_where_it_stands() -> None:
    found = automaton("SEQ((SEQ(!N n, A a, !L l))+, C c)")
    first, again = edges_of(found, "a")
    assert [crossing.negation for crossing in first.crossings] == [0]
    assert [(c.negation, c.iteration_begun) for c in again.crossings] == [(1, False), (0, True)]
    assert [c.negation for c in edges_of(found, "c")[0].crossings] == [1]


@pytest.mark.parametrize(
    ("where", "variable", "decided"),
    [
        ("a.x < b.x", "b", [True]),  # within the iteration
        ("b[i].x > b[i-1].x", "b", [True]),
        ("c.x > max(b[].x)", "c", [True]),
        ("count(a[]) > 1", "c", [True]),  # the group is left
        ("count(a[]) > 1", "a", [False, False]),
        ("b[b.len].x > a[1].x", "c", [True]),
    ],
)
def test_a_condition_is_decided_by_the_edge_that_makes_it_known(where: str, variable: str, decided: list[bool]) -> None:
    found = automaton("SEQ((SEQ(A a, B b))+, C c)", where)
    assert [bool(checks(found, edge)) for edge in edges_of(found, variable)] == decided


def test_what_an_iteration_decides_as_it_ends_is_checked_before_the_next() -> None:
    found = automaton("(A+ a[])+", "count(a[]) >= 2")
    begun, taken, again = edges_of(found, "a")
    assert not begun.checks
    assert not taken.checks
    assert [check.before for check in again.checks] == [True]
    assert len(found.exits[0].checks) == 1


@pytest.mark.parametrize(
    "where",
    [
        "max(b[..i-1].x) < c.x",
        "last(b[..b.len-1].x) < c.x",
        "b[i-1].x <= b[b.len].x",
        "n.x > b[i].x",
    ],
)
def test_every_form_of_predicate_has_a_plan(where: str) -> None:
    (branch,) = compiled("SEQ(A a, B+ b[], !N n, C c)", where).branches
    assert isinstance(branch, AutomatonPlan)
    assert any(note.startswith("an automaton, for ") for note in branch.notes)


def test_explain_shows_states_edges_and_where_conditions_are_decided() -> None:
    query = compiled(
        "SEQ(A a, (SEQ(B{2,3} b[], !N n, C c))+ , A d)", "[k] AND count(b[]) > 1 AND c.x < d.x AND d.x > 1"
    )
    text = query.explain()
    for part in (
        "automaton by runs",
        "d: d.x > 1   [on the event alone, as it arrives]",
        "take*    B b if events of b <= 2 -> 2",
        "begin    C c if events of b >= 2 and no n in between -> 3",
        "count(b[]) > 1   [all that it is about is known here, in the iteration at hand]",
        "c.x < d.x   [all that it is about is known here, in every iteration]",
        "ignore  what none of the edges marked * takes",
        "(start of what is negated: 5)",
    ):
        assert part in text, part


def test_explain_shows_every_plan_of_a_union() -> None:
    text = compiled("SEQ(A a, OR(B b, (SEQ(B c, C d))+))").explain()
    assert "union      of 2 plans" in text
    assert "plan 1     a, b\nruntime    run-based NFAb" in text
    assert "plan 2     a, c, d\nruntime    automaton by runs" in text


def test_the_graph_has_a_cluster_per_plan_and_an_arrow_per_edge() -> None:
    query = compiled("SEQ(A a, OR(B b, (SEQ(B c, C d))+))", "[k] AND b.x > a.x")
    graph = query.dot()
    assert graph.startswith('digraph "q" {')
    assert graph.count("subgraph cluster_") == 2
    assert graph.count("{") == graph.count("}")
    automata = [branch for branch in query.branches if isinstance(branch, AutomatonPlan)]
    assert len(re.findall(r"s1_\d+ -> s1_\d+", graph)) == len(automata[0].states.edges)
    assert "begin\\nb.x > a.x" in graph


@pytest.mark.parametrize(
    ("text", "expected"),
    [('a"b', '"a\\"b"'), ("a\\", '"a\\\\"'), ("a\nb", '"a\\nb"'), ('"]; evil [', '"\\"]; evil ["'), ("\x00", '"?"')],
)
def test_hostile_texts_are_escaped(text: str, expected: str) -> None:
    assert quoted(text) == expected
