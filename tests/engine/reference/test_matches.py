"""The oracle against brute force, and the relations between selection strategies."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.parser import parse
from engine.language.resolver import ResolvedQuery, resolve
from engine.reference import reference_matches
from tests.engine.reference.brute_force import Ids, brute_force
from tests.engine.strategies import (
    ANY,
    EVERYTHING,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    SCHEMA,
    STRICT,
    Case,
    QueryScope,
    StreamScope,
    cases,
    streams,
)
from tests.examples import examples

FLAT = QueryScope(strategies=(ANY,), n_components=(1, 3), partial_keys=True)
SMALL = StreamScope(max_events=6)
SMALL_IMPRECISE = replace(IMPRECISE, max_events=4, width_ms=3, horizon_ms=5)


def resolved_query(text: str) -> ResolvedQuery:
    return resolve(parse(text), SCHEMA, text=text)


def ids_of(resolved: ResolvedQuery, batch: EventBatch) -> set[Ids]:
    matches = reference_matches(resolved, batch)
    found = {tuple(match.bindings.items()) for match in matches}
    assert len(found) == len(matches)
    return found


@settings(max_examples=examples(60), deadline=None)
@given(st.one_of(cases(FLAT, SMALL), cases(FLAT, SMALL_IMPRECISE)))
def test_skip_till_any_match_is_what_brute_force_finds(case: Case) -> None:
    resolved = resolved_query(case.query)
    matches = reference_matches(resolved, case.stream)
    assert {tuple(match.bindings.items()): match.confidence for match in matches} == brute_force(resolved, case.stream)


@settings(max_examples=examples(45), deadline=None)
@given(cases(QueryScope(strategies=(NEXT,), negation=False), PRECISE))
def test_other_strategies_select_among_the_sequences_of_skip_till_any_match(case: Case) -> None:
    chosen = {name: ids_of(resolved_query(case.query.replace(NEXT, name)), case.stream) for name in (ANY, NEXT)}
    assert chosen[NEXT] <= chosen[ANY]
    contiguous = {
        name: ids_of(resolved_query(case.query.replace(NEXT, name)), case.stream) for name in (PARTITION, STRICT)
    }
    assert contiguous[PARTITION] <= chosen[ANY]
    assert contiguous[STRICT] <= contiguous[PARTITION]


@settings(max_examples=examples(35), deadline=None)
@given(cases(EVERYTHING, PRECISE), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(case: Case, random: object) -> None:
    resolved = resolved_query(case.query)
    rows = list(range(len(case.stream)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    shuffled = EventBatch(case.stream.table.take(rows)) if rows else case.stream
    assert reference_matches(resolved, case.stream) == reference_matches(resolved, shuffled)


@settings(max_examples=examples(35), deadline=None)
@given(streams(PRECISE))
def test_contiguity_is_adjacency(batch: EventBatch) -> None:
    """SEQ(B a, B b) under strict contiguity: the adjacent pairs of B events in stream order."""
    found = ids_of(resolved_query("PATTERN SEQ(B a, B b) WHERE strict_contiguity WITHIN 100"), batch)
    in_order = batch.sorted().table.select(["event_id", "type"]).to_pylist()
    pairs = itertools.pairwise(in_order)
    assert found == {
        (("a", (a["event_id"],)), ("b", (b["event_id"],))) for a, b in pairs if a["type"] == b["type"] == "B"
    }


def events(*rows: dict[str, object]) -> EventBatch:
    numbered = [{"event_id": str(n), "source_seq": n, "source_rank": 0, **row} for n, row in enumerate(rows)]
    return EventBatch.from_rows(numbered, SCHEMA)


def test_imprecise_events_are_refused_where_order_must_be_certain() -> None:
    batch = events({"type": "A", "t_lo_ms": 0, "t_hi_ms": 3}, {"type": "B", "t_lo_ms": 5})
    with pytest.raises(UnsupportedQueryError, match=r"skip_till_next_match is not defined .* event 0 covers \[0, 3\]"):
        reference_matches(resolved_query("PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 9"), batch)
    with pytest.raises(UnsupportedQueryError, match="WITHIN n EVENTS is not defined"):
        reference_matches(resolved_query("PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9 EVENTS"), batch)


def test_a_query_without_strategy_is_refused() -> None:
    resolved = resolved_query("PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 9")
    nameless = replace(resolved, query=replace(resolved.query, strategy=None))
    assert isinstance(nameless.query, ast.Query)
    with pytest.raises(UnsupportedQueryError, match="no selection strategy"):
        reference_matches(nameless, events({"type": "A", "t_lo_ms": 0}))


def test_variables_stand_in_the_order_of_the_pattern_whatever_a_match_has_of_a_group() -> None:
    query = resolve(parse("PATTERN (SEQ(A a, B? b, C? c)){1,3} WHERE skip_till_any_match WITHIN 9 ms"), SCHEMA)
    for types in ("AC", "AB", "ACABC"):
        rows = [{"event_id": f"e{n}", "type": kind, "t_lo_ms": n, "source_seq": n} for n, kind in enumerate(types)]
        for match in reference_matches(query, EventBatch.from_rows(rows, SCHEMA)):
            assert list(match.bindings) == ["a", "b", "c"]
