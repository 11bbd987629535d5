"""Events that no start can precede within the window are dropped, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.events import AttributeType, EventBatch, EventSchema
from engine.kernels.liveness import NEVER_MS, live_rows
from engine.matching.early_filter import EarlyFilter
from engine.matching.interner import Interner
from engine.matching.stream import StreamColumns

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
