"""Cumulative curves and queued data against counting at every point."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.schema import load_event_types
from dashboard.jobs.curves import (
    begun_and_finished,
    cumulative,
    distribution,
    life_times,
    peak_of,
    queued_data,
    thinned,
    thinned_queue,
)
from engine.events import EventBatch

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=20)


@given(spans=SPANS, until_ms=st.integers(0, 60))
def test_cumulative_counts(spans: list[tuple[int, int]], until_ms: int) -> None:
    """At every point and between them: what is over for certain, what may have happened."""
    lo = np.array([begin for begin, _ in spans], np.float64)
    hi = np.array([begin + width for begin, width in spans], np.float64)
    curve = cumulative(lo, hi, until_ms)
    assert until_ms in curve["t_ms"].tolist()
    assert curve["t_ms"].is_monotonic_increasing
    for t_ms in range(61):
        row = int(curve["t_ms"].searchsorted(t_ms, side="right")) - 1
        low, high = (0, 0) if row < 0 else (curve.at[row, "n_low"], curve.at[row, "n_high"])
        assert low == sum(begin + width <= t_ms for begin, width in spans)
        assert high == sum(begin <= t_ms for begin, width in spans)


@given(values=st.lists(st.integers(0, 30), max_size=30))
def test_distribution(values: list[int]) -> None:
    """The share of values up to x, for every x; the last one is all of them."""
    found = distribution(np.array(values, np.float64))
    assert found.iloc[0].tolist() == [0.0, 0.0, 0.0]
    for x in range(31):
        row = int(found["life_ms"].searchsorted(x, side="right")) - 1
        assert found.at[row, "n"] == sum(value <= x for value in values)
    if values:
        assert found["share"].iloc[-1] == 1.0
        assert found["n"].iloc[-1] == len(values)


CHANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 8), st.integers(-50, 50)),
    max_size=20,
)


def changes_of(rows: list[tuple[int, int, int]]) -> pa.Table:
    events = [
        {"event_id": str(n), "type": "DataIO", "t_lo_ms": lo, "t_hi_ms": lo + width, "size_bytes": size}
        for n, (lo, width, size) in enumerate(rows)
    ]
    return EventBatch.from_rows(events, load_event_types()).table


@given(rows=CHANGES)
def test_queued_data_by_definition(rows: list[tuple[int, int, int]]) -> None:
    """Bounds at every millisecond; they bracket every order of events that the intervals allow."""
    curve = queued_data(changes_of(rows), 60)
    if not rows:
        assert len(curve) == 0
        return
    for t_ms in range(61):
        row = int(curve["t_ms"].searchsorted(t_ms, side="right")) - 1
        low, high = (0, 0) if row < 0 else (curve.at[row, "bytes_low"], curve.at[row, "bytes_high"])
        certain = sum(size for lo, width, size in rows if lo + width <= t_ms)
        undecided = [size for lo, width, size in rows if lo <= t_ms < lo + width]
        assert low == certain + sum(size for size in undecided if size < 0)
        assert high == certain + sum(size for size in undecided if size > 0)
    assert curve["bytes_low"].iloc[-1] == curve["bytes_high"].iloc[-1] == sum(size for *_, size in rows)


def test_queued_data_of_a_job() -> None:
    """Two maps finish, a reducer fetches both: by hand."""
    curve = queued_data(changes_of([(10, 0, 100), (20, 0, 50), (20, 0, -100), (35, 0, -50)]), 40)
    assert curve.to_numpy().tolist() == [[10, 100, 100, 1], [20, 50, 50, 3], [35, 0, 0, 4], [40, 0, 0, 4]]
    assert peak_of(curve) == (10.0, 100.0)
    assert peak_of(curve.iloc[:0]) is None


def test_thinning_keeps_peaks_and_ends() -> None:
    """Fewer points, the same extremes."""
    rng = np.random.default_rng(7)
    rows = [(int(t), 0, int(size)) for t, size in enumerate(rng.integers(-1_000, 1_000, 5_000))]
    curve = queued_data(changes_of(rows), 5_000)
    thin = thinned_queue(curve, at_most=300)
    assert len(thin) <= 301
    assert peak_of(thin) == peak_of(curve)
    assert thin["bytes_low"].min() == curve["bytes_low"].min()
    assert thin.iloc[[0, -1]].to_numpy().tolist() == curve.iloc[[0, -1]].to_numpy().tolist()
    assert thinned_queue(curve, at_most=len(curve)).equals(curve)


@given(n=st.integers(0, 50), at_most=st.integers(2, 20))
def test_thinned_rows(n: int, at_most: int) -> None:
    rows = thinned(n, at_most).tolist()
    assert rows == sorted(set(rows))
    assert len(rows) <= max(at_most, 0) or n <= at_most
    if n:
        assert (rows[0], rows[-1]) == (0, n - 1)


def attempts_of(rows: list[tuple[str, str, float, float]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["kind", "status", "start_lo_ms", "end_lo_ms"])
    return frame.assign(
        start_hi_ms=frame["start_lo_ms"],
        end_hi_ms=frame["end_lo_ms"],
        duration_ms=frame["end_lo_ms"] - frame["start_lo_ms"],
    )


def test_begun_finished_and_life_times() -> None:
    """A running attempt has begun; a failed one has finished, but its life time is no one's measure."""
    table = attempts_of(
        [
            ("MAP", "SUCCEEDED", 0, 10),
            ("MAP", "SUCCEEDED", 5, 35),
            ("MAP", "FAILED", 5, 6),
            ("MAP", "RUNNING", 20, 50),
            ("REDUCE", "RUNNING", 30, 50),
        ]
    )
    curves = begun_and_finished(table, 50)
    last = curves.groupby(["kind", "what"]).last()["n_low"].to_dict()
    assert last == {("MAP", "begun"): 4, ("MAP", "finished"): 3, ("REDUCE", "begun"): 1}
    lives = life_times(table)
    assert lives[["kind", "life_ms", "n", "share"]].to_numpy().tolist() == [
        ["MAP", 0.0, 0, 0.0],
        ["MAP", 10.0, 1, 0.5],
        ["MAP", 30.0, 2, 1.0],
    ]
    assert len(begun_and_finished(table.iloc[:0], 5)) == 0
    assert len(life_times(table.iloc[:0])) == 0


@pytest.mark.parametrize("n", [0, 1])
def test_little_data(n: int) -> None:
    assert len(distribution(np.zeros(n))) == n + 1
