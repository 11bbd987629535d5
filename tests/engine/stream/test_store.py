"""Dropping the oldest rows of a store at once leaves what dropping them one by one leaves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.events import AttributeType, EventBatch, EventSchema
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter, Masks
from engine.stream.interner import Interner
from engine.stream.store import EventStore

SCHEMA = EventSchema.of({name: {"k": AttributeType.INT, "x": AttributeType.INT} for name in "AB"})
PLAN = engine.compile_query(
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match { [k] AND b[i].x > a.x } WITHIN 9", SCHEMA
).plan
ROW = st.tuples(st.sampled_from("AB"), st.integers(0, 3), st.integers(0, 9), st.sampled_from([0, 0, 2]))


@given(st.lists(ROW, min_size=1, max_size=12), st.booleans(), st.booleans(), st.data())
def test_the_rows_from_one_on(
    rows: list[tuple[str, int, int, int]], has_weights: bool, has_skew: bool, data: st.DataObject
) -> None:
    t_lo_ms = np.arange(len(rows))
    lengths = [length for *_, length in rows]
    columns = {
        "event_id": [str(number) for number in range(len(rows))],
        "type": [kind for kind, *_ in rows],
        "t_lo_ms": t_lo_ms,
        "t_hi_ms": t_lo_ms + np.array(lengths),
        "k": [k for _, k, *_ in rows],
        "x": [x for _, _, x, _ in rows],
    }
    if has_weights:
        columns["weights"] = pa.array([[0.25, 0.5, 0.25] if n else None for n in lengths], pa.list_(pa.float64()))
    if has_skew:
        columns["skew_ms"] = pa.array([n // 2 for n in lengths], pa.int64())
    batch = EventBatch.from_columns(columns, SCHEMA)
    first = data.draw(st.integers(0, len(rows)))
    stores, masks = [], []
    for _ in range(2):
        interner = Interner()
        stream = StreamColumns(batch, interner)
        survivors = EarlyFilter(PLAN, interner, live=False).select(stream)
        stores.append(EventStore(PLAN, interner))
        stores[-1].append(stream, survivors.rows)
        masks.append(Masks(PLAN))
        masks[-1].append(survivors, 0)
    n = len(rows)
    kept = np.arange(n) >= first
    masks[0].keep(kept)
    _, partitions = stores[0].keep(kept)
    masks[1].keep_from(first, n)
    assert stores[1].keep_from(first).tolist() == partitions.tolist()
    assert stores[1].save().equals(stores[0].save(), check_metadata=True)
    assert stores[1].n_imprecise == stores[0].n_imprecise
    assert np.array_equal(masks[1].table[:, : n - first], masks[0].table[:, : n - first])


def test_a_state_without_places_is_read_where_they_are_needed() -> None:
    """States of before had positions for some queries alone."""
    interner = Interner()
    rows = [{"event_id": f"e{at}", "type": "AB"[at % 2], "t_lo_ms": at, "k": 1, "x": at} for at in range(6)]
    stream = StreamColumns(EventBatch.from_rows(rows, SCHEMA), interner)
    before, now = EventStore(PLAN, interner), EventStore(PLAN, interner, placed=True)
    before.append(stream, np.arange(4))
    now.restore(before.save())
    assert now.position[:4].tolist() == [5] * 4
    assert now.previous[:4].tolist() == [-1] * 4
    assert now.n_seen == 6
    assert now.ids.array().equals(before.ids.array())
    now.append(stream, np.array([1]))
    assert now.position[4] == 7
