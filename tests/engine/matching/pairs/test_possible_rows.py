"""P(at least one match) of rows and of all rows of a key, against the share of worlds that the oracle lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from engine import AtLeastOne, Engine, Limits, MatchRow, Method, compile_query, united
from engine import at_least_one as evaluated
from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.matching.pairs import possible_rows
from engine.reference.existence import share_with_any
from engine.reference.found import FoundMatch
from engine.reference.matches import find_matches
from engine.reference.observed import observe
from engine.reference.rows.output import key_of
from tests.engine.strategies import ANY, IMPRECISE, PRECISE, SCHEMA, SKEWED, WEIGHTED, Case, QueryScope, cases
from tests.examples import examples

TOLERANCE = 1e-12
PLAIN = QueryScope(
    negation=False, having=True, confidence=True, strategies=(ANY,), outputs=("ALL", "COLLAPSED", "COUNT")
)
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def rows_of(case: Case) -> list[MatchRow]:
    """The engine's rows, which carry what stands behind them."""
    engine = Engine([compile_query(case.query, SCHEMA, name="q")], SCHEMA, limits=Limits(possibilities=True))
    return [*engine.process(case.stream, 8), *engine.finish()]


def check(result: AtLeastOne, truth: Fraction, *, exactly: bool) -> None:
    """Exact results are equal, bounds hold the truth, estimates are near it."""
    assert result.lower - TOLERANCE <= float(truth) <= result.upper + TOLERANCE
    if exactly:
        assert result.method in (Method.EXACT, Method.CERTAIN)
    if result.method is Method.ESTIMATE:
        assert result.estimate is not None
        assert result.standard_error is not None
        assert abs(result.estimate - float(truth)) <= 6 * result.standard_error
    else:
        assert (result.lower == result.upper) == (result.method is not Method.BOUNDS)


def compare(case: Case, *, exactly: bool) -> None:
    """Each row, and all rows of each key, against the oracle."""
    note(repr(case))
    resolved = compile_query(case.query, SCHEMA, name="q").resolved
    query = resolved.query
    try:
        rows = rows_of(case)
        events = observe(case.stream, SCHEMA)
        found = find_matches(resolved, events)
        threshold = Fraction(repr(query.confidence)) if query.confidence is not None else Fraction(0)
        found = [match for match in found if match.confidence >= threshold]
        by_row: dict[Hashable, list[FoundMatch]] = {}
        by_key: dict[Hashable, list[FoundMatch]] = {}
        for match in found:
            by_row.setdefault(identity(query.output, match), []).append(match)
            by_key.setdefault(key_of(resolved, match), []).append(match)
        for row in rows:
            truth = share_with_any(resolved, events, by_row[row_identity(query.output, row)])
            check(row.at_least_one(), truth, exactly=exactly)
        for key, matches in by_key.items():
            truth = share_with_any(resolved, events, matches)
            together = united(row.possibilities for row in rows if row.key == key)
            check(evaluated(together), truth, exactly=exactly)
    except UnsupportedQueryError:
        return


def identity(output: ast.Output, match: FoundMatch) -> Hashable:
    if output is ast.Output.ALL:
        return tuple(sorted(match.ids.items()))
    return match.sequence[0].event_id, match.sequence[-1].event_id


def row_identity(output: ast.Output, row: MatchRow) -> Hashable:
    if output is ast.Output.ALL:
        return tuple(sorted(row.bindings.items()))
    return row.event_ids[0], row.event_ids[-1]


@settings(max_examples=examples(35), deadline=None, suppress_health_check=QUIET)
@given(st.one_of(cases(PLAIN, IMPRECISE), cases(PLAIN, WEIGHTED)))
def test_plain_queries_are_exact(case: Case) -> None:
    compare(case, exactly=True)


@settings(max_examples=examples(35), deadline=None, suppress_health_check=QUIET)
@given(st.one_of(cases(replace(PLAIN, negation=True), IMPRECISE), cases(replace(PLAIN, negation=True), WEIGHTED)))
def test_negations_are_exact_or_bounded(case: Case) -> None:
    compare(case, exactly=False)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=QUIET)
@given(cases(replace(PLAIN, negation=True), SKEWED))
def test_clocks_with_skew_are_exact_or_bounded(case: Case) -> None:
    compare(case, exactly=False)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=QUIET)
@given(cases(replace(PLAIN, conjunctions=True, any_of=True, groups=True), replace(IMPRECISE, max_events=4)))
def test_matches_that_are_formed_into_rows_are_exact(case: Case) -> None:
    compare(case, exactly=True)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=QUIET)
@given(cases(replace(PLAIN, unions=True, groups=True, negation=True), IMPRECISE))
def test_the_whole_language_has_bounds(case: Case) -> None:
    compare(case, exactly=False)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=QUIET)
@given(cases(PLAIN, PRECISE))
def test_precise_events_make_certain_matches(case: Case) -> None:
    for row in rows_of(case):
        assert row.possible is None
        assert row.at_least_one() == AtLeastOne(1.0, 1.0, Method.CERTAIN)


def _around(n_samples: int) -> EventBatch:
    """Samples of n hosts, which overlap, between a start and an end that are as uncertain."""
    rows = [{"event_id": "a", "type": "A", "t_lo_ms": 0, "t_hi_ms": 999, "k": "p", "j": 1, "x": 0, "y": 0.0}]
    rows += [
        {"event_id": f"b{n}", "type": "B", "t_lo_ms": 300 + n, "t_hi_ms": 1300 + n, "k": "p", "x": n, "j": 1}
        for n in range(n_samples)
    ]
    rows.append({"event_id": "c", "type": "C", "t_lo_ms": 700, "t_hi_ms": 1699, "k": "p"})
    known = {name: {"event_id", "type", "t_lo_ms", "t_hi_ms", *attributes} for name, attributes in SCHEMA.types.items()}
    own = [{name: value for name, value in row.items() if name in known[str(row["type"])]} for row in rows]
    return EventBatch.from_rows(own, SCHEMA)


def collapsed(query: str, n_samples: int) -> MatchRow:
    (row,) = rows_of(Case(query, _around(n_samples)))
    return row


COLLAPSED = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match WITHIN 10000 OUTPUT COLLAPSED"


def test_many_samples_make_it_more_certain_than_the_best_match() -> None:
    """Chains of a Kleene component follow from the short ones: 4 samples have 64 orders, and 4 short chains."""
    few, many = collapsed(COLLAPSED, 1), collapsed(COLLAPSED, 4)
    assert few.at_least_one().lower == pytest.approx(few.confidence, abs=TOLERANCE)
    assert many.possible is not None
    assert len(many.possible.matches) == 4
    assert many.at_least_one().method is Method.EXACT
    assert many.at_least_one().lower > many.confidence + 0.1


def test_a_spent_budget_leaves_bounds_that_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = collapsed(COLLAPSED, 4).at_least_one()
    monkeypatch.setattr(possible_rows, "_MAX_LISTED", 3)
    cut = collapsed(COLLAPSED, 4).at_least_one()
    assert cut.method is Method.BOUNDS
    assert cut.lower <= exact.lower <= exact.upper <= cut.upper
    monkeypatch.setattr(possible_rows, "_MAX_CONDITIONS", 0)
    row = collapsed(COLLAPSED, 4)
    assert row.at_least_one() == AtLeastOne(row.confidence, 1.0, Method.BOUNDS)


def test_rows_are_equal_whatever_they_carry() -> None:
    row = collapsed(COLLAPSED, 2)
    assert replace(row, possible=None) == row


def test_nothing_is_carried_unless_asked_for() -> None:
    engine = Engine([compile_query(COLLAPSED, SCHEMA, name="q")], SCHEMA)
    rows: Sequence[MatchRow] = [*engine.process(_around(2), 0), *engine.finish()]
    assert [row.possible for row in rows] == [None]
    assert rows[0].at_least_one() == AtLeastOne(rows[0].confidence, 1.0, Method.BOUNDS)
