"""Lists whose values must differ (`repeats(b[..i-1].x) = 0`) against the oracle, and the oracle against its definition.

Streams come in pieces, with restarts between them, to every runtime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import compile_query
from engine.reference.rows.output import reference_output
from tests.conformance.comparison import Tally, compare
from tests.engine.query_strategies import ANY, NEXT, PARTITION, SCHEMA, STRICT
from tests.engine.strategies import IMPRECISE, PRECISE, Case, StreamScope, deliveries, streams_for

PATTERNS = (
    "SEQ(A a, B{%s} b[])",
    "B{%s} b[]",
    "SEQ(B{%s} b[], A a)",
    "AND(A a, B{%s} b[])",
    "SEQ(A a, !C c, B{%s} b[])",
)
BOUNDS = ("2,2", "3,3", "2,3", "2,", "1,4")
CONDITIONS = (
    "repeats(b[..i-1].x) = 0",
    "repeats(b[..i-1].s) = 0",
    "repeats(b[..i-1].y) = 0 AND b[i].x >= 0",
    "repeats(b[..i-1].x) <= 1",
    "(repeats(b[..i-1].x) = 0 OR b[i].s = 'ok')",
    "repeats(b[..i-1].s) = count(b[..i-1].s)",  # all alike
)


@st.composite
def _queries(draw: st.DrawFn, strategy: str) -> str:
    pattern = draw(st.sampled_from(PATTERNS)) % draw(st.sampled_from(BOUNDS))
    key = "[k] AND " if draw(st.booleans()) else ""
    within = draw(st.sampled_from((6, 12, 20)))
    return f"PATTERN {pattern}\nWHERE {strategy} {{ {key}{draw(st.sampled_from(CONDITIONS))} }}\nWITHIN {within} ms"


@st.composite
def _cases(draw: st.DrawFn, strategy: str, scope: StreamScope) -> Case:
    text = draw(_queries(strategy))
    return Case(text, draw(streams_for([text], scope)))


@pytest.mark.parametrize("strategy", [ANY, NEXT, PARTITION, STRICT])
def test_runtimes_tell_what_the_oracle_does(strategy: str) -> None:
    tally = Tally()
    scope = replace(PRECISE, max_events=8 if strategy == ANY else 11)

    @settings(max_examples=12, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(_cases(strategy, scope))
        parts = data.draw(deliveries(case.stream))
        compare(case, parts, data.draw(st.frozensets(st.integers(0, len(parts) - 1))), tally)

    check()
    assert not tally.refused
    assert tally.n_with_rows > 0


def test_imprecise_events() -> None:
    tally = Tally()

    @settings(max_examples=8, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(_cases(ANY, replace(IMPRECISE, max_events=6, width_ms=3)))
        compare(case, data.draw(deliveries(case.stream)), (), tally)

    check()
    assert set(tally.refused or {}) <= {"the oracle: too many worlds"}


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_of_all_choices_those_with_different_values_are_left(data: st.DataObject) -> None:
    """The oracle's matches are those of the query without the condition, of which no two events of b are alike."""
    text = "PATTERN SEQ(A a, B{3,3} b[]) WHERE skip_till_any_match CONDITION WITHIN 20 ms"
    plain = text.replace("CONDITION", "")
    stream = data.draw(streams_for([plain], replace(PRECISE, max_events=9)))
    value = {row["event_id"]: row.get("x") for row in stream.rows()}

    def bound(condition: str) -> set[tuple[Any, ...]]:
        query = compile_query(text.replace("CONDITION", f"{{ {condition} }}") if condition else plain, SCHEMA)
        return {(*row.bindings["b"], *row.bindings["a"]) for row in reference_output(query.resolved, stream)}

    def differs(ids: tuple[Any, ...]) -> bool:
        # The first event may have no value: there is none before it, and those after it do not have it.
        first, second, third = (value[name] for name in ids[:3])
        return None not in (second, third) and len({first, second, third}) == 3

    assert bound("repeats(b[..i-1].x) = 0") == {ids for ids in bound("") if differs(ids)}
