"""Memory is used again exactly when nobody refers to it."""

from __future__ import annotations

import threading

import numpy as np

from engine.events import Int64Array
from engine.stream.buffers import ArrayPool, own_pool


def begin_of(array: Int64Array) -> int:
    return int(array.__array_interface__["data"][0])


def test_what_nobody_has_is_used_again() -> None:
    pool = ArrayPool()
    first = begin_of(pool.integers(20_000))
    assert begin_of(pool.integers(3, 5_000)) == first
    assert begin_of(pool.doubles(20_000)) == first
    assert len(pool) == 1


def test_what_somebody_has_is_not() -> None:
    pool = ArrayPool()
    held = [pool.doubles(2, 10_000)]
    held[0][:] = 1.0
    for view in (held[0], held[0][1], held[0][1][5:].view(np.int64)):
        held[:] = [view]  # a part holds all of it
        pool.integers(20_000)[:] = 7
        assert np.array_equal(held[0].view(np.float64), np.ones(view.shape))
    assert len(pool) == 2


def test_memory_that_is_much_too_large_is_not_held_by_a_few_numbers() -> None:
    pool = ArrayPool()
    pool.integers(1_000_000)
    assert pool.integers(100).base.size < 100_000


def test_memory_of_other_sizes_is_given_up() -> None:
    pool = ArrayPool()
    held = [pool.integers(n) for n in range(1, 100)]
    assert len(pool) < len(held)


def test_each_thread_has_its_own() -> None:
    found: list[ArrayPool] = []
    other = threading.Thread(target=lambda: found.append(own_pool()))
    other.start()
    other.join()
    assert own_pool() is own_pool()
    assert found[0] is not own_pool()
