"""Texts at some positions of a column, beside what Arrow's own `take` finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stream import values
from engine.stream.values import texts_at


@given(st.lists(st.text(max_size=4), min_size=1, max_size=6), st.integers(0, 2), st.data())
def test_texts_are_those_that_arrow_takes(texts: list[str], start: int, data: st.DataObject) -> None:
    column = pa.array(texts, pa.string())[min(start, len(texts) - 1) :]
    rows = np.array(data.draw(st.lists(st.integers(0, len(column) - 1), max_size=8)), np.int64)
    found = texts_at(column, rows)
    found.validate(full=True)
    assert found.equals(column.take(pa.array(rows)))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b"], pa.string()),
        pa.array(["a", "bc", ""], pa.large_string()),
        pa.array(["a", "x" * (values._MOST_BYTES + 1), ""], pa.string()),
    ],
)
def test_other_columns_are_left_to_arrow(column: pa.Array) -> None:
    assert texts_at(column, np.array([2, 1, 0])).equals(column.take(pa.array([2, 1, 0])))


def test_many_texts_are_left_to_arrow() -> None:
    column = pa.array([f"e{k}" for k in range(values._MOST_TEXTS + 1)])
    rows = np.arange(len(column))[::-1]
    assert texts_at(column, rows).to_pylist() == column.to_pylist()[::-1]
