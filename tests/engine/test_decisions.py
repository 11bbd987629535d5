"""How a query is evaluated is decided in one position: elsewhere nobody asks what kind of plan or runtime there is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import engine
from engine import compile_query
from engine.matching.factory import partition_runtime
from engine.matching.protocol import EndsBeginning, Limits, SharesEvents, TakesSink
from engine.plan.evaluation import PairMethod, QueryRuntime, RuntimeKind, branch_evaluation
from engine.stream.interner import Interner
from tests.engine.strategies import SCHEMA

HOME = Path(engine.__file__).parent
DECIDES = ("plan", "matching/factory.py", "runtime/factory.py")
"""The planner, and what executes its decision."""


def kinds_asked_for(source: str) -> Iterator[str]:
    """The plans and runtimes that `isinstance` is asked about."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = [part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)]
            yield from (name for name in names if name.endswith(("Plan", "Runtime")))


def test_nobody_else_asks_for_a_kind_of_plan_or_runtime() -> None:
    requested = {
        str(path.relative_to(HOME)): found
        for path in HOME.rglob("*.py")
        if not str(path.relative_to(HOME)).startswith(DECIDES)
        if (found := list(kinds_asked_for(path.read_text())))
    }
    assert requested == {}
    assert list(kinds_asked_for("isinstance(plan, SequencePlan | AutomatonPlan)")) == ["SequencePlan", "AutomatonPlan"]


def methods(text: str) -> list[PairMethod]:
    (branch,) = compile_query(f"PATTERN {text}", SCHEMA).evaluation.branches
    assert branch.pairs is not None
    return [each.method for each in branch.pairs.each]


def test_the_evaluators_of_pairs() -> None:
    any_match, m = "WHERE skip_till_any_match", PairMethod
    selected = f"SEQ(A a, B+ b[], C c) {any_match} {{ [k] AND b[i].x > a.x }} WITHIN 9"
    stepwise = f"SEQ(A a, B+ b[], C c) {any_match} {{ b[i].x > avg(b[..i-1].x) }} WITHIN 9"
    chained = f"SEQ(A a, B+ b[], C c) {any_match} {{ b[i].x > b[i-1].x }} WITHIN 9"
    single_kleene = f"SEQ(A a, A d, B+ b[], C c) {any_match} WITHIN 9"
    two = f"SEQ(A a, B+ b[], C+ c[], A d) {any_match} WITHIN 9"
    assert methods(selected) == [m.INDEPENDENT, m.LISTING]
    assert methods(f"{selected} OUTPUT COUNT") == [m.INDEPENDENT, m.POSSIBLE, m.CHAINS, m.CLASSES, m.SEARCH]
    sure = [m.INDEPENDENT, m.SINGLE_KLEENE, m.CHAINS, m.CLASSES, m.SEARCH]
    assert methods(f"{selected} CONFIDENCE >= 0.5 OUTPUT COUNT") == sure
    assert methods(f"{selected} SELECT FIRST OUTPUT COUNT") == [m.PRECISE_LISTING, m.LISTING]
    assert methods(f"{stepwise} OUTPUT COLLAPSED") == [m.CLASSES, m.SEARCH]
    assert methods(f"{chained} OUTPUT COLLAPSED") == [m.CHAINS, m.CLASSES, m.SEARCH]
    assert methods(f"{single_kleene} OUTPUT COLLAPSED") == [m.SINGLE_KLEENE, m.CLASSES, m.SEARCH]
    assert methods(single_kleene) == [m.PRECISE_LISTING, m.LISTING]
    assert methods(f"{two} OUTPUT COLLAPSED") == [m.CLASSES, m.SEARCH]


def test_what_makes_the_rows_of_a_query() -> None:
    def evaluation(text: str) -> tuple[QueryRuntime, list[RuntimeKind], bool]:
        found = compile_query(f"PATTERN {text}", SCHEMA).evaluation
        return found.runtime, [branch.runtime for branch in found.branches], found.merges_rows

    q, k = QueryRuntime, RuntimeKind
    assert evaluation("SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9") == (q.ONE_PLAN, [k.POSTPONED], False)
    assert evaluation("SEQ(A a, B b) WHERE strict_contiguity WITHIN 9") == (q.ONE_PLAN, [k.RUNS], False)
    assert evaluation("AND(A a, B b) WHERE skip_till_any_match WITHIN 9") == (q.ONE_PLAN, [k.AUTOMATON_SEARCH], False)
    assert evaluation("AND(A a, B b) WHERE skip_till_next_match WITHIN 9") == (q.ONE_PLAN, [k.AUTOMATON_RUNS], False)
    either = "SEQ(A a, OR(B b, C c)) WHERE skip_till_any_match WITHIN 9"
    assert evaluation(either) == (q.UNION, [k.POSTPONED] * 2, False)
    assert evaluation(f"{either} OUTPUT COUNT") == (q.UNION, [k.POSTPONED] * 2, True)
    of_events = "SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9 EVENTS"
    assert evaluation(of_events) == (q.COUNT_WINDOWS, [k.POSTPONED], False)
    trends = "A+ WITHIN 9 SLIDE 9 RETURN COUNT(*)"
    assert evaluation(trends) == (q.TRENDS, [k.TRENDS], False)


def test_what_runtimes_can_do_beyond_advancing() -> None:
    def able(strategy: str) -> list[bool]:
        plan = compile_query(f"PATTERN SEQ(A a, B b) WHERE {strategy} WITHIN 9", SCHEMA).plan
        runtime = partition_runtime(branch_evaluation(plan), Interner(), Limits())
        return [isinstance(runtime, kind) for kind in (TakesSink, SharesEvents, EndsBeginning)]

    assert able("skip_till_any_match") == [True, True, True]
    assert able("skip_till_next_match") == [False, False, False]


def test_a_plan_with_parts_of_the_key_is_explained_by_what_runs_in_each_partition() -> None:
    plan = compile_query("PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9", SCHEMA).plan
    alone = branch_evaluation(plan, takes_matches=True)
    spread = branch_evaluation(replace(plan, has_partial_keys=True), takes_matches=True)
    assert spread.inner is not None
    assert spread.explain() == alone.explain()
    assert any(line.startswith("selection") for line in spread.explain())
