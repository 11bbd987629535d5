"""Choices of which each rests on those before it, against their definitions in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.columns.selection import chosen_apart, order_of_sequences, unconsumed

numbers = st.lists(st.lists(st.integers(0, 5), max_size=5), max_size=40)


def flat(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.append(0, np.cumsum([len(each) for each in lists])).astype(np.int64)
    return np.array([n for each in lists for n in each], np.int64), offsets


@given(numbers)
def test_sequences_are_ordered_as_tuples_and_equal_ones_stay(lists: list[list[int]]) -> None:
    expected = sorted(range(len(lists)), key=lambda at: (lists[at], at))
    assert order_of_sequences(*flat(lists)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 9)), max_size=40))
def test_what_is_chosen_does_not_overlap(spans: list[tuple[int, int, int]]) -> None:
    spans = sorted(spans, key=lambda span: span[1] + span[2])
    owners, begins, lengths = np.array(spans, np.int64).reshape(-1, 3).T
    latest = np.full(4, -1, np.int64)
    found = chosen_apart(owners, begins, begins + lengths, latest)
    ends: dict[int, int] = {}
    for (owner, begin, length), is_chosen in zip(spans, found.tolist(), strict=True):
        assert is_chosen == (begin > ends.get(owner, -1))
        if is_chosen:
            ends[owner] = begin + length
    assert [ends.get(owner, -1) for owner in range(4)] == latest.tolist()


@given(numbers, st.integers(1, 4), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5))), st.integers(0, 2**40))
def test_what_is_consumed_is_bound_once(
    lists: list[list[int]], n_owners: int, before: set[tuple[int, int]], base: int
) -> None:
    events, offsets = flat(lists)
    events += base
    owners = np.arange(len(lists)) % n_owners
    known = np.array([(owner, event + base, 7) for owner, event in sorted(before)], np.int64).reshape(-1, 3)
    accepted, consumed = unconsumed(owners, np.arange(len(lists)), offsets, events, events * 10, known)
    expected = {(owner, event + base) for owner, event in before}
    for owner, own, is_accepted in zip(owners.tolist(), lists, accepted.tolist(), strict=True):
        bound = {(owner, event + base) for event in own}
        assert is_accepted == bound.isdisjoint(expected)
        expected |= bound if is_accepted else set()
    assert sorted(map(tuple, consumed[:, :2].tolist())) == sorted(expected)
    assert all(hi_ms in (7, 10 * event) for _, event, hi_ms in consumed.tolist())
