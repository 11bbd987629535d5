"""The automaton runtime and unions: bindings, limits, what is kept, saved state. Random cases: tests/conformance."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.compiled.query import compile_query
from engine.errors import StateError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.automaton.runtime import AutomatonRuntime
from engine.matching.output.event_positions import EventPositions
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits
from engine.matching.union import UnionRuntime, merged_rows
from engine.plan.automaton.model import AutomatonPlan
from engine.runtime.factory import make_runtime
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

SCHEMA = EventSchema.of({name: {"k": AttributeType.INT, "x": AttributeType.INT} for name in "ABCN"})


class Running:
    """One query over a stream that is given in pieces of text: "A1 B2" are events of x = 1, 2, one each 10 ms."""

    def __init__(
        self,
        pattern: str,
        strategy: str,
        where: str = "",
        rest: str = "WITHIN 100",
        max_listed: int = 99,
        work_budget: int = 10_000,
    ) -> None:
        condition = f"{{ {where} }}" if where else ""
        query = compile_query(f"PATTERN {pattern} WHERE {strategy} {condition} {rest}", SCHEMA)
        self.runtime = make_runtime(query, Interner(), Limits(max_listed=max_listed, work_budget=work_budget))
        self.interner = Interner()
        self.n_events = 0

    def give(self, events: str, *, width_ms: int = 0, finish: bool = False) -> Sequence[MatchRow]:
        rows = []
        for word in events.split():
            t_ms = 10 * self.n_events
            rows.append(
                {
                    "event_id": f"{word[0].lower()}{self.n_events}",
                    "type": word[0],
                    "t_lo_ms": t_ms,
                    "t_hi_ms": t_ms + width_ms,
                    "source_seq": self.n_events,
                    "k": 1,
                    "x": int(word[1:] or 0),
                }
            )
            self.n_events += 1
        batch = EventBatch.from_rows(rows, SCHEMA) if rows else EventBatch.empty()
        watermark_ms = FOREVER_MS if finish else 10 * self.n_events
        return self.runtime.advance(StreamColumns(batch, self.interner), watermark_ms)


def bound(rows: Sequence[MatchRow]) -> list[dict[str, object]]:
    return [dict(row.bindings) for row in rows]


def test_bindings_of_a_repeated_group_are_nested_by_iteration() -> None:
    running = Running("SEQ((SEQ(A a, B+ b[]))+, C c)", "skip_till_next_match")
    assert bound(running.give("A B B A B C"))[0] == {"a": ("a0", "a3"), "b": (("b1", "b2"), ("b4",)), "c": ("c5",)}


def test_one_value_in_the_events_of_a_kleene_component_is_one_in_each_iteration() -> None:
    pattern = "SEQ((SEQ(A a, B+ b[]))+, C c)"
    for where in ("[b.x]", "b[i].x = b[1].x"):
        rows = Running(pattern, "skip_till_next_match", where).give("A B1 B1 A B2 B3 C")
        assert {"a": ("a0", "a3"), "b": (("b1", "b2"), ("b4",)), "c": ("c6",)} in bound(rows)
        assert not any(("b4", "b5") in row.bindings["b"] for row in rows)
    assert not Running("SEQ((SEQ(A a, B b))+, C c)", "partition_contiguity", "[k] AND [b.x]").give("A B1 A B2 C")[1:]


def test_a_variable_that_an_iteration_lacks_is_an_empty_list_there() -> None:
    running = Running("SEQ((OR(A a, B b))+, C c)", "partition_contiguity", "[k]")
    assert {"a": ("a0", ()), "b": ((), "b1"), "c": ("c2",)} in bound(running.give("A B C"))


def test_a_match_is_told_when_its_last_event_is_there() -> None:
    running = Running("AND(A a, B b)", "skip_till_any_match")
    assert not running.give("B")
    assert bound(running.give("A")) == [{"a": ("a1",), "b": ("b0",)}]
    assert not running.give("", finish=True)


def test_a_trailing_negation_is_decided_by_the_watermark_alone() -> None:
    running = Running("SEQ(A a, B b, !SEQ(N n, C c))", "skip_till_next_match", rest="WITHIN 50")
    assert not running.give("A B N A B")
    assert not running.give("C")
    assert bound(running.give("", finish=True)) == [{"a": ("a3",), "b": ("b4",)}]


def test_the_cap_stops_the_listing_and_says_so() -> None:
    running = Running("(A+ a[])+", "skip_till_any_match", max_listed=20)
    rows = running.give("A A A A A A A A")
    assert len(rows) == 20
    assert rows[-1].capped
    assert not any(row.capped for row in rows[:-1])


def test_a_search_that_finds_nothing_within_its_budget_counts_as_unfinished() -> None:
    where = "b[b.len].x > a[1].x + 10"
    running = Running("SEQ((SEQ(A a, A b))+, B c)", "skip_till_any_match", where, "WITHIN 999", work_budget=50)
    assert not running.give(" ".join(["A"] * 16 + ["B"]))
    assert running.runtime.n_unfinished == 1


def test_imprecise_events_are_counted_and_left_out() -> None:
    running = Running("AND(A a, B b)", "skip_till_next_match")
    assert not running.give("A B", width_ms=4)
    assert running.runtime.n_rejected == 2


@pytest.mark.parametrize("strategy", ["skip_till_any_match", "skip_till_next_match", "partition_contiguity"])
def test_what_no_match_can_need_is_dropped(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.matching.automaton.runtime._LEAST_ROWS", 16)
    running = Running("(SEQ(A a, B b))+", strategy, "[k]", rest="WITHIN 60")
    for _ in range(30):
        running.give("A B C A B N")
        assert running.runtime.n_rows < 64


@pytest.mark.parametrize("strategy", ["skip_till_any_match", "skip_till_next_match"])
def test_a_saved_state_goes_on_and_another_version_is_refused(strategy: str) -> None:
    running = Running("SEQ((SEQ(A a, B b))+, C c)", strategy)
    running.give("A B A")
    state = running.runtime.save()
    again = Running("SEQ((SEQ(A a, B b))+, C c)", strategy)
    again.interner, again.n_events = running.interner, running.n_events
    again.runtime.restore(state)
    assert bound(again.give("B C")) == bound(running.give("B C")) != []
    with pytest.raises(StateError, match="lacks"):
        again.runtime.restore({"store": state["store"]})
    other = dict(state)
    other["store"] = state["store"].replace_schema_metadata(
        {**state["store"].schema.metadata, b"automaton_version": b"0"}
    )
    with pytest.raises(StateError, match="automaton version"):
        again.runtime.restore(other)


def test_a_negated_group_that_is_deeper_than_all_that_is_bound_adds_no_level() -> None:
    pattern = "(SEQ(A a, !(SEQ((SEQ(N n, N m))+, C c))))+"
    before, after = (Running(pattern, "skip_till_any_match", rest="WITHIN 100 SELECT FIRST") for _ in range(2))
    assert not before.give("B")
    after.runtime.restore(before.runtime.save())
    assert bound(after.give("A N N A", finish=True)) == [{"a": ("a0",)}, {"a": ("a0", "a3")}]


def test_equal_bindings_of_two_branches_are_one_match_whichever_is_decided_first() -> None:
    pattern = "OR(SEQ(A a, B b), SEQ(A a, B b, !N n))"
    running = Running(pattern, "skip_till_any_match", rest="WITHIN 30")
    assert isinstance(running.runtime, UnionRuntime)
    rows = [*running.give("A B"), *running.give("C"), *running.give("", finish=True)]
    assert bound(rows) == [{"a": ("a0",), "b": ("b1",)}]


def test_a_union_holds_what_waits_in_its_state() -> None:
    pattern = "OR(SEQ(A a, B b), SEQ(A a, B b, !N n))"
    running, again = (Running(pattern, "skip_till_any_match", rest="WITHIN 30") for _ in range(2))
    assert not running.give("A B")
    again.n_events, again.interner = running.n_events, running.interner
    again.runtime.restore(running.runtime.save())
    assert bound(again.give("", finish=True)) == [{"a": ("a0",), "b": ("b1",)}]


@pytest.mark.parametrize("output", ["COUNT", "COLLAPSED"])
def test_counted_rows_of_branches_with_other_variables_are_merged(output: str) -> None:
    running = Running("SEQ(A a, B* b[], C c)", "skip_till_any_match", rest=f"WITHIN 100 OUTPUT {output}")
    (row,) = running.give("A B B C")
    assert (row.count, row.count_exact) == (4, True)
    if output == "COLLAPSED":
        assert row.candidates == {"a": ("a0",), "b": ("b1", "b2"), "c": ("c3",)}
        assert not row.exact


def test_merged_rows_stay_apart_by_key() -> None:
    def row(key: int, event: str) -> MatchRow:
        return MatchRow("q", (("k", key),), 0, 1, {"a": (event,)}, 1.0, {})

    emitted = [[row(1, "e"), row(2, "e")], [row(1, "e"), row(1, "f")]]
    assert [r.count for r in merged_rows(emitted, EventPositions(()))] == [2, 1, 1]


def test_a_plain_branch_of_a_union_keeps_its_fast_runtime() -> None:
    query = compile_query("PATTERN SEQ(A a, B? b, C c) WHERE skip_till_any_match WITHIN 9", SCHEMA)
    assert not any(isinstance(branch, AutomatonPlan) for branch in query.branches)
    single = compile_query("PATTERN AND(A a, B b) WHERE skip_till_any_match WITHIN 9", SCHEMA)
    assert isinstance(make_runtime(single, Interner(), Limits()), AutomatonRuntime)
