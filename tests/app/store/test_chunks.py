"""Long lists of values are put to the database in parts."""

from __future__ import annotations

from app.store.bulk import CHUNK, in_chunks


def test_each_value_is_in_one_part_and_none_is_too_long() -> None:
    values = list(range(2 * CHUNK + 1))
    chunks = [list(chunk) for chunk in in_chunks(values)]
    assert [len(chunk) for chunk in chunks] == [CHUNK, CHUNK, 1]
    assert [value for chunk in chunks for value in chunk] == values
    assert list(in_chunks([])) == []
