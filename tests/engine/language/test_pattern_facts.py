"""What is said of every match of a pattern holds in each match that the oracle finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings

from engine.events import EventSchema
from engine.language.parser import parse
from engine.language.pattern_facts import PatternFacts, facts_of
from engine.language.resolver import resolve
from engine.reference import reference_matches
from tests.engine.query_strategies import SCHEMA, QueryScope
from tests.engine.strategies import Case, StreamScope, cases

SHAPES = QueryScope(
    strategies=("skip_till_any_match",),
    unions=True,
    groups=True,
    conjunctions=True,
    any_of=True,
    negated_patterns=True,
    returns=False,
)
STREAM = StreamScope(max_events=6, horizon_ms=8)


def _facts(pattern: str) -> PatternFacts:
    resolved = resolve(
        parse(f"PATTERN {pattern} WHERE skip_till_any_match WITHIN 5"), EventSchema.of({"A": {}, "B": {}})
    )
    return facts_of(resolved.query.pattern, dict(resolved.variables))


def _flat(binding: Any) -> Iterator[str]:
    if isinstance(binding, str):
        yield binding
    else:
        for part in binding:
            yield from _flat(part)


@settings(max_examples=settings().max_examples // 2)
@given(cases(SHAPES, STREAM))
def test_facts_hold_in_every_match(case: Case) -> None:
    resolved = resolve(parse(case.query), SCHEMA, text=case.query)
    facts = facts_of(resolved.query.pattern, dict(resolved.variables))
    times = {row["event_id"]: row["t_lo_ms"] for row in case.stream.rows()}
    for match in reference_matches(resolved, case.stream):
        event("matched")
        bound = {variable: list(_flat(ids)) for variable, ids in match.bindings.items()}
        assert facts.mandatory <= {variable for variable, ids in bound.items() if ids}
        assert sum(map(len, bound.values())) >= facts.n_least
        for variable, ids in bound.items():
            least, most = facts.count_bounds(resolved.variables[variable], ())
            assert least <= len(ids)
            assert most is None or len(ids) <= most
            for other, other_ids in bound.items():
                if ids and other_ids and facts.is_before(variable, other, ()):
                    assert max(times[one] for one in ids) <= min(times[one] for one in other_ids)


@pytest.mark.parametrize(
    ("pattern", "mandatory", "n_least"),
    [
        ("SEQ(A a, !B n, B+ b[])", "a b", 2),
        ("SEQ(A a, B b?, (A c){2,3}, (B d)*)", "a c", 3),
        ("SEQ(A a, OR(B b, SEQ(B b, A c)))", "a b", 2),
        ("SEQ(A a, ANY(1, A b, B c), ANY(2, A d, B e))", "a d e", 4),
        ("(SEQ(A a, B? b)){2,}", "a", 2),
        ("AND(A a, B b)", "a b", 2),
    ],
)
def test_what_is_mandatory(pattern: str, mandatory: str, n_least: int) -> None:
    facts = _facts(pattern)
    assert facts.mandatory == frozenset(mandatory.split())
    assert facts.n_least == n_least


def test_counts_multiply_by_iterations() -> None:
    facts = _facts("(SEQ(A a, (SEQ(B{2,3} b[], A c)){1,2})){4,5}")
    b, a = facts.scope["b"], facts.scope["a"]
    assert facts.groups == {0: (4, 5), 1: (1, 2)}
    assert [facts.count_bounds(b, context) for context in ((), (0,), (0, 1))] == [(8, 30), (2, 6), (2, 3)]
    assert [facts.count_bounds(a, context) for context in ((), (0,))] == [(4, 5), (1, 1)]


def test_order_holds_inside_an_iteration() -> None:
    facts = _facts("SEQ((SEQ(A a, B b))+, AND(A c, B d), OR(A e, SEQ(B f, A e)))")
    assert facts.is_before("a", "b", (0,))
    assert not facts.is_before("a", "b", ())
    assert not facts.is_before("b", "a", (0,))
    assert facts.is_before("b", "c", ())
    assert not facts.is_before("c", "d", ())
    assert not facts.is_before("f", "e", ())  # e stands in two places
