"""Runs of any pattern: over plain patterns what the runs of plain patterns find, and the rules for loops and AND."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from engine.events import EventBatch
from engine.language import ast
from engine.language.parser import parse
from engine.language.resolver import resolve
from engine.reference import reference_matches
from engine.reference.any_match import Search
from engine.reference.conditions import Keys, conditions_of
from engine.reference.contexts import scoped
from engine.reference.observed import observe
from engine.reference.placement import Placement
from engine.reference.places import nested_ids
from engine.reference.runs.pattern import PatternRuns
from engine.reference.runs.sequence import runs_matches
from engine.reference.shape import Slot, is_plain, shape_of, slots_of
from tests.engine.strategies import PRECISE, SCHEMA, Case, QueryScope, cases
from tests.examples import examples

PLAIN = QueryScope(negation=False, unions=True, partial_keys=True)


@settings(max_examples=examples(60), deadline=None)
@given(cases(PLAIN, PRECISE))
def test_plain_patterns_have_the_runs_of_plain_patterns(case: Case) -> None:
    resolved = resolve(parse(case.query), SCHEMA, text=case.query)
    query, events, keys = resolved.query, observe(case.stream, SCHEMA), Keys(resolved.query, SCHEMA)
    shape, conditions = shape_of(query.pattern), conditions_of(resolved.query)
    assert query.strategy is not None
    assert isinstance(query.within_ms, int)
    strict_ties = query.ties is ast.Ties.STRICT
    for branch in shape.branches:
        assert is_plain(branch)
        variables = [slot.variable for slot in slots_of(branch)]
        in_groups = [scoped(condition, shape) for condition in conditions]
        runs = PatternRuns(branch, in_groups, keys, query.strategy, strict_ties, query.within_ms)
        found = {tuple(nested_ids(v, (), bounds, is_list=True) for v in variables) for bounds in runs.matches(events)}
        placement = Placement([item for item in branch if isinstance(item, Slot)], conditions)
        if query.strategy is ast.Strategy.SKIP_TILL_ANY_MATCH:
            bindings = Search(events, keys, strict_ties, query.within_ms).sequences(placement)
        else:
            bindings = runs_matches(events, keys, placement, query.strategy, strict_ties=strict_ties)
        plain = set()
        for binding in bindings:
            times = [event.lo_ms for v in variables for event in binding[v]]
            if times[-1] - times[0] <= query.within_ms:
                plain.add(tuple(tuple(event.event_id for event in binding[v]) for v in variables))
        assert found == plain


def stream(word: str) -> EventBatch:
    """One event per letter, at 0, 1, 2, ...; the ids are the letter and the time."""
    rows = [
        {"event_id": f"{letter}{n}".lower(), "type": letter, "t_lo_ms": n, "source_seq": n, "source_rank": 0}
        for n, letter in enumerate(word)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


@pytest.mark.parametrize(
    ("pattern", "word", "expected"),
    [
        # The loop edge takes a2 and the run is in the next iteration; c4 leaves, and the looping run stays behind.
        (
            "SEQ((SEQ(A a, B b))+, C c)",
            "ABABCC",
            {"a2 b3 c4", "a2 b3 c5", "a0 a2 b1 b3 c4", "a0 a2 b1 b3 c5"},
        ),
        # Between iterations what is no A is ignored; inside one what is no B.
        ("(SEQ(A a, B b)){2}", "ACBBACB", {"a0 a4 b2 b6"}),
        # An operand that waits takes the first event that it can begin; the other one ignores it.
        ("SEQ(A a, AND(B b, C c))", "ABBCC", {"a0 b1 c3"}),
        # A looping operand takes each of its events; C may come anywhere among them.
        ("SEQ(A a, AND(B+ b[], C c))", "ABCB", {"a0 b1 c2", "a0 b1 b3 c2"}),
        # AND of single events is finished with both: D's place is taken by the first event that can begin it.
        ("SEQ(AND(A a, B b), C c)", "BACC", {"a1 b0 c2"}),
        # With a looping operand the run stays behind.
        ("SEQ(AND(A a, B+ b[]), C c)", "ABCC", {"a0 b1 c2", "a0 b1 c3"}),
        # The body (A) loops at a1; the body (A, B) ignores it.
        ("(SEQ(A a, B? b))+", "AAB", {"a0", "a1", "a0 a1", "a0 b2", "a1 b2", "a0 a1 b2"}),
        ("ANY(2, A a, B b, C c)", "ACB", {"a0 c1", "a0 b2", "b2 c1"}),
    ],
)
def test_skip_till_next_match(pattern: str, word: str, expected: set[str]) -> None:
    text = f"PATTERN {pattern} WHERE skip_till_next_match WITHIN 20"
    matches = reference_matches(resolve(parse(text), SCHEMA, text=text), stream(word))
    found = {" ".join(sorted(str(match.bindings).translate(_MARKS).split())) for match in matches}
    assert {" ".join(sorted(item for item in text.split() if item[-1].isdigit())) for text in found} == expected


_MARKS = {ord(mark): " " for mark in "{}(),':"}
