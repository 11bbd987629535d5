"""Output forms: laws that hold between them, and hand-made cases of their order and ties."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import EventBatch
from engine.kernels.confidence.sequences import TOLERANCE
from engine.language.parser import parse
from engine.language.resolver import ResolvedQuery, resolve
from engine.reference import ReferenceRow, reference_matches, reference_output
from engine.reference.rows.output import ROUNDING
from tests.engine.strategies import ANY, PRECISE, SCHEMA, Case, QueryScope, StreamScope, cases
from tests.examples import examples

PLAIN = QueryScope(strategies=(ANY,), n_components=(1, 3), returns=False)
SMALL_IMPRECISE = StreamScope(max_events=4, width_ms=4, horizon_ms=6)
STREAMS = st.one_of(cases(PLAIN, PRECISE), cases(PLAIN, SMALL_IMPRECISE))


def resolved_query(text: str) -> ResolvedQuery:
    return resolve(parse(text), SCHEMA, text=text)


def output(case: Case, clause: str) -> list[ReferenceRow]:
    return reference_output(resolved_query(f"{case.query}\n{clause}"), case.stream)


@settings(max_examples=examples(60), deadline=None)
@given(STREAMS)
def test_all_is_every_match(case: Case) -> None:
    matches = reference_matches(resolved_query(case.query), case.stream)
    rows = output(case, "OUTPUT ALL")
    assert [(row.bindings, row.confidence) for row in rows] == [(m.bindings, m.confidence) for m in matches]


@settings(max_examples=examples(60), deadline=None)
@given(STREAMS)
def test_counts_add_up(case: Case) -> None:
    """COUNT and COLLAPSED have the matches by (first, last); the candidates are the events in them."""
    rows = output(case, "OUTPUT ALL")
    counted = output(case, "OUTPUT COUNT")
    collapsed = output(case, "OUTPUT COLLAPSED")
    assert sum(row.count for row in counted) == sum(row.count for row in collapsed) == len(rows)
    for row in collapsed:
        mine = [match for match in rows if ends(match) == ends(row)]
        assert row.count == len(mine)
        assert row.confidence == max(match.confidence for match in mine)
        assert row.candidates is not None
        for variable, ids in row.candidates.items():
            assert set(ids) == {event for match in mine for event in match.bindings[variable]}
        assert len({ends(other) for other in collapsed}) == len(collapsed)


def ends(row: ReferenceRow) -> tuple[str, str]:
    ids = [event for bound in row.bindings.values() for event in bound]
    return ids[0], ids[-1]


@settings(max_examples=examples(60), deadline=None)
@given(cases(PLAIN, SMALL_IMPRECISE))
def test_sets_add_up_to_all(case: Case) -> None:
    rows = output(case, "OUTPUT ALL")
    sets = output(case, "OUTPUT SETS")
    assert sum(row.confidence for row in rows) == sum(row.confidence for row in sets)
    keys = [tuple((v, frozenset(ids)) for v, ids in row.bindings.items()) for row in sets]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {tuple((v, frozenset(ids)) for v, ids in row.bindings.items()) for row in rows}


@settings(max_examples=examples(60), deadline=None)
@given(cases(PLAIN, SMALL_IMPRECISE), st.sampled_from(["0.25", "0.5", "0.9", "1"]))
def test_the_threshold_is_a_decimal_and_inclusive(case: Case, threshold: str) -> None:
    wanted = [row for row in output(case, "OUTPUT ALL") if row.confidence >= Fraction(threshold)]
    assert output(case, f"CONFIDENCE >= {threshold}") == wanted


def test_a_threshold_is_met_up_to_what_the_runtimes_may_be_wrong_by() -> None:
    assert Fraction(repr(TOLERANCE)) == ROUNDING


@settings(max_examples=examples(60), deadline=None)
@given(STREAMS, st.integers(1, 4))
def test_top_and_limit_are_prefixes(case: Case, n: int) -> None:
    rows = output(case, "OUTPUT ALL")
    top = output(case, f"OUTPUT TOP {n} BY CONFIDENCE")
    assert [row.confidence for row in top] == sorted((row.confidence for row in rows), reverse=True)[:n]
    limited = output(case, f"LIMIT {n}")
    assert [row.bindings for row in limited] == [row.bindings for row in rows[:n]]
    assert [row.capped for row in limited] == [False] * (len(limited) - 1) + [len(rows) > n] * bool(limited)


@settings(max_examples=examples(30), deadline=None)
@given(cases(PLAIN, PRECISE))
def test_non_overlapping_matches_do_not_overlap(case: Case) -> None:
    """Per key each starts after the end of the one before, and no match that ends earlier would have fitted."""
    rows = output(case, "OUTPUT ALL")
    chosen = output(case, "OUTPUT NON_OVERLAPPING")
    for key in {row.key for row in rows}:
        last_ms = -1
        for row in sorted((row for row in chosen if row.key == key), key=lambda row: row.last_hi_ms):
            assert row.first_lo_ms > last_ms
            fitting = [r.last_hi_ms for r in rows if r.key == key and r.first_lo_ms > last_ms]
            assert row.last_hi_ms == min(fitting)
            last_ms = row.last_hi_ms
        assert not [r for r in rows if r.key == key and r.first_lo_ms > last_ms]


def test_rows_carry_key_and_interval() -> None:
    rows = [
        {"event_id": "l", "type": "L", "t_lo_ms": 0, "t_hi_ms": 2, "source_seq": 0},
        {"event_id": "a", "type": "A", "t_lo_ms": 3, "k": "p", "j": 2, "source_seq": 1},
        {"event_id": "b", "type": "B", "t_lo_ms": 4, "t_hi_ms": 6, "k": "p", "j": 2, "source_seq": 2},
    ]
    batch = EventBatch.from_rows([{"source_rank": 0, **row} for row in rows], SCHEMA)
    text = "PATTERN SEQ(L l, A a, B b) WHERE skip_till_any_match { [k] AND [j] } WITHIN 9"
    (row,) = reference_output(resolved_query(text), batch)
    assert row.key == (("k", "p"), ("j", 2))
    assert (row.first_lo_ms, row.last_hi_ms) == (0, 6)
    assert row.query == "query"
