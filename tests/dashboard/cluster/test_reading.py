"""Samples, load and marks read from an event log, whole and in slices."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.event_log import EventLogReader
from dashboard.cluster import reading as cluster_reading
from dashboard.cluster.reading import _slices, metric_names, read_grid, read_host, read_load, read_node_marks
from tests.dashboard.jobs.test_reading import log_of

T0_MS = 1_700_000_010_000
STEP_MS = 15_000
N_STEPS = 40


def metric(host: str, step: int, value: float, name: str = "cpu_user", **other: Any) -> dict[str, Any]:
    lo_ms = T0_MS + step * STEP_MS
    return {
        "type": "Metric",
        "name": name,
        "host": host,
        "value": value,
        "unit": "%",
        "t_lo_ms": lo_ms + 1,
        "t_hi_ms": lo_ms + STEP_MS,
        **other,
    }


def derived(event_type: str, step: int, **other: Any) -> dict[str, Any]:
    lo_ms = T0_MS + step * STEP_MS
    times = {"t_lo_ms": lo_ms + 1, "t_hi_ms": lo_ms + STEP_MS}
    return {"type": event_type, "name": "cpu_user", "clock_id": "load:c", **times, **other}


@pytest.fixture
def log(tmp_path: Path) -> EventLogReader:
    """Three hosts; one of them has another metric only."""
    steps = [
        [metric("node1", n, float(n)) for n in range(N_STEPS)],
        [metric("node2", n, 100.0 - n) for n in range(0, N_STEPS, 2)],
        [metric("Node3", n, 1.0, "load_one", unit=None) for n in range(5)],
        [derived("LoadStd", n, val=float(n), n_hosts=2, n_missing=0) for n in range(N_STEPS)],
        [derived("Imbalance" if n in (3, 4) else "Balance", n, busy_ratio=0.5) for n in range(N_STEPS)],
        [
            {"type": "NodeLost", "host": "node2", "t_lo_ms": T0_MS + 1_000, "reason": "gone"},
            {"type": "NodeLost", "host": "node9", "t_lo_ms": T0_MS + N_STEPS * STEP_MS + 1, "reason": "later"},
        ],
    ]
    return log_of(tmp_path, *steps)


EVER = (0, 253_370_764_800_000)
"""What an address may ask for."""

SPAN = (T0_MS + 1, T0_MS + N_STEPS * STEP_MS)


def test_a_slice_is_small_wherever_in_the_span_the_samples_lie(
    log: EventLogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_reading, "SLICE_EVENTS", 10)
    slices = list(_slices(log, ("host",), *EVER))
    assert slices[0][1] == EVER[0]
    assert slices[-1][2] == EVER[1]
    assert all(begin_ms == before[2] + 1 for before, (_, begin_ms, _) in pairwise(slices))
    assert max(samples.num_rows for samples, _, _ in slices) <= 3 * (60_000 // STEP_MS + 2)
    assert sum(samples.num_rows for samples, _, _ in slices) >= N_STEPS
    assert len(slices) < 100


def test_slices_make_no_difference(log: EventLogReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few samples are in memory at a time, wherever a slice cuts a sample."""
    whole, step_ms = read_grid(log, "cpu_user", *SPAN, "")
    one_host = read_host(log, "node1", *SPAN)
    assert (step_ms, whole.hosts) == (STEP_MS, ["node1", "node2", "Node3"])
    assert whole.total.sum() == pytest.approx(
        (sum(range(N_STEPS)) + sum(100 - n for n in range(0, N_STEPS, 2))) * STEP_MS
    )
    monkeypatch.setattr(cluster_reading, "SLICE_EVENTS", 10)
    monkeypatch.setattr(cluster_reading, "LEAST_SLICE_MS", 40_000)
    assert any(end_ms % STEP_MS for _, _, end_ms in _slices(log, ("host",), *SPAN))  # samples are cut
    sliced, _ = read_grid(log, "cpu_user", *SPAN, "")
    assert set(sliced.hosts) == set(whole.hosts)
    for host in whole.hosts:
        mine, other = sliced.hosts.index(host), whole.hosts.index(host)
        np.testing.assert_allclose(sliced.total[mine], whole.total[other])
        np.testing.assert_allclose(sliced.weight_ms[mine], whole.weight_ms[other])
        np.testing.assert_allclose(sliced.peak[mine], whole.peak[other])
    assert read_host(log, "node1", *SPAN).equals(one_host)
    assert len(one_host) == N_STEPS


def test_hosts_are_found_in_any_case(log: EventLogReader) -> None:
    grid, _ = read_grid(log, "cpu_user", *SPAN, "NODE3")
    assert grid.hosts == []  # it never had a sample of this metric, and nothing else is asked for
    grid, _ = read_grid(log, "load_one", *SPAN, "node3")
    assert grid.hosts == ["Node3"]
    grid, _ = read_grid(log, "cpu_user", *SPAN, ".*")
    assert grid.hosts == []


def test_names_and_units(log: EventLogReader) -> None:
    """Of the span's end, where a metric is that has samples at all; of the whole span when there is none."""
    assert metric_names(log, *SPAN).units == {"cpu_user": "%"}
    early = metric_names(log, SPAN[0], T0_MS + 5 * STEP_MS)
    assert (early.units, early.n_hosts) == ({"cpu_user": "%", "load_one": ""}, 3)
    late = metric_names(log, SPAN[0], SPAN[1] + 10 * cluster_reading.PROBE_MS)
    assert late.units == {"cpu_user": "%", "load_one": ""}
    assert metric_names(log, 0, 1).units == {}


def test_load_of_its_metric_or_of_whatever_there_is(log: EventLogReader) -> None:
    for name in ("cpu_user", "load_one"):
        load = read_load(log, name, *SPAN)
        assert load.metrics == ("cpu_user",)
        assert load.steps["mean"].tolist() == [float(n) for n in range(N_STEPS)]
        assert load.episodes["n_steps"].tolist() == [2]
    assert len(read_load(log, "cpu_user", 0, 1).steps) == 0


def test_marks_of_the_span(log: EventLogReader) -> None:
    marks, n_more = read_node_marks(log, *SPAN, "")
    assert (marks["host"].tolist(), n_more) == (["node2"], 0)
    assert len(read_node_marks(log, *SPAN, "node1")[0]) == 0


def test_no_log(tmp_path: Path) -> None:
    nothing = EventLogReader(tmp_path / "absent", dict)
    grid, _ = read_grid(nothing, "cpu_user", 1, 2, "")
    assert grid.hosts == []
    assert metric_names(nothing, 1, 2).units == {}
    assert len(read_host(nothing, "a", 1, 2)) == 0
    assert len(read_load(nothing, "a", 1, 2).steps) == 0
    assert len(read_node_marks(nothing, 1, 2, "")[0]) == 0
