"""Counting possible orders against listing all sequences and all times."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.pairs.possible_orders import MAX_SLOTS, MOST, count_orders
from tests.engine.kernels.plain import as_python
from tests.examples import examples

Interval = tuple[int, int]
NO_BUDGET = 10**9


def possible(chain: list[int], intervals: list[Interval], within_ms: int) -> bool:
    """Whether times can be given to the events, in order and in the window: for each time of the first one by one."""
    for start in range(intervals[chain[0]][0], intervals[chain[0]][1] + 1):
        times = {start}
        for before, event in pairwise(chain):
            lo, hi = intervals[event]
            tied = intervals[before] == (lo, lo) == (hi, hi) and before < event
            times = {t for t in range(lo, hi + 1) for s in times if s < t or (tied and s == t)}
        if any(t - start <= within_ms for t in times):
            return True
    return False


def listed(
    intervals: list[Interval], members: set[int], last: int, within_ms: int, chain: list[int], direct: bool
) -> int:
    """Sequences that begin with `chain` and end in `last`."""
    if not possible(chain, intervals, 10**6):
        return 0
    n = 0
    if last not in chain and (direct or len(chain) > 1):
        n += possible([*chain, last], intervals, within_ms)
    for member in members - {*chain, last}:
        n += listed(intervals, members, last, within_ms, [*chain, member], direct)
    return n


def counted(
    intervals: list[Interval], members: set[int], lasts: list[int], within_ms: int, *, direct: bool, budget: int
) -> tuple[list[int], list[bool]]:
    """The kernel's answer; event 0 is the first."""
    return counted_with_steps(intervals, members, lasts, within_ms, direct=direct, budget=budget)[:2]


def counted_with_steps(
    intervals: list[Interval], members: set[int], lasts: list[int], within_ms: int, *, direct: bool, budget: int
) -> tuple[list[int], list[bool], int]:
    """The same and the steps that it took."""
    zero = intervals[0][0]
    follows = [
        k
        for k in range(1, len(intervals))
        if intervals[0][0] < intervals[k][1]
        or (intervals[0][0] == intervals[0][1] == intervals[k][0] == intervals[k][1])
    ]
    lo = np.array([intervals[k][0] - zero for k in follows], np.int64)
    hi = np.array([intervals[k][1] - zero for k in follows], np.int64)
    member = np.array([k in members for k in follows], np.bool_)
    last_of = np.array([lasts.index(k) if k in lasts else -1 for k in follows], np.int64)
    cut = bool((hi[last_of >= 0] > within_ms).any())
    counts, complete = np.zeros(len(lasts), np.int64), np.zeros(len(lasts), np.bool_)
    first_hi = intervals[0][1] - zero
    tie = first_hi == 0
    with as_python():
        steps = count_orders(lo, hi, member, last_of, first_hi, tie, within_ms, cut, direct, budget, counts, complete)
    return counts.tolist(), complete.tolist(), int(steps)


INTERVALS = st.tuples(st.integers(0, 9), st.sampled_from([0, 0, 1, 2, 3, 5, 9])).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_counts_are_those_of_all_sequences(data: st.DataObject) -> None:
    intervals = sorted(data.draw(st.lists(INTERVALS, min_size=2, max_size=6)), key=lambda interval: interval[0])
    others = range(1, len(intervals))
    members = {k for k in others if data.draw(st.booleans())}
    lasts = [k for k in others if k not in members or data.draw(st.booleans())]
    within_ms = data.draw(st.integers(0, 20))
    direct = data.draw(st.booleans())
    # A pair out of the window is none.
    lasts = [k for k in lasts if intervals[k][0] - intervals[0][1] <= within_ms]
    counts, complete = counted(intervals, members, lasts, within_ms, direct=direct, budget=NO_BUDGET)
    assert counts == [listed(intervals, members, last, within_ms, [0], direct) for last in lasts]
    assert all(complete)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(INTERVALS, min_size=2, max_size=6), st.integers(0, 30), st.integers(0, 20))
def test_without_budget_a_count_is_a_lower_bound(intervals: list[Interval], budget: int, within_ms: int) -> None:
    intervals = sorted(intervals, key=lambda interval: interval[0])
    members = set(range(1, len(intervals)))
    lasts = [k for k in members if intervals[k][0] - intervals[0][1] <= within_ms]
    counts, complete = counted(intervals, members, lasts, within_ms, direct=True, budget=budget)
    for last, count, is_complete in zip(lasts, counts, complete, strict=True):
        exact = listed(intervals, members, last, within_ms, [0], True)
        assert count == exact if is_complete else count <= exact
        if exact:
            assert count > 0


def test_counts_stop_at_most() -> None:
    """63 events apart from each other: 2^63 selections; two that overlap a last event before that are told apart."""
    intervals = [(0, 0), *[(10 * k, 10 * k + 3) for k in range(1, 64)], (640, 640)]
    counts, complete = counted(intervals, set(range(1, 64)), [5, 64], 1000, direct=True, budget=NO_BUDGET)
    assert counts == [16, MOST]
    assert complete == [True, True]


def test_more_events_at_one_time_than_are_told_apart_give_a_lower_bound() -> None:
    n = MAX_SLOTS + 1
    intervals = [(0, 0), *[(10, 200)] * n, (300, 300)]
    counts, complete = counted(intervals, set(range(1, n + 1)), [n + 1], 1000, direct=True, budget=NO_BUDGET)
    assert counts == [n + 1]  # none, or one of them
    assert complete == [False]


def test_a_count_that_has_spent_its_budget_ends() -> None:
    """Each of 1,000 events overlaps twenty: going on to the last one without telling orders apart is work, too."""
    intervals = [(0, 0), *[(k, k + 10) for k in range(1, 1_001)]]
    members, lasts = set(range(1, 1_001)), [1, 500, 1_000]
    counts, complete, steps = counted_with_steps(intervals, members, lasts, 5_000, direct=True, budget=2_000)
    assert steps < 10_000
    assert complete == [False, False, False]
    assert counts[0] >= 1
