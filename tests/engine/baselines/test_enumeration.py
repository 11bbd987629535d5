"""Confidence by enumeration of worlds against the oracle and against the runtime that enumerates none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

from engine import Engine, compile_query, fitting_events, reference_output
from engine.baselines import OVER_INTERVALS, BaselineKind, Enumeration, Extension, make_baseline
from engine.errors import UnsupportedQueryError
from engine.events import FOREVER_MS, EventBatch
from engine.matching.output.match_row import MatchRow
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from tests.engine.baselines.test_baselines import feed, released, restarted
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    PRECISE,
    SCHEMA,
    WEIGHTED,
    Case,
    Delivery,
    QueryScope,
    cases,
    deliveries,
)
from tests.examples import examples

KINDS = sorted(OVER_INTERVALS)
SCOPE = QueryScope(strategies=(ANY,), having=True, negation=False, confidence=True)

Bindings = tuple[tuple[str, object], ...]


@st.composite
def delivered(draw: st.DrawFn) -> tuple[Case, list[Delivery]]:
    case = draw(cases(SCOPE, draw(st.sampled_from([PRECISE, IMPRECISE, WEIGHTED]))))
    return case, draw(deliveries(case.stream))


def longer_than_its_window() -> tuple[Case, list[Delivery]]:
    """The query says nothing about its only event."""
    rows = [{"event_id": "e0", "type": "L", "t_lo_ms": 0, "t_hi_ms": 1}]
    stream = EventBatch.from_rows(rows, SCHEMA)
    return Case(f"PATTERN SEQ(L v0) WHERE {ANY} WITHIN 0 ms", stream), [Delivery(stream, 0)]


def by_bindings(rows: Sequence[MatchRow]) -> dict[Bindings, MatchRow]:
    found = {tuple(row.bindings.items()): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=delivered(), restarts=st.booleans())
@example(drawn=longer_than_its_window(), restarts=False)
def test_enumeration_agrees_with_the_oracle(
    kind: BaselineKind, drawn: tuple[Case, list[Delivery]], restarts: bool
) -> None:
    case, parts = drawn
    note(f"{case}\n{parts}")
    query = compile_query(case.query, SCHEMA)
    try:
        baseline = make_baseline(kind, query.plan, Interner())
    except UnsupportedQueryError:
        return
    found: list[MatchRow] = []
    for batch, watermark_ms in released(parts):
        fitting, _ = fitting_events(query.resolved, batch)  # an engine passes on no others
        found += feed(baseline, fitting, watermark_ms)
        if restarts:
            baseline = restarted(kind, baseline)
    wanted = {tuple(row.bindings.items()): row for row in reference_output(query.resolved, case.stream)}
    got = by_bindings(found)
    assert got.keys() == wanted.keys()
    for bindings, row in got.items():
        other = wanted[bindings]
        assert row.confidence == pytest.approx(float(other.confidence), abs=1e-12)
        assert dict(row.values) == pytest.approx(other.values, abs=1e-12)
        assert (row.first_lo_ms, row.last_hi_ms) == (other.first_lo_ms, other.last_hi_ms)


def overlapping(kinds: str, width_ms: int, step_ms: int = 1) -> EventBatch:
    rows = [
        {"event_id": f"{kind}{at}", "type": kind, "t_lo_ms": step_ms * at, "t_hi_ms": step_ms * at + width_ms - 1,
         "source_seq": at}
        for at, kind in enumerate(kinds)
    ]  # fmt: skip
    return EventBatch.from_rows(rows, SCHEMA)


def test_points_of_worlds_are_counted() -> None:
    """Two events of 4 points, 2 apart: of 16 worlds 13 are in order; all are looked at, and the 4 points before."""
    plan = compile_query(f"PATTERN SEQ(A a, B b) WHERE {ANY} WITHIN 10", SCHEMA).plan
    baseline = Enumeration(plan, Interner())
    (row,) = feed(baseline, overlapping("AB", 4, 2), FOREVER_MS)
    assert row.confidence == 13 / 16
    assert baseline.n_points == 4 + 16
    assert baseline.statistics.n_runs == 2


def test_partial_matches_below_the_threshold_are_not_extended() -> None:
    plan = compile_query(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} WITHIN 30 CONFIDENCE >= 0.9", SCHEMA).plan
    stream = overlapping("ABBBBC", 4, 2)
    made = {}
    for kind in (Enumeration, Extension):
        baseline = kind(plan, Interner())
        rows = feed(baseline, stream, FOREVER_MS)
        made[kind] = (by_bindings(rows).keys(), baseline.statistics.n_runs, baseline.statistics.peak_runs)
    assert made[Enumeration][0] == made[Extension][0]
    assert 0 < made[Extension][1] < made[Enumeration][1]
    assert made[Extension][2] < made[Enumeration][2] == 6


def test_a_search_beyond_its_budget_is_given_up() -> None:
    plan = compile_query(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} WITHIN 30", SCHEMA).plan
    baseline = Enumeration(plan, Interner(), most_points=10_000)
    with pytest.raises(UnsupportedQueryError, match=r"gave up after 10,\d+ points(.|\n)*at most 10,000(.|\n)*auto"):
        feed(baseline, overlapping("A" + 8 * "B" + "C", 8), FOREVER_MS)


def test_events_are_dropped_once_no_match_can_need_them() -> None:
    plan = compile_query(f"PATTERN SEQ(A a, B b) WHERE {ANY} WITHIN 5", SCHEMA).plan
    baseline = make_baseline(BaselineKind.ENUMERATION, plan, Interner())
    stream = overlapping("AB" * 50, 3, 4)
    n_found = 0
    for at in range(len(stream)):
        part = EventBatch(stream.table.slice(at, 1))
        n_found += len(baseline.advance(StreamColumns(part, baseline.store.interner), 4 * at + 1))
        assert baseline.n_rows <= 4
    assert n_found > 40


def test_negations_are_refused() -> None:
    query = compile_query(f"PATTERN SEQ(A a, !B b, C c) WHERE {ANY} WITHIN 5", SCHEMA)
    for kind in KINDS:
        with pytest.raises(UnsupportedQueryError, match="evaluates no negation"):
            make_baseline(kind, query.plan, Interner())


def test_scope_has_intervals() -> None:
    assert replace(WEIGHTED, weights=False) == IMPRECISE
    assert IMPRECISE.width_ms > 1


@pytest.mark.parametrize("kind", sorted(OVER_INTERVALS))
def test_rows_are_those_of_the_planned_runtime(kind: BaselineKind) -> None:
    """Also the interval of the last event, which queries on these matches read."""
    rows = [{"event_id": "a", "type": "A", "t_lo_ms": 6, "t_hi_ms": 7}, {"event_id": "b", "type": "B", "t_lo_ms": 9}]
    stream = EventBatch.from_rows(rows, SCHEMA)
    for pattern in ("SEQ(A a)", "SEQ(A a, B b)"):
        query = compile_query(f"PATTERN {pattern} WHERE skip_till_any_match WITHIN 9", SCHEMA)
        planned, enumerated = Engine([query], SCHEMA), Engine([query], SCHEMA, baseline=kind)
        assert list(enumerated.process(stream, 99)) == list(planned.process(stream, 99)) != []
