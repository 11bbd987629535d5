"""Events with a part of the key: which partitions they are in, and how many pairs there are at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.events import EventBatch
from engine.trends import intake
from engine.trends.broadcast import Agreement, Part, slices
from engine.trends.graph import TrendGraph
from tests.engine.trends.evaluation import evaluated, shown
from tests.engine.trends.trend_strategies import SCHEMA
from tests.examples import examples


@settings(max_examples=examples(300), deadline=None)
@given(
    events=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=12),
    known=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3, unique=True),
    components=st.sampled_from([(), (0,), (1,)]),
    at_most=st.integers(1, 6),
)
def test_each_pair_comes_once_with_the_later_of_the_two(
    events: list[tuple[int, int, bool]], known: list[tuple[int, int]], components: tuple[int, ...], at_most: int
) -> None:
    """Events with all of the key bring partitions, others are in those that agree."""
    keys, counts = list(known), []
    for one, other, is_whole in events:
        if is_whole and (one, other) not in keys:
            keys.append((one, other))
        counts.append(len(keys))
    own = np.array([n for n, (*_, is_whole) in enumerate(events) if not is_whole], np.int64)
    values = np.array([event[:2] for event in events], np.float64).T
    part = Part(own, values[list(components)][:, own], components)
    n_known = np.array(counts, np.int64)
    agreement = Agreement(part, np.array(keys, np.float64).reshape(len(keys), 2), n_known)
    expected = {
        (int(row), number): max(int(row), next((n for n, count in enumerate(counts) if count > number), 0))
        for row in own
        for number, key in enumerate(keys)
        if all(key[c] == events[row][c] for c in components)
    }
    weights = agreement.n_pairs()
    assert weights.tolist() == [sum(at == n for at in expected.values()) for n in range(len(events))]
    parts, before = slices(weights, at_most), len(known)
    assert [n for first, last in parts for n in range(first, last)] == list(range(len(events)))
    for first, last in parts:
        after = counts[last - 1]
        rows, partitions = agreement.pairs(first, last, before, after)
        assert sorted(zip(rows.tolist(), partitions.tolist(), strict=True)) == sorted(
            pair for pair, at in expected.items() if first <= at < last
        )
        assert len(rows) <= at_most or last == first + 1
        before = after


def crossed(n_keys: int, n_broadcast: int) -> EventBatch:
    """Keys and broadcast events in turns."""
    n = n_keys + n_broadcast
    kinds = np.where(np.arange(n) % 2 == 0, "A", "D")
    return EventBatch.from_rows(
        [
            {
                "event_id": f"e{k}",
                "type": str(kind),
                "t_lo_ms": k,
                "t_hi_ms": k,
                "source_rank": 0,
                "source_seq": k,
                "x": k % 7,
                **({"h": k} if kind == "A" else {}),
            }
            for k, kind in enumerate(kinds)
        ],
        SCHEMA,
    )


def test_pairs_at_a_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 events of 300 keys and 300 broadcast ones are 45,000 pairs and more: no batch has all of them."""
    query = compile_query("PATTERN SEQ(D, A) WHERE [h] WITHIN 2000 SLIDE 500 RETURN COUNT(*)", SCHEMA)
    stream = crossed(300, 300)
    whole = shown(evaluated(query, stream, SCHEMA))
    sizes: list[int] = []
    take_in = TrendGraph._take_in

    def counted(self: TrendGraph, batch: intake.Coming) -> None:
        sizes.append(len(batch.batch.rows))
        take_in(self, batch)

    monkeypatch.setattr(TrendGraph, "_take_in", counted)
    monkeypatch.setattr(intake, "PAIRS", 1_000)
    assert shown(evaluated(query, stream, SCHEMA)) == whole
    assert sum(sizes) > 90_000
    assert max(sizes) <= 1_301


def test_broadcast_events_of_a_single_partition_come_in_order() -> None:
    """The only partition has a keyed event after the broadcast one, in the same batch."""
    rows = [
        {"event_id": f"e{n}", "type": kind, "t_lo_ms": t, "t_hi_ms": t, "source_rank": 0, "source_seq": n, "x": x}
        for n, (kind, t, x) in enumerate([("A", 0, 1), ("B", 0, 0), ("A", 1, 1)])
    ]
    query = compile_query("PATTERN SEQ(A+, B) WHERE [A.x] WITHIN 1 SLIDE 1 TIES SOURCE RETURN COUNT(*)", SCHEMA)
    assert shown(evaluated(query, EventBatch.from_rows(rows, SCHEMA), SCHEMA)) == [((-1, 0), (), {"count": 1})]
