"""What each host does now, against values computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dashboard.cluster.hottest import CPU, DISK, IN, LOAD, MEMORY, OUT, SWAP, hottest


def samples(values: dict[str, dict[str, list[float | None]]]) -> pa.Table:
    """Metric events: values by host and metric."""
    rows = [
        {"host": host, "name": name, "value": value}
        for host, of in values.items()
        for name, found in of.items()
        for value in found
    ]
    schema = pa.schema([("host", pa.string()), ("name", pa.string()), ("value", pa.float64())])
    return pa.Table.from_pylist(rows, schema)


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dict("records")  # type: ignore[return-value]


GMOND: dict[str, dict[str, list[float | None]]] = {
    "node2": {
        "cpu_idle": [20.0, 40.0], "load_one": [8.0], "cpu_num": [4.0], "mem_total": [1000.0], "mem_free": [100.0],
        "mem_buffers": [50.0], "mem_cached": [250.0], "swap_total": [200.0], "swap_free": [150.0],
        "disk_total": [10.0], "disk_free": [2.5], "bytes_in": [1_024.0], "bytes_out": [2_048.0], "pkts_in": [7.0],
    },
    "node10": {
        "cpu_idle": [95.0], "load_one": [0.5], "cpu_num": [0.0], "mem_total": [0.0], "mem_free": [0.0],
        "bytes_in": [None, math.nan, math.inf, 10.0],
    },
}  # fmt: skip


def test_values_are_means_in_the_units_that_people_read() -> None:
    first, second = rows(hottest([samples({"node2": GMOND["node2"]}), samples({"node10": GMOND["node10"]})]))
    assert first == {
        "Host": "node2", CPU: 70.0, LOAD: 2.0, MEMORY: 60.0, SWAP: 25.0, DISK: 75.0, IN: 1_024.0, OUT: 2_048.0,
    }  # fmt: skip
    assert {name: value for name, value in second.items() if name == "Host" or not math.isnan(value)} == {
        "Host": "node10", CPU: 5.0, IN: 10.0,
    }  # fmt: skip


def test_what_is_not_measured_has_no_column() -> None:
    found = hottest([samples({"a": {"cpu_user": [30.0], "cpu_system": [12.0], "load_one": [3.0]}})])
    assert rows(found) == [{"Host": "a", CPU: 42.0, "Load": 3.0}]
    assert list(hottest([samples({"a": {"pkts_in": [1.0]}})]).columns) == ["Host"]
    assert list(hottest([]).columns) == ["Host"]


def test_the_fullest_file_system_counts() -> None:
    found = hottest([samples({"a": {"part_max_used": [91.0], "disk_total": [100.0], "disk_free": [50.0]}})])
    assert rows(found) == [{"Host": "a", DISK: 91.0}]


@pytest.mark.parametrize("turned", [False, True])
def test_the_busiest_is_first_and_equal_ones_stand_in_natural_order(turned: bool) -> None:
    idle: dict[str, list[float | None]] = {"node10": [50.0], "node2": [50.0], "node1": [99.0], "node3": [1.0]}
    given: dict[str, dict[str, list[float | None]]] = {host: {"cpu_idle": of} for host, of in idle.items()}
    given["node4"] = {"bytes_in": [1.0]}
    found = hottest([samples(dict(reversed(given.items())) if turned else given)])
    assert list(found["Host"]) == ["node3", "node2", "node10", "node1", "node4"]
