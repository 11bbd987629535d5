"""What later predicates read of a run, by its state (SASE+ section 5.3)."""

from __future__ import annotations

import pytest

from engine import compile_query
from engine.events import AttributeType, EventSchema
from engine.plan.model import Plan
from engine.plan.sequence.live_variables import LiveVariables, live_variables

SCHEMA = EventSchema.of({"S": {"k": AttributeType.STRING, "p": AttributeType.INT, "v": AttributeType.INT}})


def planned(predicates: str, pattern: str = "S+ a[], S b", rest: str = "") -> Plan:
    text = f"PATTERN SEQ({pattern}) WHERE skip_till_next_match {{ [k] {predicates} }} WITHIN 10 {rest}"
    return compile_query(text, SCHEMA).plan


def read(plan: Plan, state: int) -> tuple[set[tuple[int, str]], int]:
    """(register, attribute) pairs and the number of running aggregates that are live."""
    found: LiveVariables = live_variables(plan)[state]
    assert found.mergeable
    return {(register, plan.programs.columns[column]) for register, column in found.values}, len(found.slots)


@pytest.mark.parametrize(
    ("predicates", "values", "n_slots"),
    [
        ("", set(), 0),  # p1: all runs of a partition are one
        ("AND a[i].p > a[i-1].p", {(1, "p")}, 0),  # p2: the price of the last event
        ("AND a[i].p > max(a[..i-1].p)", set(), 1),  # p3: the aggregate
        ("AND a[i].p > avg(a[..i-1].p)", set(), 2),  # sum and count
        ("AND b.p > stddev(a[].p)", set(), 3),  # count, mean and sum of squares
        ("AND a[1].p % 5 = 0 AND a[i].v > 3 AND b.v < 2", set(), 0),  # predicates on one event read no run
        ("AND a[i].p > a[1].p AND b.v < a[a.len].v", {(0, "p"), (1, "v")}, 0),
    ],
)
def test_what_the_loop_leaves_to_be_read(predicates: str, values: set[tuple[int, str]], n_slots: int) -> None:
    assert read(planned(predicates), 0) == (values, n_slots)


def test_what_was_read_before_is_dead() -> None:
    plan = planned("AND b.p > a.p AND c.v > b.v", "S a, S b, S c")
    assert read(plan, 0) == ({(0, "p")}, 0)
    assert read(plan, 1) == ({(2, "v")}, 0)


def test_return_and_having_are_read_at_the_end() -> None:
    assert read(planned("", rest="HAVING count(a[]) > 2 RETURN min(a[].p)"), 0) == (set(), 2)


def test_a_negated_place_keeps_its_borders() -> None:
    found = live_variables(planned("", "S a, !S n, S b"))
    assert [state.events for state in found] == [(1,), ()]  # decided when b has come
    assert live_variables(planned("", "S a, S b, !S n"))[1].events == (0, 3)


def test_events_that_are_read_one_by_one_keep_runs_apart() -> None:
    found = live_variables(planned("AND b.p > a[i].p"))
    assert [state.mergeable for state in found] == [False, True]
