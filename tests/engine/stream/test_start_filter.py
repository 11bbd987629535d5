"""What a query stores of precise batches is what the definition lets pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import engine
from engine.events import AttributeType, EventBatch, EventSchema
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter, Masks
from engine.stream.interner import Interner
from engine.stream.start_filter import StartFilter
from engine.stream.store import EventStore

SCHEMA = EventSchema.of(
    {
        "A": {"k": AttributeType.INT, "x": AttributeType.INT},
        "B": {"k": AttributeType.INT, "x": AttributeType.INT},
        "C": {"x": AttributeType.INT},
        "D": {"k": AttributeType.INT, "x": AttributeType.INT},
    }
)
Row = tuple[str, int | None, int | None, int]
QUERIES = (
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] AND a.x > 2 AND b[i].x % 3 != 1 AND c.x >= 1 } "
    "WITHIN 6",
    "PATTERN SEQ(A a, B b, A c) WHERE skip_till_any_match { a.x = 3 AND b.x < 3 OR b.x = 5 } WITHIN 4",
    "PATTERN SEQ(C a, B+ b[], C c) WHERE skip_till_any_match { [k] AND a.x != 2 } WITHIN 5",
    "PATTERN SEQ(A a, C c, B+ b[]) WHERE skip_till_any_match { [k] AND c.x > 0 } WITHIN 7",
    "PATTERN SEQ(A a, NOT D d, B b) WHERE skip_till_any_match { [k] AND d.x > 1 AND a.x > 1 } WITHIN 6",
    "PATTERN SEQ(NOT D d, A a, C c, B b) WHERE skip_till_any_match { [k] AND d.x > 1 AND a.x > 1 } WITHIN 4",
    "PATTERN SEQ(NOT C d, A a, B b) WHERE skip_till_any_match { d.x > 1 AND a.x > 1 } WITHIN 4",
    "PATTERN SEQ(A+ a[]) WHERE skip_till_any_match { a[i].x > 1 } WITHIN 3",
)


def _batches(rows: Sequence[Row], cut: int) -> list[EventBatch]:
    times = np.cumsum([gap for _, _, _, gap in rows], dtype=np.int64)
    whole = EventBatch.from_columns(
        {
            "event_id": [str(number) for number in range(len(rows))],
            "type": [kind for kind, _, _, _ in rows],
            "t_lo_ms": times,
            "k": pa.array([None if kind == "C" else k for kind, k, _, _ in rows], pa.int64()),
            "x": pa.array([x for _, _, x, _ in rows], pa.int64()),
        },
        SCHEMA,
    )
    return [EventBatch(whole.table.slice(start, cut)) for start in range(0, max(1, len(rows)), cut)]


class _Definition:
    """Which events a query keeps: those that an edge accepts, with the key, at most a window after a first event of
    their partition or of all; what a leading negation accepts; of the events of all partitions those that are at most
    a window after any first event."""

    def __init__(self, plan: Plan, early: EarlyFilter) -> None:
        self._plan = plan
        self._early = early
        self._firsts: list[tuple[int, tuple[object, ...] | None]] = []

    def passes(self, stream: StreamColumns, row: int) -> bool:
        """Asked of every row in order."""
        plan, event = self._plan, stream.batch.table.slice(row, 1).to_pylist()[0]
        accepted = self._early.accepted(stream)[:, row]
        key = None if event["type"] in plan.broadcast else tuple(event[name] for name in plan.key)
        if not accepted.any() or (key is not None and None in key):
            return False
        now = event["t_lo_ms"]
        if accepted[0]:
            self._firsts.append((now, key))
        leading = [2 * plan.n_steps + k for k, negation in enumerate(plan.negations) if negation.after < 0]
        return bool(accepted[leading].any()) or any(
            now - then <= plan.within_ms and (key is None or of in (key, None)) for then, of in self._firsts
        )


def _taken(text: str, batches: Sequence[EventBatch]) -> Iterator[tuple[EventStore, list[str]]]:
    """The store after each batch, and the ids that it should hold by definition."""
    plan = engine.compile_query(text, SCHEMA).plan
    interner = Interner()
    early = EarlyFilter(plan, interner, live=False)
    gate, store, masks = StartFilter(plan, early), EventStore(plan, interner), Masks(plan)
    definition = _Definition(plan, early)
    expected: list[str] = []
    for number, batch in enumerate(batches):
        stream = StreamColumns(batch, interner)
        gate.take_in(stream, store, masks)
        marked = early.of_store(store)
        assert np.array_equal(masks.table[:, : len(store)], np.concatenate((marked.begin, marked.take, marked.negated)))
        expected += [stream.event_ids[row].as_py() for row in range(len(stream)) if definition.passes(stream, row)]
        yield store, expected
        if number % 3 == 2:  # the store drops rows in between
            kept = store.t_lo_ms[: len(store)] + plan.within_ms >= int(batch.t_lo_ms[-1])
            expected = [name for name, is_kept in zip(expected, kept.tolist(), strict=True) if is_kept]
            masks.keep(kept)
            store.keep(kept)
            gate.enter_again(store, masks)
            yield store, expected


@pytest.mark.parametrize("text", QUERIES)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from("ABCD"), st.none() | st.integers(0, 3), st.none() | st.integers(0, 5), st.integers(0, 4)
        ),
        min_size=1,
        max_size=40,
    ),
    cut=st.integers(1, 20),
)
@example(rows=[("AB"[k % 2], k // 2 % 90, 3 + k % 2, k % 3 == 0) for k in range(300)], cut=250)
@example(rows=[("AABC"[k % 4], k % 7, 5 - k % 4, 0) for k in range(1300)], cut=1200)
def test_what_a_match_may_contain_is_stored(text: str, rows: list[Row], cut: int) -> None:
    batches = _batches(rows, cut)
    whole = EventBatch.concat(batches).table.to_pylist()
    of_id = {event["event_id"]: event for event in whole}
    for store, expected in _taken(text, batches):
        assert list(store.ids.of(np.arange(len(store)))) == expected
        events = [of_id[name] for name in expected]
        assert store.t_lo_ms[: len(store)].tolist() == store.t_hi_ms[: len(store)].tolist()
        assert store.t_lo_ms[: len(store)].tolist() == [event["t_lo_ms"] for event in events]
        assert [store.types[number] for number in store.type_index[: len(store)]] == [event["type"] for event in events]
        keys = [dict(store.key_of(int(number))) for number in store.partition[: len(store)]]
        assert keys == [
            {} if event["type"] in store.plan.broadcast else {name: event[name] for name in store.plan.key}
            for event in events
        ]
        for name, column in zip(store.names, store.columns, strict=True):
            known = [None if np.isnan(value) else value for value in column[: len(store)].tolist()]
            assert known == [event["t_lo_ms"] if name == "timestamp" else event[name] for event in events]


def test_ids_of_rows_that_are_handed_out_outlast_the_store() -> None:
    plan = engine.compile_query(QUERIES[-1], SCHEMA).plan
    store = EventStore(plan, Interner())
    batch = _batches([("A", 1, 3, 1)] * 30, 30)[0]
    for end in range(20):  # more batches than are held for a few of their ids
        store.reserve(end + 1)
        store.flat[:-1, end], store.flat[-1, end] = -1, end
        store.taken(StreamColumns(batch, store.interner), end + 1)
    handed_out = store.as_it_is()
    store.keep(np.arange(20) % 3 == 0)
    assert handed_out.texts(np.array([0, 7, 19])) == {0: "0", 7: "7", 19: "19"}
    assert store.ids.of(np.arange(7)) == ("0", "3", "6", "9", "12", "15", "18")
    del handed_out
    store.keep(np.arange(7) > 4)
    assert store.ids.of(np.arange(2)) == ("15", "18")
