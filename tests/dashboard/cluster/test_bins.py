"""Columns of time against counting every millisecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cluster import bins as cluster_bins
from dashboard.cluster.bins import TimeBins, bins_over, occupancy, overlaps

SPANS = st.tuples(st.integers(0, 60), st.integers(0, 25)).map(lambda pair: (pair[0], pair[0] + pair[1]))
BINS = st.builds(TimeBins, st.integers(0, 30), st.integers(1, 9), st.integers(1, 8))


def by_counting(bins: TimeBins, spans: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Milliseconds that each interval shares with each column, one by one."""
    found: dict[tuple[int, int], int] = {}
    for interval, (lo, hi) in enumerate(spans):
        for t_ms in range(lo, hi + 1):
            for column in range(bins.n):
                if bins.edges_ms[column] < t_ms <= bins.edges_ms[column + 1]:
                    found[interval, column] = found.get((interval, column), 0) + 1
    return found


@given(bins=BINS, spans=st.lists(SPANS, max_size=12), at_a_time=st.integers(1, 5))
def test_shared_time_is_that_of_counting(bins: TimeBins, spans: list[tuple[int, int]], at_a_time: int) -> None:
    """Whatever the chunks."""
    lo, hi = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    found: dict[tuple[int, int], int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_bins, "MAX_OVERLAPS", at_a_time)
        for chunk in overlaps(bins, lo, hi):
            for interval, column, shared_ms in zip(*(part.tolist() for part in chunk), strict=True):
                assert (interval, column) not in found
                found[interval, column] = shared_ms
    assert found == by_counting(bins, spans)


@given(bins=BINS, spans=st.lists(SPANS, min_size=1, max_size=12), n_rows=st.integers(1, 3))
def test_occupancy_adds_up(bins: TimeBins, spans: list[tuple[int, int]], n_rows: int) -> None:
    """Intervals under way, times the width, is the time that the intervals have in the columns' span."""
    lo, hi = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    row = np.arange(len(spans), dtype=np.int64) % n_rows
    found = occupancy(bins, row, n_rows, lo, hi)
    assert found.shape == (n_rows, bins.n)
    counted = by_counting(bins, spans)
    for place in range(n_rows):
        shared = sum(ms for (interval, _), ms in counted.items() if interval % n_rows == place)
        assert found[place].sum() * bins.width_ms == pytest.approx(shared)


@given(
    from_ms=st.integers(1, 10_000),
    length_ms=st.integers(0, 10_000),
    step_ms=st.integers(1, 700),
    at_most=st.integers(1, 40),
)
def test_columns_cover_the_span(from_ms: int, length_ms: int, step_ms: int, at_most: int) -> None:
    """With few enough columns; edges are multiples of the step unless there may be but one column."""
    to_ms = from_ms + length_ms
    bins = bins_over(from_ms, to_ms, step_ms, at_most)
    assert 1 <= bins.n <= at_most
    assert bins.start_ms < from_ms <= bins.start_ms + bins.width_ms
    assert bins.end_ms - bins.width_ms < to_ms <= bins.end_ms
    if at_most > 1:
        assert (bins.width_ms % step_ms, bins.start_ms % step_ms) == (0, 0)


def test_a_sample_of_a_step_lies_in_one_column() -> None:
    """As Ganglia stamps them: the end of (t - step, t], a multiple of the step."""
    bins = bins_over(1_795_178_155_001, 1_795_178_200_000, 5_000, 1_000)
    assert (bins.start_ms, bins.width_ms, bins.n) == (1_795_178_155_000, 5_000, 9)
    [(interval, column, shared_ms)] = overlaps(bins, np.array([1_795_178_160_001]), np.array([1_795_178_165_000]))
    assert (interval.tolist(), column.tolist(), shared_ms.tolist()) == ([0], [1], [5_000])


@pytest.mark.parametrize("arguments", [(2, 1, 1, 1), (1, 2, 0, 1), (1, 2, 1, 0)])
def test_what_is_no_span(arguments: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no columns over"):
        bins_over(*arguments)
