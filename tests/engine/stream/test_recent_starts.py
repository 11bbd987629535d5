"""Events that no start can precede within the window are dropped, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.events import AttributeType, EventBatch, EventSchema
from engine.kernels.columns.partitions import NOWHERE
from engine.kernels.runs.recent_starts import (
    NEVER_MS,
    claim_partitions,
    link_rows,
    live_among,
    live_rows,
    mark_found,
    near_starts,
    runs_reach,
)
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter
from engine.stream.interner import Interner

SCHEMA = EventSchema.of(
    {
        "A": {"k": AttributeType.INT, "x": AttributeType.INT},
        "B": {"k": AttributeType.INT, "x": AttributeType.INT},
        "C": {"x": AttributeType.INT},
    }
)
Row = tuple[str, int | None, int]


@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 6), st.booleans()), max_size=20),
    st.integers(0, 8),
)
def test_live_rows_are_those_of_the_definition(events: list[tuple[int, int, bool]], within_ms: int) -> None:
    partition = np.array([p for p, _, _ in events], np.int64)
    t_ms = np.cumsum([gap for _, gap, _ in events], dtype=np.int64)
    starts = np.flatnonzero(np.array([start for _, _, start in events], np.bool_))
    last_ms, shared_ms = np.full(3, NEVER_MS, np.int64), np.full(2, NEVER_MS, np.int64)
    rows = np.arange(len(events))
    t_ms.flags.writeable = False  # as columns of events are
    found = live_rows(rows, starts, partition, t_ms, t_ms, within_ms, last_ms, shared_ms)
    expected = [
        row
        for row in rows
        if any(
            start <= row
            and t_ms[row] - t_ms[start] <= within_ms
            and (partition[start] == partition[row] or -1 in (partition[start], partition[row]))
            for start in starts
        )
    ]
    assert found.tolist() == expected


@given(
    st.lists(
        st.tuples(
            st.integers(-1, 2), st.integers(0, 3), st.integers(0, 1), st.sampled_from(("", "", "start", "other"))
        ),
        max_size=20,
    ),
    st.lists(st.integers(-2, 6), min_size=3, max_size=3),
    st.integers(0, 6),
)
def test_rows_near_starts_are_those_of_the_definition(
    events: list[tuple[int, int, int, str]], lives_until: list[int], within_ms: int
) -> None:
    partition = np.array([p for p, _, _, _ in events], np.int64)
    lo_ms = np.cumsum([gap for _, gap, _, _ in events], dtype=np.int64)
    hi_ms = lo_ms + np.array([width for _, _, width, _ in events], np.int64)
    kinds = np.array([kind for _, _, _, kind in events], np.str_)
    precise = lo_ms == hi_ms
    starts, others = (np.flatnonzero((kinds == kind) & precise) for kind in ("start", "other"))
    until_ms = np.array([until if until >= 0 else NEVER_MS for until in lives_until], np.int64)
    own = np.array([5, 7, 6], np.int64)
    expected = [
        row
        for row in range(len(events))
        if partition[row] >= 0
        and precise[row]
        and (
            row in others
            or lo_ms[row] <= until_ms[partition[row]]
            or any(
                start <= row and partition[start] == partition[row] and lo_ms[row] - lo_ms[start] <= within_ms
                for start in starts
            )
        )
    ]
    lo_ms.flags.writeable = hi_ms.flags.writeable = False  # as columns of events are
    first, following = link_rows(np.arange(len(events)), False, partition, lo_ms, hi_ms, 3)
    at_once = link_rows(np.empty(0, np.int64), True, partition, lo_ms, hi_ms, 3)
    assert [links.tolist() for links in at_once] == [first.tolist(), following.tolist()]
    rows, numbers = near_starts(starts, others, partition, first, following, lo_ms, within_ms, until_ms, own)
    assert rows.tolist() == expected
    assert numbers.tolist() == own[partition[expected]].tolist()
    marks = np.zeros((len(events) + 7) // 8 * 8, np.uint8)
    marks[: len(events)] = 1
    marks[others], marks[starts] = 3, 2
    rows, numbers = live_among(marks, len(events), partition, lo_ms, hi_ms, within_ms, until_ms, own)
    assert rows.tolist() == expected
    assert numbers.tolist() == own[partition[expected]].tolist()


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)))
def test_rows_that_are_found_are_marked(rows: set[int], found: set[int]) -> None:
    marks = np.zeros(len(rows), np.bool_)
    mark_found(np.array(sorted(rows), np.int64), np.array(sorted(found), np.int64), marks)
    assert marks.tolist() == [row in found for row in sorted(rows)]


def test_partitions_are_claimed_in_order_of_arrival() -> None:
    own = np.array([NOWHERE, 4, NOWHERE, NOWHERE], np.int64)
    partition = np.array([2, 1, -1, 0, 2, 3], np.int64)
    assert claim_partitions(np.arange(5), partition, own, NOWHERE, -3).tolist() == [2, 0]
    assert own.tolist() == [-3, 4, -3, NOWHERE]


def test_a_partition_is_reached_as_long_as_its_newest_run_lives() -> None:
    # Two runs in the chain of partition 1: columns are node, partition, component, next run, first row.
    runs = np.array([[0, 1, 0, 1, 0], [0, 1, 0, -1, 1]], np.int64)
    chains = np.array([[-1, 0], [0, 2], [-1, 0]], np.int64)
    until_ms = runs_reach(np.array([1, 0, NOWHERE], np.int64), chains, runs, np.array([3, 5], np.int64), 10)
    assert until_ms.tolist() == [15, NEVER_MS, NEVER_MS]


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.none() | st.integers(0, 2), st.integers(0, 3)), max_size=20),
       st.lists(st.integers(1, 5), min_size=1))  # fmt: skip
def test_batches_make_no_difference(rows: list[Row], sizes: list[int]) -> None:
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x > 1 AND c.x > 0 } WITHIN 4"
    plan = engine.compile_query(text, SCHEMA, name="q").plan

    def kept(batches: Sequence[Sequence[int]]) -> list[int]:
        interner = Interner()
        chosen = EarlyFilter(plan, interner)
        found: list[int] = []
        for batch in batches:
            survivors = chosen.select(StreamColumns(batch_of(rows, batch), interner))
            found += [batch[row] for row in survivors.rows.tolist()]
        return found

    numbers = list(range(len(rows)))
    cuts = np.cumsum(sizes)
    assert kept([numbers]) == kept([part.tolist() for part in np.split(np.array(numbers, np.int64), cuts)])
    live = [n for n in numbers if is_live(rows, n)]
    assert kept([numbers]) == live


def is_live(rows: list[Row], n: int) -> bool:
    """By the words of the query: an A with x > 1 and a key, its Bs and its Cs with x > 0, at most 4 ms later."""
    event_type, key, x = rows[n]
    if event_type == "C":
        key = None
        accepted = x > 0
    else:
        accepted = key is not None and (event_type == "B" or x > 1)
    return accepted and any(
        kind == "A" and k is not None and v > 1 and n - m <= 4 and key in (None, k)
        for m, (kind, k, v) in enumerate(rows[: n + 1])
    )


def batch_of(rows: list[Row], numbers: Sequence[int]) -> EventBatch:
    return EventBatch.from_rows(
        [
            {"event_id": str(n), "type": rows[n][0], "t_lo_ms": n, "t_hi_ms": n, "x": rows[n][2]}
            | ({"k": rows[n][1]} if rows[n][0] != "C" else {})
            for n in numbers
        ],
        SCHEMA,
    )
