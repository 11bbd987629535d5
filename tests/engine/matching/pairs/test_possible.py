"""Collapsed and counted rows over imprecise events, all last events of a first one together, against the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, compile_query
from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import MatchRows
from engine.matching.pairs.counting import Counted, Counting
from engine.matching.pairs.listing import Pair
from engine.matching.pairs.possible import PossibleBlock
from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.protocol import Limits
from engine.reference.rows.output import ReferenceRow, reference_output
from tests.conformance.comparison import Tally, compare
from tests.engine.strategies import IMPRECISE, SCHEMA, SKEWED, WEIGHTED, Case, StreamScope, deliveries, streams
from tests.examples import each_drawn_anew, examples

PATTERNS = (
    "SEQ(A+ a[], B b) WHERE skip_till_any_match { a[1].x < 3 }",
    "SEQ(A+ a[], B b) WHERE skip_till_any_match { [k] }",
    "SEQ(A a, B+ b[]) WHERE skip_till_any_match { b[i].x != 2 }",
    "SEQ(A a, B+ b[]) WHERE skip_till_any_match { b[i].x >= a.x }",
    "SEQ(B+ b[]) WHERE skip_till_any_match { b[i].x < 4 }",
    "SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x > 0 }",
    "SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { b[i].x <= c.x }",
    "SEQ(A a, B+ b[], C c) WHERE skip_till_any_match",
    "SEQ(A+ a[], B b) WHERE skip_till_any_match { b.x >= max(a[].x) }",
    "SEQ(A a, B+ b[], B c) WHERE skip_till_any_match { count(b[]) >= 2 }",
)
FORMS = ("OUTPUT COLLAPSED", "OUTPUT COUNT")
TYPES = (("A", "B"), ("A", "B", "B", "C"), ("A", "A", "B"))


@pytest.mark.parametrize(
    "scope", [replace(IMPRECISE, max_events=6), WEIGHTED, SKEWED], ids=["uniform", "weighted", "skewed"]
)
def test_the_rows_of_the_oracle(scope: StreamScope) -> None:
    tally = Tally()

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        pattern = data.draw(st.sampled_from(PATTERNS))
        form = data.draw(st.sampled_from(FORMS))
        types = data.draw(st.sampled_from(TYPES))
        stream = data.draw(streams(scope, types, types))
        case = Case(f"PATTERN {pattern} WITHIN {data.draw(st.integers(0, 16))} {form}", stream)
        parts = data.draw(deliveries(stream))
        compare(case, parts, data.draw(st.frozensets(st.integers(0, len(parts) - 1))), tally)

    with each_drawn_anew():
        check()
    assert tally.n_with_rows > tally.n_compared / 6


def extent(row: MatchRow | ReferenceRow) -> tuple[int, int, int]:
    """When the row begins and ends, and the number of events it shows."""
    return row.first_lo_ms, row.last_hi_ms, sum(len(ids) for ids in row.bindings.values())


def test_rows_are_exact_and_name_the_longest_of_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair is counted by itself; where orders are open the row still says all."""
    calls: list[Pair] = []

    def of_pair(counting: Counting, pair: Pair) -> Counted | None:
        calls.append(pair)
        raise AssertionError("counted by itself")

    monkeypatch.setattr(Counting, "of_pair", of_pair)

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(streams(replace(IMPRECISE, max_events=6), ("A", "B"), ("A", "B", "B", "C")), st.integers(0, 16), st.data())
    def check(stream: EventBatch, within: int, data: st.DataObject) -> None:
        text = f"PATTERN {data.draw(st.sampled_from(PATTERNS[2:8]))} WITHIN {within} OUTPUT COLLAPSED"
        compiled = compile_query(text, SCHEMA)
        engine = Engine([compiled], SCHEMA)
        rows = [*engine.process(stream, 40), *engine.finish()]
        expected = reference_output(compiled.resolved, stream)
        assert all(row.exact and row.count_exact for row in rows)
        assert all(row.exact for row in expected)
        assert sorted(map(extent, rows)) == sorted(map(extent, expected))

    check()


def test_rows_are_made_in_parts_and_from_columns() -> None:
    rows = [{"type": "A" if k % 2 else "B", "t_lo_ms": 3 * k, "t_hi_ms": 3 * k + 4} for k in range(90)]
    fields = {"k": "p", "j": 1, "x": 1}
    stream = EventBatch.from_rows(
        [row | fields | {"event_id": f"e{n:02}", "source_seq": n} for n, row in enumerate(rows)], SCHEMA
    )
    compiled = compile_query(f"PATTERN {PATTERNS[1]} WITHIN 400 OUTPUT COLLAPSED", SCHEMA)
    block = Engine([compiled], SCHEMA).process(stream, 1000)
    assert len(block) > PossibleBlock.CHUNK
    made = list(block)
    assert [block[k] for k in (0, -1, 1030)] == [made[0], made[-1], made[1030]]
    assert list(block[1020:1030]) == made[1020:1030]
    assert block.n_matches == sum(row.count for row in made)  # type: ignore[attr-defined]


def overlapping(types: str, n: int, width_ms: int) -> EventBatch:
    """So many events one after the other, each of this width."""
    fields = {"k": "p", "j": 1, "x": 1}
    return EventBatch.from_rows(
        [
            {"type": types[k % len(types)], "t_lo_ms": k, "t_hi_ms": k + width_ms, "event_id": f"e{k}", "source_seq": k}
            | fields
            for k in range(n)
        ],
        SCHEMA,
    )


def test_counts_take_no_more_than_the_account_holds() -> None:
    """Pairs that nothing is left to count for are told all the same: that they have a match takes next to nothing."""
    compiled = compile_query("PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match WITHIN 1 min OUTPUT COUNT", SCHEMA)
    engine = Engine([compiled], SCHEMA, limits=Limits(max_rows=10**6, work_budget=20_000))
    (runtime,) = engine._runtimes.values()
    assert isinstance(runtime, PostponedRuntime)
    rows = engine.process(overlapping("ABB", 300, 20), 10**6)
    most, capacity, _ = runtime._work.terms.tolist()
    assert -8 * most < runtime._work.account[0] < capacity
    assert len(rows) > 300
    assert any(not row.count_exact for row in rows)
    assert all(row.count >= 1 for row in rows)


def test_a_block_keeps_the_pairs_that_have_rows() -> None:
    """Where a condition denies most pairs, what is known of these is not kept with the rows."""
    text = "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { a.x > c.x } WITHIN 1 min OUTPUT COUNT"
    rows = [
        {"type": "AB"[k % 2], "t_lo_ms": 3 * k, "t_hi_ms": 3 * k + 4, "event_id": f"e{k}", "source_seq": k}
        | {"k": "p", "j": 1, "x": int(k == 4)}
        for k in range(60)
    ]
    found = Engine([compile_query(text, SCHEMA)], SCHEMA).process(EventBatch.from_rows(rows, SCHEMA), 10**6)
    assert isinstance(found, MatchRows)
    (part,) = found.parts
    assert isinstance(part, MatchRows)
    (block,) = part.parts
    assert isinstance(block, PossibleBlock)
    assert len(block) == len(block.columns.pairs) > 10
    assert {row.first_lo_ms for row in block} == {12}


def test_a_pair_that_is_counted_by_itself_pays_for_what_it_takes_before_its_search() -> None:
    """Some 20 us, in steps of 7 ns."""
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { a.x > b.x } WITHIN 1 min OUTPUT COUNT"
    engine = Engine([compile_query(text, SCHEMA)], SCHEMA)
    (runtime,) = engine._runtimes.values()
    assert isinstance(runtime, PostponedRuntime)
    assert not engine.process(overlapping("A" * 30 + "B" * 10, 40, 3), 10**6)
    spent = runtime._work.terms[1] - runtime._work.account[0]
    assert spent >= 300 * 3_000 - 10 * runtime._work.terms[2]
    assert engine.statistics[runtime.plan.name].n_unfinished == 0
