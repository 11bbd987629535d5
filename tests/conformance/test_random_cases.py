"""Random queries on random streams, delivered in pieces, with restarts between them: all runtimes against the oracle.

A few examples by default. `CLUSTERCEP_EXAMPLES=50000` draws so many in each test, from `CLUSTERCEP_SEED` (else from a
seed that is printed). What the engine refuses is left out of the comparison, counted and printed with the reasons; of
the construct groups in EVALUATED nothing may be refused.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from engine.events import EventBatch
from tests.conformance.comparison import Tally, compare
from tests.conformance.ways import CUT, Setting, rows_by
from tests.engine.strategies import (
    ANY,
    EVERYTHING,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    SKEWED,
    STRICT,
    WEIGHTED,
    Case,
    Delivery,
    QueryScope,
    StreamScope,
    cases,
    deliveries,
)
from tests.examples import each_drawn_anew

N_EXAMPLES = int(os.environ.get("CLUSTERCEP_EXAMPLES", "0"))
SEED = int(os.environ.get("CLUSTERCEP_SEED", "0"))
STRATEGIES = (ANY, NEXT, PARTITION, STRICT)
SIX = replace(IMPRECISE, max_events=6, width_ms=4)
FORMS = ("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING", "TOP 2 BY CONFIDENCE")

_PLAIN = QueryScope(negation=False, having=True)
SCOPES = {
    "plain": _PLAIN,
    "negation": replace(_PLAIN, negation=True),
    "several negations": replace(_PLAIN, negation=True, n_negated=(1, 2), n_components=(1, 2), having=False),
    "partly keyed types": replace(_PLAIN, partial_keys=True),
    "unions": replace(_PLAIN, unions=True, negation=True),
    "groups": replace(_PLAIN, groups=True),
    "conjunctions": replace(_PLAIN, conjunctions=True),
    "any": replace(_PLAIN, any_of=True),
    "negated patterns": replace(_PLAIN, negation=True, negated_patterns=True),
    "nested": replace(
        _PLAIN, groups=True, conjunctions=True, any_of=True, unions=True, negation=True, negated_patterns=True
    ),
    "windows of events": replace(_PLAIN, within_events=True),
    "sliding windows": replace(_PLAIN, slide=True),
    "opened windows": replace(_PLAIN, open_on=True),
    "selection": replace(_PLAIN, selection=True),
    "output": replace(_PLAIN, outputs=FORMS, confidence=True),
    "limited": replace(_PLAIN, outputs=FORMS, confidence=True, negation=True, slide=True, limit=True),
    "limited, opened windows": replace(_PLAIN, outputs=FORMS, open_on=True, within_events=True, limit=True),
    "everything": replace(EVERYTHING, outputs=FORMS),
}

EVALUATED = frozenset(
    itertools.product(
        [
            "plain",
            "negation",
            "several negations",
            "output",
            "partly keyed types",
            "unions",
            "groups",
            "conjunctions",
            "any",
            "negated patterns",
            "nested",
            "windows of events",
            "sliding windows",
            "opened windows",
            "selection",
            "everything",
        ],
        STRATEGIES,
    )
)
"""Construct groups and strategies of which no query over precise events may be refused."""

DECLARED = (
    "skip_till_next_match with iterations of different keys",
    "partition_contiguity with iterations of different keys",
    "WITHIN n EVENTS under ",
    "this predicate relates two negated patterns",
    "the oracle: too many worlds",
)
"""Refusals that the engine states as its limits: types with some of the key's attributes only, windows of events; and a
predicate about two patterns that must both be absent, which no match could decide. The oracle lists worlds."""


Drawn = tuple[Case, list[Delivery], frozenset[int]]


@st.composite
def delivered(draw: st.DrawFn, query: QueryScope, stream: StreamScope) -> Drawn:
    """A case, its stream in pieces, and after which of them the engine is replaced by one in the saved state."""
    case = draw(cases(query, stream))
    parts = draw(deliveries(case.stream))
    restarts = draw(st.frozensets(st.integers(0, len(parts) - 1))) if draw(st.booleans()) else frozenset()
    return case, parts, restarts


def run_cases(query: QueryScope, streams: tuple[StreamScope, ...], n_examples: int) -> Tally:
    """Compare so many examples; the tally is printed."""
    tally = Tally()

    def check(drawn: Drawn) -> None:
        compare(*drawn, tally)

    drawn = st.one_of([delivered(query, stream) for stream in streams])
    with each_drawn_anew():
        _drawn_by(n_examples)(given(drawn)(check))()
    print(
        f"{tally.n_compared} compared, {tally.n_with_rows} of them with rows, {tally.n_by_baselines} times by a "
        f"baseline; refused: {tally.refused or 'none'}"
    )
    return tally


def _drawn_by(n_examples: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The settings of a run: the same few examples each time, or many from a seed that is printed."""
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    if not N_EXAMPLES:
        return settings(max_examples=n_examples, deadline=None, suppress_health_check=quiet)
    chosen = SEED or secrets.randbits(31)
    print(f"CLUSTERCEP_EXAMPLES={N_EXAMPLES} CLUSTERCEP_SEED={chosen}")
    many = settings(
        max_examples=N_EXAMPLES, deadline=None, derandomize=False, database=None, suppress_health_check=quiet
    )
    return lambda test: seed(chosen)(many(test))


@pytest.mark.in_turn(of=4)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("group", SCOPES)
def test_precise_events(group: str, strategy: str) -> None:
    stream = replace(PRECISE, max_events=8 if strategy == ANY else 11)
    tally = run_cases(replace(SCOPES[group], strategies=(strategy,)), (stream,), 8)
    assert tally.n_compared + tally.n_refused > 0
    if (group, strategy) in EVALUATED:
        refused = {reason: n for reason, n in (tally.refused or {}).items() if not reason.startswith(DECLARED)}
        assert not refused


@pytest.mark.in_turn(of=4)
@pytest.mark.parametrize("group", SCOPES)
def test_imprecise_events(group: str) -> None:
    query = replace(SCOPES[group], strategies=(ANY,), confidence=True, within_events=False)
    tally = run_cases(query, (IMPRECISE, WEIGHTED, SKEWED, SIX), 8)
    assert not {reason for reason in tally.refused or {} if not reason.startswith(DECLARED)}


@pytest.mark.in_turn(of=4)
@pytest.mark.parametrize("group", ["groups", "conjunctions", "nested"])
def test_orders_and_divisions_of_one_set_of_imprecise_events(group: str) -> None:
    query = replace(SCOPES[group], strategies=(ANY,), outputs=("SETS",), negation=True, within_events=False)
    tally = run_cases(query, (SIX,), 8)
    assert not {reason for reason in tally.refused or {} if not reason.startswith(DECLARED)}


def test_selection_from_sets_of_imprecise_events() -> None:
    """Another order of a set is decided when all its events have ended: those chosen before must wait for it."""
    query = replace(_PLAIN, strategies=(ANY,), outputs=("SETS",), selection=True, confidence=True)
    tally = run_cases(query, (SIX, IMPRECISE), 8)
    assert tally.n_compared


def test_an_empty_stream_has_no_rows() -> None:
    case = Case("PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 1", EventBatch.empty())
    assert rows_by(CUT, Setting({"q": case.query}, {}).compiled(), []) == []
