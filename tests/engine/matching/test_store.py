"""Ids of kept events: the same ones whether they come in few parts or many, looked up at once or when asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.matching.store import IdColumn

BATCHES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6)


def filled(batches: list[tuple[int, bool]]) -> tuple[IdColumn, list[str]]:
    """Batches of so many events; those that are marked have more than are kept, which are looked up later."""
    column, expected = IdColumn(), list[str]()
    for number, (n, is_chosen) in enumerate(batches):
        ids = [f"{number}.{at}" for at in range(n)]
        if is_chosen:
            column.append_chosen(pa.array(["left out", *ids], pa.string()), np.arange(1, n + 1))
        else:
            column.append(pa.array(ids, pa.string()))
        expected += ids
    return column, expected


@pytest.mark.parametrize("times", [1, 12])
@pytest.mark.parametrize("is_held", [False, True])
@given(batches=BATCHES, marks=st.lists(st.booleans(), min_size=24, max_size=24))
def test_ids_of_kept_rows_are_theirs(
    times: int, is_held: bool, batches: list[tuple[int, bool]], marks: list[bool]
) -> None:
    column, expected = filled(batches * times)
    copy = column.as_it_is() if is_held else None
    rows = np.flatnonzero((marks * times)[: len(expected)])
    kept = column.keep(rows)
    kept.append(pa.array(["later"]))
    assert kept.array().to_pylist() == [*(expected[row] for row in rows), "later"]
    assert kept.of(np.array([len(rows)])) == ("later",)
    assert copy is None or copy.array().to_pylist() == expected
