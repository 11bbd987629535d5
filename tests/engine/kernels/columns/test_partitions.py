"""Events by partition, against a stable sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.columns.partitions import order_by_partition


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 5)), max_size=60))
def test_each_partition_keeps_its_order(events: list[tuple[int, int]]) -> None:
    partition, t_ms = np.array(events, np.int64).reshape(-1, 2).T.copy()
    n_of = np.bincount(partition, minlength=10)
    rows, times = np.empty(len(events), np.int64), np.empty(len(events), np.int64)
    order_by_partition(partition, t_ms, np.cumsum(n_of) - n_of, rows, times)
    expected = sorted(range(len(events)), key=lambda event: events[event][0])
    assert rows.tolist() == expected
    assert times.tolist() == [events[event][1] for event in expected]
