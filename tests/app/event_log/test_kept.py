"""What is remembered of row groups: the same tables, never more than asked for, and not what could not be read."""

from __future__ import annotations

import pyarrow as pa

from app.event_log.kept import KeptTables


def table(n_rows: int) -> pa.Table:
    return pa.table({"a": pa.array(range(n_rows), pa.int64())})


def test_a_table_is_made_once() -> None:
    kept, made = KeptTables(1 << 20), list[int]()

    def make() -> pa.Table:
        made.append(1)
        return table(3)

    assert kept.table("a", make) is kept.table("a", make)
    assert made == [1]


def test_those_asked_for_last_stay() -> None:
    kept = KeptTables(100_000)
    first, second = kept.table("first", lambda: table(500)), kept.table("second", lambda: table(500))
    for number in range(20):
        kept.table(number, lambda: table(500))  # eleven fit
        assert kept.table("first", lambda: table(1)) is first
    again = kept.table("second", lambda: table(1))
    assert again is not second
    assert again == table(1)


def test_what_would_take_the_place_of_many_is_not_kept() -> None:
    kept = KeptTables(100_000)
    small = kept.table("small", lambda: table(10))
    assert kept.table("large", lambda: table(3_200)) == table(3_200)
    assert kept.table("large", lambda: table(7)) == table(7)
    assert kept.table("small", lambda: table(1)) is small


def test_what_could_not_be_read_is_tried_again() -> None:
    kept = KeptTables(1 << 20)
    assert kept.table("a", lambda: None) is None
    assert kept.table("a", lambda: table(2)) == table(2)


def test_nothing_is_kept_by_default() -> None:
    kept = KeptTables(0)
    assert kept.table("a", lambda: table(0)) == table(0)
    assert kept.table("a", lambda: table(1)) == table(1)
