"""Imprecise events in patterns that are no plain sequence, against the oracle; see also tests/conformance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine import Engine, MatchRow, compile_query, reference_output
from engine.events import EventBatch
from engine.matching.automaton import confidence as imprecise_confidence
from engine.matching.automaton.runtime import AutomatonRuntime
from engine.matching.protocol import Limits
from engine.runtime.factory import make_runtime
from engine.stream.interner import Interner
from engine.uncertainty import differences
from tests.conformance.comparison import check_rows
from tests.engine.strategies import SCHEMA

Row = tuple[str, str, int, int]
"""Id, type, earliest and latest time."""

ANY = "WHERE skip_till_any_match WITHIN"


def batch(rows: Sequence[Row], first_seq: int = 0) -> EventBatch:
    known: list[dict[str, Any]] = [
        {"event_id": name, "type": kind, "t_lo_ms": lo, "t_hi_ms": hi, "source_seq": first_seq + number}
        for number, (name, kind, lo, hi) in enumerate(rows)
    ]
    return EventBatch.from_rows([row | ({} if row["type"] == "L" else {"k": "p", "j": 1}) for row in known], SCHEMA)


def rows_of(text: str, events: EventBatch) -> list[MatchRow]:
    engine = Engine([compile_query(text, SCHEMA, name="q")], SCHEMA)
    return [*engine.process(events, 5), *engine.finish()]


def check(text: str, rows: Sequence[Row]) -> list[MatchRow]:
    """The engine's rows, which are the oracle's."""
    events = batch(rows)
    resolved = compile_query(text, SCHEMA, name="q").resolved
    found, expected = rows_of(text, events), reference_output(resolved, events)
    assert expected
    check_rows(resolved.query.output, found, expected, events)
    return found


# ------------------------------------------------------------------ what a match demands


def test_operands_of_and_may_come_in_any_order_and_at_once() -> None:
    """Not the sum over interleavings: equal times are in order, too."""
    (row,) = check(f"PATTERN AND(A a, B b) {ANY} 9 ms", [("a", "A", 0, 3), ("b", "B", 1, 2)])
    assert row.confidence == 1.0
    (row,) = check(f"PATTERN AND(A a, B b) {ANY} 3 ms", [("a", "A", 0, 3), ("b", "B", 3, 5)])
    assert row.confidence == pytest.approx(9 / 12)


def test_the_window_lies_between_the_first_and_the_last_of_several() -> None:
    check(
        f"PATTERN SEQ(AND(A a, B b), AND(SEQ(C c, N n), L l)) {ANY} 4 ms",
        [("a", "A", 0, 2), ("b", "B", 1, 3), ("c", "C", 2, 4), ("n", "N", 3, 5), ("l", "L", 2, 5)],
    )


def test_iterations_are_in_order() -> None:
    check(
        f"PATTERN (SEQ(A a, B b)){{1,2}} {ANY} 9 ms",
        [("a1", "A", 0, 3), ("b1", "B", 1, 4), ("a2", "A", 2, 5), ("b2", "B", 4, 6)],
    )


def test_negated_patterns_share_events() -> None:
    check(
        f"PATTERN SEQ(A a, !SEQ(N n, N m), B b) {ANY} 12 ms",
        [("a", "A", 0, 2), ("n1", "N", 1, 3), ("n2", "N", 2, 5), ("n3", "N", 3, 4), ("b", "B", 4, 6)],
    )


@pytest.mark.parametrize("output", ["ALL", "SETS", "COLLAPSED", "COUNT", "TOP 2 BY CONFIDENCE", "NON_OVERLAPPING"])
@pytest.mark.parametrize("pattern", ["SEQ(A a, !N m, B+ b[], !N o, C c)", "SEQ(!N n, A a, !N m, C c, !N p)"])
def test_an_event_may_be_negated_in_several_places(pattern: str, output: str) -> None:
    rows = [("a", "A", 0, 2), ("b", "B", 1, 4), ("c", "C", 3, 5), ("n1", "N", 0, 6), ("n2", "N", 2, 3)]
    check(f"PATTERN {pattern} {ANY} 9 ms OUTPUT {output}", rows)


@pytest.mark.parametrize("output", ["ALL", "COUNT"])
def test_too_many_events_of_several_places_are_told(output: str) -> None:
    """Three ways for each of nine events: 19,683 terms."""
    rows = [("a", "A", 0, 0), ("b", "B", 1, 30), ("c", "C", 31, 31)]
    rows += [(f"n{at}", "N", at, at) for at in range(5, 14)]
    engine = Engine(
        [compile_query(f"PATTERN SEQ(A a, !N m, B b, !N o, C c) {ANY} 99 ms OUTPUT {output}", SCHEMA, name="q")], SCHEMA
    )
    found = [*engine.process(batch(rows), 200), *engine.finish()]
    assert not found or not all(row.count_exact for row in found)
    assert found or engine.statistics["q"].n_unfinished


# ------------------------------------------------------------------- merged orders


def test_orders_that_share_worlds_are_not_added_up() -> None:
    """Ten divisions of five events into two iterations, which are no total orders."""
    rows = [("a1", "A", 0, 2), ("a2", "A", 1, 3), ("a3", "A", 2, 4), ("b1", "B", 1, 3), ("b2", "B", 2, 4)]
    text = f"PATTERN (AND(A+ a, B+ b)){{2}} {ANY} 12 ms OUTPUT SETS HAVING count(a[]) > 2 AND count(b[]) > 1"
    (row,) = check(text, rows)
    assert row.count == 10
    assert row.confidence == pytest.approx(29 / 81)


def test_divisions_with_different_absences_share_worlds() -> None:
    rows = [("a1", "A", 0, 2), ("a2", "A", 1, 3), ("a3", "A", 2, 4), ("n", "N", 1, 2)]
    check(f"PATTERN (SEQ(!N n, A+ a)){{2}} {ANY} 12 ms OUTPUT SETS", rows)


WAYS = [
    "OR(SEQ(A a, B b), SEQ(B b, A a))",
    "OR(AND(A a, B b), SEQ(A a, B b))",
    "OR(SEQ(A a, !N n, B b, C c), SEQ(A a, B b, !N m, C c))",
    "OR(SEQ(A a, !N n, B b), SEQ(A a, B b), SEQ(B b, A a))",
    "(OR(SEQ(A a, B b), SEQ(B b, A a))){1,2}",
    "(OR(SEQ(!N n, A a, B b), AND(A a, B b)))+",
]


@pytest.mark.parametrize("output", ["ALL", "SETS", "NON_OVERLAPPING"])
@pytest.mark.parametrize("pattern", WAYS)
def test_one_binding_in_several_ways(pattern: str, output: str) -> None:
    """As confident as it is that it is one in any of them, and listed once."""
    rows = [("a", "A", 0, 3), ("b", "B", 1, 3), ("n1", "N", 1, 4), ("a2", "A", 2, 4), ("c", "C", 3, 5)]
    check(f"PATTERN {pattern} {ANY} 9 ms OUTPUT {output}", rows)


@pytest.mark.parametrize("pattern", WAYS)
def test_one_binding_of_precise_events_in_several_ways(pattern: str) -> None:
    check(f"PATTERN {pattern} {ANY} 9 ms", [("a", "A", 0, 0), ("b", "B", 1, 1), ("c", "C", 3, 3), ("b2", "B", 4, 4)])


# --------------------------------------------------------------------- the switch


PHASES: list[list[Row]] = [
    [("a1", "A", 0, 0), ("b1", "B", 2, 2), ("a2", "A", 3, 3)],
    [("b2", "B", 5, 5), ("a3", "A", 6, 9), ("b3", "B", 8, 10)],
    [("n1", "N", 11, 13), ("a4", "A", 12, 12), ("b4", "B", 14, 14)],
    [("a5", "A", 40, 40), ("b5", "B", 42, 42), ("n2", "N", 43, 43)],
    [("a6", "A", 45, 47), ("b6", "B", 46, 48)],
]
PATTERNS = ["(SEQ(A a, B b)){1,2}", "AND(A a, B b)", "SEQ(AND(A a, B b), !N n)", "SEQ(!SEQ(N n, A m), (A a){2}, B b)"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("restart", [False, True])
def test_precise_and_imprecise_phases_follow_each_other(
    pattern: str, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.matching.automaton.runtime._LEAST_ROWS", 0)
    query = compile_query(f"PATTERN {pattern} {ANY} 7 ms", SCHEMA, name="q")
    engine = Engine([query], SCHEMA)
    found: list[MatchRow] = []
    sequence = 0
    for number, (phase, watermark_ms) in enumerate(zip(PHASES, [4, 8, 14, 44, 46], strict=True)):
        found += engine.process(batch(phase, sequence), watermark_ms)
        sequence += len(phase)
        if restart:
            state, engine = engine.save(), Engine([query], SCHEMA)
            engine.restore(state)
        if restart and number == 3:  # the imprecise ones are out of every window
            assert engine.statistics["q"].n_kept <= 3
    found += engine.finish()
    whole = batch([row for phase in PHASES for row in phase])
    expected = reference_output(query.resolved, whole)
    check_rows(query.resolved.query.output, found, expected, whole)
    assert any(0 < row.confidence < 1 for row in found)
    assert any(row.confidence == 1 for row in found)


def test_such_queries_are_evaluated_by_an_automaton() -> None:
    for pattern in PATTERNS:
        query = compile_query(f"PATTERN {pattern} {ANY} 7 ms", SCHEMA)
        assert isinstance(make_runtime(query, Interner(), Limits()), AutomatonRuntime)


# ------------------------------------------------------------------------- cost


LONG = [(name, kind, 0, 14_999) for name, kind in zip("abcd", "ABCN", strict=True)]
DIAMOND = f"PATTERN SEQ(A a, AND(B b, C c), N d) {ANY} 1 minute"


def test_long_intervals_that_all_overlap_are_exact() -> None:
    (row,) = rows_of(DIAMOND, batch(LONG))
    expected = sum((15_000 - gap) * (gap - 1) ** 2 for gap in range(1, 15_000)) / 15_000**4
    assert row.confidence == pytest.approx(expected, abs=1e-12)


def test_too_much_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imprecise_confidence, "_WORK_LIMIT", 1)
    monkeypatch.setattr(differences, "MAX_CELLS", 1_000)
    engine = Engine([compile_query(DIAMOND, SCHEMA, name="q")], SCHEMA)
    assert not [*engine.process(batch(LONG), 20_000), *engine.finish()]
    assert engine.statistics["q"].n_unfinished == 1
