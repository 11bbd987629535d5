"""How much one transaction takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.store.writing.batch_size import HOLD_S, BatchSize


def test_what_takes_long_is_cut_to_what_is_done_in_time() -> None:
    batch = BatchSize(250, 16)
    batch.took(250, 5 * HOLD_S)
    assert batch.now == 50
    batch.took(50, 10 * HOLD_S)
    assert batch.now == 16


def test_what_is_quick_grows_back() -> None:
    batch = BatchSize(250, 16)
    batch.took(250, 10 * HOLD_S)
    sizes = []
    for _ in range(5):
        batch.took(batch.now, HOLD_S / 4)
        sizes.append(batch.now)
    assert sizes == [50, 100, 200, 250, 250]


def test_a_few_quick_ones_say_nothing_of_many() -> None:
    batch = BatchSize(250, 16)
    batch.took(250, 10 * HOLD_S)
    batch.took(3, 0.0)
    assert batch.now == 25


def test_one_slow_item_cuts_to_the_least_and_never_to_nothing() -> None:
    batch = BatchSize(64, 8)
    batch.took(1, 100.0)
    assert batch.now == 8
    small = BatchSize(1, 8)
    small.took(1, 100.0)
    assert small.now == 1


@given(st.integers(1, 1_000), st.integers(1, 100), st.lists(st.tuples(st.integers(0, 2_000), st.floats(0, 100))))
def test_it_stays_within_its_bounds(most: int, least: int, taken: list[tuple[int, float]]) -> None:
    batch = BatchSize(most, least)
    for n_done, seconds in taken:
        batch.took(n_done, seconds)
        assert min(least, most) <= batch.now <= most


def test_where_a_transaction_takes_as_long_as_it_does_much_the_store_is_held_for_as_long_as_is_meant() -> None:
    """Of items that take 5 ms each, from any size that there was."""
    batch = BatchSize(1_000, 1)
    held_s = []
    for _ in range(20):
        seconds = batch.now * 0.005
        held_s.append(seconds)
        batch.took(batch.now, seconds)
    assert max(held_s[1:]) <= HOLD_S
    assert min(held_s[1:]) >= HOLD_S / 2
