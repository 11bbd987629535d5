"""Heat maps, LoadStd and imbalance episodes against sums by hand and by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.schema import load_event_types
from dashboard.cluster import data as cluster_data
from dashboard.cluster.bins import TimeBins, bins_over
from dashboard.cluster.data import (
    HostGrid,
    episodes,
    heat_map,
    load_steps,
    metric_series,
    natural_key,
    node_marks,
    step_of,
)
from engine.events import EventBatch

T0_MS = 1_700_000_010_000
"""A multiple of the step."""
STEP_MS = 15_000


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Events with made-up ids."""
    numbered = [{"event_id": str(n), **row} for n, row in enumerate(rows)]
    return EventBatch.from_rows(numbered, load_event_types()).table


def sample(host: str | None, step: int, value: float | None, **other: Any) -> dict[str, Any]:
    """A sample of the step that ends at T0 + (step + 1) * STEP."""
    lo_ms = T0_MS + step * STEP_MS
    times = {"t_lo_ms": lo_ms + 1, "t_hi_ms": lo_ms + STEP_MS}
    return {"type": "Metric", "name": "cpu_user", "host": host, "value": value, **times, **other}


def grid_of(rows: list[dict[str, Any]], bins: TimeBins) -> HostGrid:
    grid = HostGrid(bins)
    grid.add(table_of(rows), bins.start_ms + 1, bins.end_ms)
    return grid


VALUES = st.one_of(st.none(), st.just(float("nan")), st.integers(-5, 100).map(float))
SAMPLES = st.lists(
    st.tuples(st.sampled_from(["node1", "node2", "node10", None]), st.integers(0, 40), st.integers(0, 12), VALUES),
    max_size=25,
)


@given(samples=SAMPLES, bins=st.builds(TimeBins, st.integers(0, 10), st.integers(1, 8), st.integers(1, 7)))
def test_totals_are_preserved(samples: list[tuple[str | None, int, int, float | None]], bins: TimeBins) -> None:
    """The cells' sums over all columns are the samples' values times their milliseconds inside, host by host."""
    rows = [
        {"type": "Metric", "name": "m", "host": host, "value": value, "t_lo_ms": lo, "t_hi_ms": lo + width}
        for host, lo, width, value in samples
    ]
    if not rows:
        return
    if all(value is None for *_, value in samples):
        rows[0]["value"] = 1.0  # else the table has no such column
    if all(host is None for host, *_ in samples):
        rows[0]["host"] = "node1"
    grid = grid_of(rows, bins)
    for place, host in enumerate(grid.hosts):
        mine = [
            (t_ms, row["value"])
            for row in rows
            if row["host"] == host and row["value"] is not None and np.isfinite(row["value"])
            for t_ms in range(row["t_lo_ms"], row["t_hi_ms"] + 1)
            if bins.start_ms < t_ms <= bins.end_ms
        ]
        assert grid.total[place].sum() == pytest.approx(sum(value for _, value in mine))
        assert grid.weight_ms[place].sum() == len(mine)
        for column in range(bins.n):
            inside = [value for t_ms, value in mine if (t_ms - bins.start_ms - 1) // bins.width_ms == column]
            assert grid.peak[place, column] == max(inside, default=-np.inf)


@given(samples=SAMPLES, cut=st.integers(1, 59))
def test_slices_add_up(samples: list[tuple[str | None, int, int, float | None]], cut: int) -> None:
    """Read in two slices, with what touches the cut in both, the grid is the same."""
    bins = TimeBins(0, 6, 10)
    rows = [
        {"type": "Metric", "name": "m", "host": host, "value": value, "t_lo_ms": lo, "t_hi_ms": lo + width}
        for host, lo, width, value in [("node1", 1, 3, 2.0), *samples]
    ]
    whole = grid_of(rows, bins)
    sliced = HostGrid(bins)
    sliced.know(whole.hosts)
    for from_ms, to_ms in ((1, cut), (cut + 1, 60)):
        touching = [row for row in rows if row["t_lo_ms"] <= to_ms and row["t_hi_ms"] >= from_ms]
        if any(row["host"] is not None for row in touching) and any(row["value"] is not None for row in touching):
            sliced.add(table_of(touching), from_ms, to_ms)
    assert sliced.hosts == whole.hosts
    for name in ("total", "weight_ms", "peak"):
        np.testing.assert_allclose(getattr(sliced, name), getattr(whole, name))


def test_missing_is_not_zero() -> None:
    """A host's step without a sample has no value; one with the value 0 has."""
    bins = bins_over(T0_MS + 1, T0_MS + 3 * STEP_MS, STEP_MS, 240)
    rows = [sample("node1", n, 0.0) for n in range(3)] + [sample("node2", 0, 4.0), sample("node2", 2, None)]
    found = heat_map(grid_of(rows, bins), STEP_MS, "mean", "name", bins.end_ms)
    assert found.rows == (("node1",), ("node2",))
    assert found.n_hosts == 2
    assert found.value.tolist()[0] == [0.0, 0.0, 0.0]
    assert np.isnan(found.value[1]).tolist() == [False, True, True]
    assert found.coverage.tolist() == [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]


def test_mean_and_max_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four hosts in two rows: the mean of what is there, or the greatest; coverage tells what is missing."""
    monkeypatch.setattr(cluster_data, "MAX_ROWS", 2)
    monkeypatch.setattr(cluster_data, "MAX_CELLS", 2)
    bins = TimeBins(T0_MS, STEP_MS, 2)
    rows = [sample("node1", 0, 1.0), sample("node1", 1, 3.0), sample("node2", 0, 8.0)]
    rows += [sample("node10", 0, 50.0), sample("node9", 1, 30.0)]
    mean, peak = (heat_map(grid_of(rows, bins), STEP_MS, how, "name", bins.end_ms) for how in ("mean", "max"))
    assert mean.rows == (("node1", "node2"), ("node9", "node10"))
    assert mean.hosts_per_row == 2
    assert (mean.bins.n, mean.bins.width_ms) == (1, 2 * STEP_MS)
    assert mean.value.tolist() == [[4.0], [40.0]]
    assert peak.value.tolist() == [[8.0], [50.0]]
    assert mean.coverage.tolist() == [[0.75], [0.5]]


def test_at_most_so_many_cells() -> None:
    """A thousand hosts for an hour of 15 s steps; nothing of the total is lost."""
    bins = cluster_data.heat_map_bins(T0_MS + 1, T0_MS + 3_600_000, STEP_MS)
    n_hosts, n_steps = 1_000, 240
    host, step = (array.ravel() for array in np.meshgrid(np.arange(n_hosts), np.arange(n_steps)))
    samples = pa.table(
        {
            "host": [f"node{n:04}" for n in host.tolist()],
            "t_lo_ms": T0_MS + step * STEP_MS + 1,
            "t_hi_ms": T0_MS + (step + 1) * STEP_MS,
            "value": (host % 7).astype(np.float64),
        }
    )
    grid = HostGrid(bins)
    grid.add(samples, bins.start_ms + 1, bins.end_ms)
    found = heat_map(grid, STEP_MS, "mean", "name", bins.end_ms)
    assert len(found.rows) <= cluster_data.MAX_ROWS
    assert found.value.size <= cluster_data.MAX_CELLS
    full_ms = np.array([[len(row) * found.bins.width_ms] for row in found.rows])
    assert np.nansum(found.value * found.coverage * full_ms) == pytest.approx(float((host % 7).sum()) * STEP_MS)
    assert sum(len(row) for row in found.rows) == n_hosts


def test_highest_first_and_what_cannot_be_known_yet() -> None:
    bins = TimeBins(T0_MS, STEP_MS, 4)
    rows = [sample("node1", 0, 1.0), sample("node2", 0, 9.0), sample("node3", 1, 5.0)]
    grid = grid_of(rows, bins)
    grid.know(["silent"])
    found = heat_map(grid, STEP_MS, "mean", "highest first", T0_MS + 3 * STEP_MS - 1)
    assert found.rows == (("node2",), ("node3",), ("node1",), ("silent",))
    assert found.bins.n == 2  # the third column is not over
    assert heat_map(grid, STEP_MS, "mean", "name", T0_MS + 3 * STEP_MS).bins.n == 3
    assert heat_map(grid, STEP_MS, "mean", "name", T0_MS).bins.n == 2  # what has samples is known
    assert np.isnan(found.value[3]).all()


def test_empty_grid() -> None:
    found = heat_map(HostGrid(TimeBins(0, 10, 5)), 10, "max", "highest first", 50)
    assert (found.rows, found.value.shape, found.n_hosts, found.hosts_per_row) == ((), (0, 5), 0, 1)


def test_step_of() -> None:
    assert step_of(table_of([sample("a", 0, 1.0), sample("a", 1, 1.0)])) == STEP_MS
    precise = [{"type": "Metric", "host": "a", "value": 1.0, "t_lo_ms": T0_MS + n * 20_000} for n in range(4)]
    assert step_of(table_of(precise)) == 20_000
    assert step_of(table_of(precise[:1])) == cluster_data.DEFAULT_STEP_MS
    assert step_of(EventBatch.empty().table) == cluster_data.DEFAULT_STEP_MS
    asked = [{**sample(host, 0, 1.0), "t_lo_ms": t, "t_hi_ms": t + 4} for t in (0, 30_000, 60_000) for host in "ab"]
    asked[1] |= {"t_lo_ms": 9, "t_hi_ms": 12}  # each host is asked at a moment of its own
    assert step_of(table_of(asked)) == 30_000


def test_natural_order() -> None:
    names = ["node10", "node2", "rack1-node3", "node2b", "10.0.0.9", "10.0.0.10", "", "node" + "9" * 30]
    assert sorted(names, key=natural_key)[:3] == ["", "10.0.0.9", "10.0.0.10"]
    assert sorted(["node10", "node2"], key=natural_key) == ["node2", "node10"]


def balance(step: int, event_type: str, series: str = "load:c", **other: Any) -> dict[str, Any]:
    return {**sample(None, step, None), "type": event_type, "clock_id": series, "busy_ratio": 0.5, **other}


def test_episodes_end_with_balance_and_with_gaps() -> None:
    """Steps 0-1, 3, then (after 3 missing steps it still goes on, after 4 not) 7 and 12; another cluster by itself."""
    rows = [balance(n, "Imbalance") for n in (0, 1, 3, 7, 12)] + [balance(2, "Balance")]
    rows += [balance(1, "Imbalance", "load:other", busy_ratio=0.25)]
    found = episodes(table_of(rows[::-1]))
    spans = [
        ((lo - T0_MS) // STEP_MS, (hi - T0_MS) // STEP_MS)
        for lo, hi in zip(found.t_from_ms, found.t_to_ms, strict=True)
    ]
    assert spans == [(0, 2), (3, 8), (12, 13), (1, 2)]
    assert found.n_steps.tolist() == [2, 2, 1, 1]
    assert found.busy_ratio.tolist() == [0.5, 0.5, 0.5, 0.25]
    assert found.cluster.tolist() == ["c", "c", "c", "other"]


@given(kinds=st.lists(st.sampled_from(["Balance", "Imbalance"]), max_size=40), pause=st.integers(0, 4))
def test_episodes_go_on_after_a_pause(kinds: list[str], pause: int) -> None:
    """Against walking along the steps."""
    rows = [balance(n, kind, busy_ratio=n / 40) for n, kind in enumerate(kinds)]
    expected: list[list[int]] = []
    for n, kind in enumerate(kinds):
        if kind == "Imbalance":
            goes_on = bool(expected) and n - expected[-1][-1] - 1 <= pause
            expected[-1].append(n) if goes_on else expected.append([n])
    found = episodes(table_of(rows), pause)
    assert found.n_steps.tolist() == [len(run) for run in expected]
    assert ((found.t_from_ms - T0_MS) // STEP_MS).tolist() == [run[0] for run in expected]
    assert ((found.t_to_ms - T0_MS) // STEP_MS - 1).tolist() == [run[-1] for run in expected]
    assert found.busy_ratio.tolist() == pytest.approx([sum(run) / len(run) / 40 for run in expected])


@given(kinds=st.lists(st.sampled_from(["Balance", "Imbalance", None]), max_size=40))
def test_every_imbalance_is_in_one_episode(kinds: list[str | None]) -> None:
    """Against walking along the steps."""
    rows = [balance(n, kind) for n, kind in enumerate(kinds) if kind]
    expected: list[list[int]] = []
    previous: tuple[int, str] | None = None
    for n, kind in enumerate(kinds):
        if kind is None:
            continue
        goes_on = previous is not None and previous[1] == "Imbalance"
        goes_on = goes_on and n - previous[0] - 1 <= cluster_data.EPISODE_GAP_STEPS  # type: ignore[index]
        if kind == "Imbalance":
            expected[-1].append(n) if goes_on else expected.append([n])
        previous = (n, kind)
    found = episodes(table_of(rows))
    assert found.n_steps.tolist() == [len(run) for run in expected]
    assert ((found.t_from_ms - T0_MS) // STEP_MS).tolist() == [run[0] for run in expected]
    assert ((found.t_to_ms - T0_MS) // STEP_MS - 1).tolist() == [run[-1] for run in expected]


def std(step: int, value: float, series: str = "load:c") -> dict[str, Any]:
    return {**sample(None, step, None), "type": "LoadStd", "clock_id": series, "val": value, "n_missing": step % 3}


def test_load_by_cluster_and_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [std(n, float(n)) for n in range(9)] + [std(0, 100.0, "load:other")]
    bins = TimeBins(T0_MS, 3 * STEP_MS, 3)
    whole = load_steps(table_of(rows), bins)
    assert len(whole) == 10
    assert (whole["low"] == whole["high"]).all()
    monkeypatch.setattr(cluster_data, "MAX_LOAD_STEPS", 5)
    thin = load_steps(table_of(rows), bins)
    mine = thin[thin["cluster"] == "c"]
    assert mine[["mean", "low", "high", "n_steps", "n_missing"]].to_numpy().tolist() == [
        [1.0, 0.0, 2.0, 3, 2],
        [4.0, 3.0, 5.0, 3, 2],
        [7.0, 6.0, 8.0, 3, 2],
    ]
    assert mine.t_from_ms.tolist() == [T0_MS + n * 3 * STEP_MS + 1 for n in range(3)]


def test_marks_keep_the_gravest() -> None:
    killed = [{"type": "ContainerKilled", "host": "a", "t_lo_ms": T0_MS + n, "reason": "r"} for n in range(5)]
    lost = [{"type": "NodeLost", "host": "b", "t_lo_ms": T0_MS - 9, "reason": "gone"}]
    kept, n_more = node_marks(table_of(killed + lost), at_most=3)
    assert n_more == 3
    assert kept[["type", "t_from_ms"]].to_numpy().tolist() == [
        ["NodeLost", T0_MS - 9],
        ["ContainerKilled", T0_MS + 3],
        ["ContainerKilled", T0_MS + 4],
    ]


def test_series_of_one_host() -> None:
    rows = [sample("a", n, float(n), unit="%") for n in range(4)]
    rows += [sample("a", n, 7.0, name="load_one") for n in range(2)] + [sample("a", 5, None)]
    found = metric_series(table_of(rows), TimeBins(T0_MS, 2 * STEP_MS, 2), at_most=3)
    assert found[found["name"] == "cpu_user"]["mean"].tolist() == [0.5, 2.5]
    assert found[found["name"] == "cpu_user"]["unit"].unique().tolist() == ["%"]
    assert found[found["name"] == "load_one"]["mean"].tolist() == [7.0, 7.0]
    assert found[found["name"] == "load_one"]["unit"].unique().tolist() == [""]


def test_nothing_of_anything() -> None:
    nothing = EventBatch.empty().table
    bins = TimeBins(0, 1, 1)
    assert [
        len(frame) for frame in (load_steps(nothing, bins), episodes(nothing), metric_series(nothing, bins, 1))
    ] == [
        0,
        0,
        0,
    ]
    kept, n_more = node_marks(nothing, 5)
    assert (len(kept), n_more) == (0, 0)
