"""Columns of a batch as they are decoded."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import EventError
from engine.events import MAX_EXACT_INT, AttributeType, EventBatch, EventSchema
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

_KINDS = {"x": AttributeType.INT, "y": AttributeType.INT}


def _columns(**values: list[int]) -> StreamColumns:
    n = len(values["x"])
    given = {"event_id": [f"e{k}" for k in range(n)], "type": ["A"] * n, "t_lo_ms": list(range(n)), **values}
    return StreamColumns(EventBatch.from_columns(given, EventSchema.of({"A": _KINDS})), Interner())


def test_a_column_that_is_refused_is_refused_again() -> None:
    stream = _columns(x=[1, MAX_EXACT_INT + 2], y=[1, 2])
    for _ in range(2):  # what is half decoded is not taken for a column
        with pytest.raises(EventError, match="attribute x"):
            stream.column("x", AttributeType.INT)
        with pytest.raises(EventError, match="attribute x"):
            stream.stacked(("y", "x"), _KINDS)
    assert stream.column("y", AttributeType.INT).tolist() == [1.0, 2.0]


def test_columns_that_stand_together_are_those_alone() -> None:
    stream = _columns(x=[1, 2, 3], y=[4, 5, 6])
    alone = stream.column("y", AttributeType.INT)
    together = stream.stacked(("x", "y"), _KINDS)
    assert np.array_equal(together, [[1, 2, 3], [4, 5, 6]])
    assert np.array_equal(together[1], alone)
    assert stream.stacked(("x", "y"), _KINDS) is together


@pytest.mark.parametrize("n", [3, 2, 5])
def test_one_type_has_the_code_0(n: int) -> None:
    names, codes = _columns(x=list(range(n))).types_by_row
    assert names == ("A",)
    assert codes.tolist() == [0] * n
