"""Memory is used again exactly when nobody refers to it."""

from __future__ import annotations

import threading

import numpy as np

from engine.events import AttributeType, EventBatch, EventSchema, Int64Array
from engine.stream.buffers import ArrayPool, own_pool
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner


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


def test_columns_of_a_batch_stay_as_they_are_for_as_long_as_it_is_there() -> None:
    interner, kinds = Interner(), {"x": AttributeType.INT}
    schema = EventSchema.of({"A": kinds})
    held: list[StreamColumns] = []
    for number in range(4):
        batch = EventBatch.from_columns(
            {"event_id": list("abc"), "type": ["A"] * 3, "t_lo_ms": [1, 2, 3], "x": [number, number + 1, number + 2]},
            schema,
        )
        held.append(StreamColumns(batch, interner))
        held[-1].stacked(("x",), kinds)
        if number == 1:
            del held[0]  # the next batch may have its memory
    assert [stream.column("x", AttributeType.INT).tolist() for stream in held] == [[n, n + 1, n + 2] for n in (1, 2, 3)]
