"""Each rewrite on patterns in the query language, and what becomes of the clauses of a branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import QueryError, QueryTypeError, UnsupportedQueryError
from engine.events import AttributeType, EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_expression
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.rewrites import expanded, single_negations
from engine.plan.rewrites.alternatives import MAX_BRANCHES
from engine.plan.rewrites.flat import flatten
from engine.plan.rewrites.single import drop_single

FIXTURE = Path(__file__).parent / "fixtures" / "rewrites.txt"
SCHEMA = EventSchema.of({name: {"x": AttributeType.INT} for name in "ABCDE"})

RULES: dict[str, Callable[[ast.Pattern], tuple[ast.Pattern, ...]]] = {
    "flatten": lambda pattern: (flatten(pattern),),
    "drop_single": lambda pattern: (drop_single(pattern),),
    "expanded": expanded,
    "single_negations": lambda pattern: (single_negations(pattern, {"b"}),),
}


def lines() -> list[str]:
    text = FIXTURE.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("--")]


def pattern_of(text: str) -> ast.Pattern:
    """A lone negation is no query; the parser takes it in a SEQ."""
    if text.startswith("!"):
        found = parse(f"PATTERN SEQ({text}, A z)").pattern
        assert isinstance(found, ast.Sequence)
        return found.parts[0]
    return parse(f"PATTERN {text}").pattern


@pytest.mark.parametrize("line", lines())
def test_a_rule_makes_these_patterns(line: str) -> None:
    name, rest = line.split(" ", 1)
    before, after = rest.split(" => ")
    found = RULES[name](pattern_of(before))
    assert list(found) == [wanted(text) for text in after.split(" | ")]


def wanted(text: str) -> ast.Pattern:
    return pattern_of(text)


def test_every_rule_has_a_line() -> None:
    assert {line.split(" ", 1)[0] for line in lines()} == set(RULES)


def compiled(pattern: str, where: str = "", rest: str = "") -> CompiledQuery:
    condition = f"{{ {where} }}" if where else ""
    return compile_query(f"PATTERN {pattern} WHERE skip_till_any_match {condition} WITHIN 9 {rest}", SCHEMA)


def conjuncts(query: CompiledQuery) -> list[list[str]]:
    return [[print_expression(predicate) for predicate in branch.query.predicates] for branch in query.branches]


def test_a_conjunct_about_a_variable_that_a_branch_lacks_does_not_apply_to_it() -> None:
    query = compiled("SEQ(A a, B? b, C c)", "b.x > a.x AND c.x > a.x")
    assert conjuncts(query) == [["c.x > a.x"], ["b.x > a.x", "c.x > a.x"]]


def test_the_count_of_an_absent_variable_is_0_and_stays() -> None:
    query = compiled("SEQ(A a, B* b[], C c)", "count(b[]) < c.x", "RETURN count(b[]) AS n, max(b[].x) AS most")
    assert conjuncts(query) == [["0 < c.x"], ["count(b[]) < c.x"]]
    absent = query.branches[0].query.returns
    assert [print_expression(item.expression) for item in absent] == ["0", "NULL"]


def test_having_about_an_absent_variable_leaves_the_branch_out() -> None:
    assert len(compiled("SEQ(A a, B? b, C c)", rest="HAVING b.x > 1").branches) == 1
    with pytest.raises(QueryTypeError, match="no match has together"):
        compiled("SEQ(A a, OR(B b, C c))", rest="HAVING b.x > c.x")


def test_bounds_of_a_kleene_component_are_predicates_of_a_plain_plan() -> None:
    (branch,) = compiled("SEQ(A a, B{2,4} b[], C c)").branches
    assert not isinstance(branch, AutomatonPlan)
    texts = [print_expression(predicate) for predicate in branch.query.predicates]
    assert texts == ["count(b[..i-1]) < 4", "count(b[]) >= 2"]
    assert any("bounds" in note for note in branch.notes)


@pytest.mark.parametrize(
    ("where", "is_plain"), [("b[i].x > a.x", True), ("count(b[]) > 1", False), ("b[1].x > 1 AND b[i].x > 2", False)]
)
def test_an_absent_kleene_component_is_a_single_one_unless_it_is_read_as_a_list(where: str, is_plain: bool) -> None:
    (branch,) = compiled("SEQ(A a, !B+ b[], C c)", where).branches
    assert isinstance(branch, AutomatonPlan) is not is_plain


def test_too_many_branches_are_refused() -> None:
    choices = ", ".join(f"OR(A a{n}, B b{n}, C c{n})" for n in range(6))
    assert MAX_BRANCHES < 3**6
    with pytest.raises(UnsupportedQueryError, match=f"more than {MAX_BRANCHES} patterns"):
        expanded(pattern_of(f"SEQ({choices})"))


def test_an_automaton_that_is_too_large_is_refused() -> None:
    parts = ", ".join(f"SEQ(A a{n}, B b{n}, C c{n})" for n in range(6))
    with pytest.raises(QueryError, match="automaton of the pattern is too large"):
        compiled(f"AND({parts})")
