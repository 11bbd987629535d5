"""The report of rising load over the demo's recording: the hosts of its CPU-hungry processes, and no others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from app.replay.demo import DemoResult
from app.replay.recording import Fault, read_manifest
from app.store import open_store
from app.store.models import ReportRow

QUERY = "rising-load-host"


@pytest.fixture(scope="module")
def rows(demo: DemoResult) -> Iterator[list[ReportRow]]:
    with open_store(f"sqlite:///{demo.store_directory / 'clustercep.db'}") as store:
        yield store.reports(QUERY)


@pytest.fixture(scope="module")
def fault(demo: DemoResult) -> Fault:
    manifest = read_manifest(demo.store_directory.parent / "recording/recording/manifest.yaml")
    faults = [one for one in manifest.ground_truth if one.fault == "cpu_hungry_node"]
    assert len({(one.all_hosts, one.from_ms, one.to_ms) for one in faults}) == 1
    return faults[0]


def test_rising_load_is_reported_of_the_hosts_whose_processors_are_driven_up(
    rows: list[ReportRow], fault: Fault
) -> None:
    """By 90 points within 50 s; all other jobs raise and lower the load within seven samples."""
    assert {row.values["host"] for row in rows} == set(fault.all_hosts)
    for row in rows:
        assert row.start_ms < fault.from_ms < fault.to_ms < row.end_ms
        assert row.values["n_samples"] >= 8
        assert row.values["load_before"] < 5
        assert row.values["load_after"] > 90


def test_the_fault_s_suspect_has_the_longest_rise_of_each_window(rows: list[ReportRow], fault: Fault) -> None:
    windows: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for row in rows:
        windows[row.start_ms, row.end_ms][row.values["host"]] = row.values["n_samples"]
    assert windows
    for of_host in windows.values():
        assert max(of_host, key=of_host.__getitem__) == fault.host
