"""Numbers of partition keys against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.stream.key_table import KeyTable

KEYS = st.tuples(st.integers(-3, 3), st.sampled_from([0.0, -0.0, 0.5, 2.0**52, 1e300]))


@given(st.lists(st.lists(KEYS, max_size=40), max_size=5), st.integers(0, 2**10))
def test_keys_are_numbered_in_order_of_arrival(batches: list[list[tuple[int, float]]], seed: int) -> None:
    table, known = KeyTable(2), dict[tuple[float, float], int]()
    for batch in batches:
        for key in batch:
            known.setdefault((float(key[0]), key[1]), len(known))
        found = table.numbers(np.array(batch, np.float64).reshape(-1, 2).T)
        assert found.tolist() == [known[float(a), b] for a, b in batch]
    assert table.all() == list(known)
    kept = np.flatnonzero(np.random.default_rng(seed).random(len(table)) < 0.5)
    keys = [table.key(int(number)) for number in kept]
    table.keep(kept)
    assert table.all() == keys
    assert KeyTable(2, keys).all() == keys


COLUMNS = st.one_of(
    st.lists(st.integers(-40, 40).map(float), max_size=60),
    st.lists(st.integers(-(10**9), 10**9).map(float), max_size=20),
    st.lists(st.sampled_from([-0.0, 0.0, 0.5, 1.0, 2.0**53, -1e300]), max_size=20),
    st.integers(-(10**7), 10**7).map(lambda start: [float(start + 3 * k) for k in range(50)]),
)


@given(st.lists(st.tuples(COLUMNS, st.sampled_from(["add", "find", "keep"])), max_size=8))
def test_keys_of_one_column_are_found_by_value_or_by_hash(steps: list[tuple[list[float], str]]) -> None:
    table, known = KeyTable(1), dict[float, int]()
    for values, action in steps:
        column = np.array(values, np.float64).reshape(1, -1)
        if action == "find":
            found = table.numbers_where(column, np.zeros(len(values), np.bool_), -7)
            assert found.tolist() == [known.get(value, -7) for value in values]
        elif action == "add":
            with_gaps = np.append(column, [[np.nan]], axis=1)
            expected = [known.setdefault(value, len(known)) for value in values]
            assert table.numbers_or_none(with_gaps).tolist() == [*expected, -1]
            assert table.numbers(column).tolist() == expected
        else:
            kept = np.arange(0, len(table), 2)
            table.keep(kept)
            known = {value: number for number, value in enumerate(list(known)[::2])}
        assert table.all() == [(value,) for value in known]
        assert not np.signbit(table.values()[table.values() == 0.0]).any()  # -0.0 is 0.0


def test_keys_that_grow_dense_are_found_by_value_from_then_on() -> None:
    table = KeyTable(1)
    spread = np.arange(100, dtype=np.float64)[None, :] * 1_000.0
    for part in (spread[:, :1], spread):
        assert (table.numbers(part) == np.arange(part.shape[1])).all()
    every = np.arange(100_000, dtype=np.float64)[None, :]
    assert (table.numbers(every)[::1_000] == np.arange(100)).all()
    assert (table.numbers_where(every[:, ::1_000], np.zeros(100, np.bool_), -7) == np.arange(100)).all()


def test_many_keys() -> None:
    table = KeyTable(1)
    keys = np.arange(300_000, dtype=np.float64)[None, :] * 1024.0
    assert (table.numbers(keys) == np.arange(300_000)).all()
    assert (table.numbers(keys[:, ::-1]) == np.arange(300_000)[::-1]).all()


def test_without_a_key_there_is_one_partition() -> None:
    table = KeyTable(0)
    assert table.numbers(np.empty((0, 3))).tolist() == [0, 0, 0]
    assert table.all() == [()]
