"""Windows of a query's own, SELECT FIRST and CONSUME against the oracle: random queries, streams, cuts, restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.language import ast
from engine.language.parser import parse
from tests.engine.matching.test_output_forms import check_against_the_oracle
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    STRICT,
    Case,
    QueryScope,
    StreamScope,
    cases,
)

FORMS = ("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING")
EXTRAS = (
    "SLIDE 3 ms",
    "SLIDE 7 ms",
    "OPEN ON type = 'A'",
    "OPEN ON x > 0 AND type != 'C'",
    "OPEN ON s = 'ok' OR timestamp % 4 = 0",
    "SELECT FIRST",
    "CONSUME {v}",
    "SELECT FIRST\nCONSUME {v}",
    "SLIDE 4 ms\nCONSUME {v}",
    "OPEN ON type = 'B'\nSELECT FIRST",
)


def with_clause(case: Case, extra: str) -> Case:
    """The query with one more clause; {v} in it is the first variable that is not negated."""
    positive = [part.variable for part, negated in ast.components(parse(case.query).pattern) if not negated]
    return replace(case, query=f"{case.query}\n{extra.format(v=positive[0])}")


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize(
    ("strategies", "streams"),
    [((NEXT, PARTITION, STRICT), PRECISE), ((ANY,), PRECISE), ((ANY,), IMPRECISE)],
    ids=["runs", "any", "any, imprecise"],
)
def test_the_rows_of_the_oracle(strategies: tuple[str, ...], streams: StreamScope, extra: str) -> None:
    precise = streams.width_ms == 1
    scope = QueryScope(strategies=strategies, outputs=FORMS, negation=precise, confidence=not precise, having=True)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases(scope, streams), st.data())
    def check(case: Case, data: st.DataObject) -> None:
        check_against_the_oracle(with_clause(case, extra), data)

    check()
