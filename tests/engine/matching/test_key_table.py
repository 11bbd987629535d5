"""Numbers of partition keys against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.matching.key_table import KeyTable

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


def test_many_keys() -> None:
    table = KeyTable(1)
    keys = np.arange(300_000, dtype=np.float64)[None, :] * 1024.0
    assert (table.numbers(keys) == np.arange(300_000)).all()
    assert (table.numbers(keys[:, ::-1]) == np.arange(300_000)[::-1]).all()


def test_without_a_key_there_is_one_partition() -> None:
    table = KeyTable(0)
    assert table.numbers(np.empty((0, 3))).tolist() == [0, 0, 0]
    assert table.all() == [()]
