"""Ids of kept events: the same ones whether they come in few parts or many, looked up at once or when asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stream.event_ids import IdColumn

BATCHES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6)


def filled(batches: list[tuple[int, bool]], n_events: int) -> tuple[IdColumn, list[str]]:
    """Batches of so many events; those that are marked have more than are kept, which are looked up later."""
    column, expected = IdColumn(), list[str]()
    for number, (n, is_chosen) in enumerate(batches):
        ids = [f"{number}.{at}" for at in range(n)]
        if is_chosen:
            column.append_chosen(pa.array(["left out", *ids], pa.string()), np.arange(1, n + 1), n_events)
        else:
            column.append(pa.array(ids, pa.string()))
        expected += ids
    return column, expected


@pytest.mark.parametrize("times", [1, 12])
@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("n_events", [4, 1000])
@given(batches=BATCHES, marks=st.lists(st.booleans(), min_size=24, max_size=24))
def test_ids_of_kept_rows_are_theirs(
    times: int, is_held: bool, n_events: int, batches: list[tuple[int, bool]], marks: list[bool]
) -> None:
    column, expected = filled(batches * times, n_events)
    copy = column.as_it_is() if is_held else None
    rows = np.flatnonzero((marks * times)[: len(expected)])
    kept = column.keep(rows)
    kept.append(pa.array(["later"]))
    assert kept.array().to_pylist() == [*(expected[row] for row in rows), "later"]
    assert kept.of(np.array([len(rows)])) == ("later",)
    assert copy is None or copy.array().to_pylist() == expected


@pytest.mark.parametrize("n_events", [4, 1000])
@given(batches=BATCHES, first=st.integers(0, 24), end=st.integers(0, 24))
def test_ids_of_rows_that_stand_together(n_events: int, batches: list[tuple[int, bool]], first: int, end: int) -> None:
    column, expected = filled(batches, n_events)
    first, end = sorted(min(at, len(expected)) for at in (first, end))
    assert column.between(first, end).to_pylist() == expected[first:end]


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("n_events", [4, 1000])
def test_a_batch_is_held_for_a_good_part_of_it_alone(is_held: bool, n_events: int) -> None:
    """Rows that were returned may be kept for long: few ids are looked up, of which the batch is not held."""
    column, ids = IdColumn(), pa.array([str(n) for n in range(1000)])
    column.append_chosen(ids, np.arange(3), n_events)
    copy = column.as_it_is() if is_held else None
    kept = column.keep(np.array([1]))
    assert kept.array().to_pylist() == ["1"]
    assert [len(chosen._of_batch[0]) for chosen in column._chunks] == [3 if is_held and n_events == 1000 else 1000]
    assert copy is None or copy.array().to_pylist() == ["0", "1", "2"]
