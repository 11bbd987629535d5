"""The simple readers that recordings are checked with."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.minicluster.recording.evidence import (
    Attempt,
    deviations,
    fetch_periods,
    log_time_ms,
    longest_above,
    longest_rise,
    queued_bytes,
    unbalanced_steps,
)

LINES = [
    "2026-01-31 12:00:00,500 INFO [fetcher#1] org.apache.hadoop.mapreduce.task.reduce.Fetcher: fetcher#1 about to "
    "shuffle output of map attempt_1_0001_m_000000_0 decomp: 90 len: 94 to MEMORY",
    "2026-01-31 12:00:01,000 INFO [fetcher#1] org.apache.hadoop.mapreduce.task.reduce.ShuffleSchedulerImpl: "
    "node2:13563 freed by fetcher#1 in 1532ms",
    "something else",
]
NOON_MS = 1769860800000


def test_log_lines() -> None:
    assert log_time_ms("2026-01-31 12:00:00,500") == NOON_MS + 500
    assert fetch_periods(LINES) == {"node2": [1532]}


def test_queue_grows_with_maps_and_shrinks_with_fetches() -> None:
    maps = [Attempt(f"attempt_1_0001_m_00000{i}_0", True, "node1", 0, NOON_MS + i * 1000, 100) for i in range(2)]
    reducer = Attempt("attempt_1_0001_r_000000_0", False, "node1", 0, NOON_MS, 999)
    expected = [(NOON_MS, 100), (NOON_MS + 500, 6), (NOON_MS + 1000, 106)]
    assert queued_bytes([*maps, reducer], LINES) == expected


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([], 0),
        ([(0, 5), (10, 9), (25, 3), (30, 8), (60, 8), (70, 1)], 40),
        ([(0, 9)], 0),
        ([(0, 8), (5, 7)], 5),
        ([(0, 9), (50, 1), (60, 9), (70, 1)], 50),
    ],
)
def test_longest_time_above(curve: list[tuple[int, int]], expected: int) -> None:
    assert longest_above(curve, 8) == expected


@given(st.lists(st.integers(0, 9).map(float), max_size=8), st.integers(0, 6).map(float))
def test_longest_rise_is_that_of_all_subsequences(values: list[float], min_rise: float) -> None:
    lengths = [
        size
        for size in range(1, len(values) + 1)
        for chosen in combinations(values, size)
        if list(chosen) == sorted(chosen) and chosen[-1] - chosen[0] >= min_rise
    ]
    assert longest_rise(values, min_rise) == max(lengths, default=0)


def test_balance_of_samples() -> None:
    samples = {
        1000: {"a": 0.0, "b": 0.0, "c": 0.0},
        2000: {"a": 30.0, "b": 0.0, "c": 0.0},
        3000: {"a": 30.0, "b": 30.0, "c": 30.0},
    }
    assert deviations(samples, 1000, 2000) == [0.0, pytest.approx(14.1421356)]
    assert unbalanced_steps(samples, 0, 9000) == 1
