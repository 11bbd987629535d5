"""Random queries on random streams, delivered in pieces: the engine against the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from engine import Engine, MatchRow, ResolvedQuery, compile_query, reference_output
from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.reference import ReferenceRow
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    SCHEMA,
    STRICT,
    WEIGHTED,
    Case,
    Delivery,
    QueryScope,
    cases,
    deliveries,
)

COMPILED_ANY = QueryScope(
    strategies=(ANY,),
    outputs=("ALL", "SETS", "COLLAPSED", "COUNT", "TOP 2 BY CONFIDENCE"),
    confidence=True,
    having=True,
)
COMPILED_RUNS = QueryScope(strategies=(NEXT, PARTITION, STRICT), having=True)

# The first example pays for the compilation of the kernels.
SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def engine_rows(case: Case, parts: Sequence[Delivery], *, restarts: bool = False) -> list[MatchRow]:
    """The rows of a stream in pieces; with `restarts` each piece meets a new engine in the state of the last one."""
    compiled = compile_query(case.query, SCHEMA, name="q")
    engine = Engine([compiled], SCHEMA)
    rows: list[MatchRow] = []
    for part in parts:
        rows += engine.process(part.batch, part.watermark_ms)
        if restarts:
            state, engine = engine.save(), Engine([compiled], SCHEMA)
            engine.restore(state)
    rows += engine.finish()
    assert engine.n_late == 0
    return rows


def check_against_oracle(case: Case, parts: Sequence[Delivery], *, restarts: bool = False) -> None:
    note(f"{case}\n{parts}")
    resolved = compile_query_or_none(case.query)
    if resolved is None:
        return
    try:
        found = engine_rows(case, parts, restarts=restarts)
    except UnsupportedQueryError as error:  # known from the events alone
        if "an imprecise event may stand in two negated places" in error.message:
            return
        raise
    expected = reference_output(resolved, case.stream)
    if "TOP" in case.query:
        found = sorted(found, key=lambda row: -row.confidence)
        check_top(found, expected)
    elif "COLLAPSED" in case.query or "COUNT" in case.query.split("OUTPUT ")[-1].split("\n")[0]:
        check_collapsed(found, expected)
    else:
        check_listed(found, expected)


def compile_query_or_none(text: str) -> ResolvedQuery | None:
    """The resolved query; None when the compiled runtimes refuse it."""
    try:
        return compile_query(text, SCHEMA, name="q").resolved
    except UnsupportedQueryError:
        return None


Key = tuple[tuple[str, frozenset[str] | tuple[str, ...]], ...]


def key_of(row: MatchRow | ReferenceRow, *, as_sets: bool) -> Key:
    return tuple((v, frozenset(ids) if as_sets else tuple(ids)) for v, ids in sorted(row.bindings.items()))


def check_listed(found: Sequence[MatchRow], expected: Sequence[ReferenceRow]) -> None:
    """ALL, SETS: the same rows (a merged set stands for its orders), confidences, values, keys and intervals."""
    as_sets = any(row.count > 1 for row in expected)
    wanted = {key_of(row, as_sets=as_sets): row for row in expected}
    got = {key_of(row, as_sets=as_sets): row for row in found}
    assert got.keys() == wanted.keys()
    assert len(got) == len(found)
    for key, row in got.items():
        other = wanted[key]
        assert row.confidence == pytest.approx(float(other.confidence), abs=1e-12)
        assert dict(row.key) == dict(other.key)
        assert row.count == other.count
        if not as_sets:
            assert dict(row.values) == pytest.approx(other.values, abs=1e-12)
            assert (row.first_lo_ms, row.last_hi_ms) == (other.first_lo_ms, other.last_hi_ms)


def check_top(found: Sequence[MatchRow], expected: Sequence[ReferenceRow]) -> None:
    """The same confidences; which of several equal ones is kept is not said."""
    assert [row.confidence for row in found] == pytest.approx([float(row.confidence) for row in expected], abs=1e-12)


def check_collapsed(found: Sequence[MatchRow], expected: Sequence[ReferenceRow]) -> None:
    """One row per (first, last): exact counts, the candidates that are in a match, the best match as evidence."""
    wanted = {ends(row): row for row in expected}
    got = {ends(row): row for row in found}
    assert got.keys() == wanted.keys()
    assert len(got) == len(found)
    for pair, row in got.items():
        other = wanted[pair]
        assert row.count_exact
        assert row.count == other.count
        assert row.confidence == pytest.approx(float(other.confidence), abs=1e-12)
        if other.candidates is not None:
            assert row.candidates is not None
            candidates = {v: set(ids) for v, ids in row.candidates.items()}
            exact = {v: set(ids) for v, ids in other.candidates.items()}
            if row.exact:
                assert other.exact
                assert candidates == exact
            assert all(exact[v] <= candidates[v] for v in exact)


def ends(row: MatchRow | ReferenceRow) -> tuple[str, str]:
    ids = [event for bound in row.bindings.values() for event in bound]
    return ids[0], ids[-1]


@st.composite
def delivered(draw: st.DrawFn, drawn: st.SearchStrategy[Case]) -> tuple[Case, list[Delivery]]:
    case = draw(drawn)
    return case, draw(deliveries(case.stream))


@SETTINGS
@given(delivered(cases(COMPILED_ANY, PRECISE)))
def test_skip_till_any_match_over_precise_events(drawn: tuple[Case, list[Delivery]]) -> None:
    check_against_oracle(*drawn)


@SETTINGS
@given(delivered(st.one_of(cases(COMPILED_ANY, IMPRECISE), cases(COMPILED_ANY, WEIGHTED))))
def test_skip_till_any_match_over_imprecise_events(drawn: tuple[Case, list[Delivery]]) -> None:
    check_against_oracle(*drawn)


@pytest.mark.parametrize("strategy", COMPILED_RUNS.strategies)
@SETTINGS
@given(data=st.data())
def test_contiguity_and_skip_till_next_match(strategy: str, data: st.DataObject) -> None:
    scope = replace(COMPILED_RUNS, strategies=(strategy,))
    check_against_oracle(*data.draw(delivered(cases(scope, replace(PRECISE, max_events=12)))))


@pytest.mark.parametrize("scope", [COMPILED_RUNS, COMPILED_ANY], ids=["runs", "any"])
@settings(SETTINGS, max_examples=25)
@given(data=st.data())
def test_a_restart_after_each_piece_changes_nothing(
    scope: QueryScope, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.matching.nfa._LEAST_ROWS", 0)  # what can be dropped is dropped at once
    case, parts = data.draw(delivered(cases(scope, replace(PRECISE, max_events=9))))
    check_against_oracle(case, parts, restarts=True)


def test_an_empty_stream_has_no_rows() -> None:
    case = Case("PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 1", EventBatch.empty())
    assert engine_rows(case, []) == []
