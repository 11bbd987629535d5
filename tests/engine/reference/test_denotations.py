"""The oracle against the meaning of patterns as sets of words, for all constructs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from engine.language.parser import parse
from engine.language.resolver import resolve
from engine.reference import reference_matches
from tests.engine.reference.denotations import denoted
from tests.engine.strategies import ANY, IMPRECISE, PRECISE, SCHEMA, Case, QueryScope, cases
from tests.examples import examples

SCOPE = QueryScope(
    strategies=(ANY,),
    n_components=(1, 3),
    negated_patterns=True,
    unions=True,
    groups=True,
    conjunctions=True,
    any_of=True,
    partial_keys=True,
)
SMALL = replace(PRECISE, max_events=6)
SMALL_IMPRECISE = replace(IMPRECISE, max_events=4, width_ms=3, horizon_ms=5, clocks=False)


@settings(max_examples=examples(45), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(cases(SCOPE, SMALL), cases(SCOPE, SMALL), cases(SCOPE, SMALL_IMPRECISE)))
def test_the_oracle_finds_what_the_pattern_means(case: Case) -> None:
    resolved = resolve(parse(case.query), SCHEMA, text=case.query)
    found = {
        tuple(sorted(match.bindings.items())): match.confidence for match in reference_matches(resolved, case.stream)
    }
    event("matches" if found else "no match")
    assert found == denoted(resolved, case.stream)
