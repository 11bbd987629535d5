"""What each host does now, against values computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import yaml

from app.settings import Settings
from collectors.jmx.host_metrics import READINGS as HOST_READINGS
from collectors.prometheus.readings import DEFAULT_METRICS, READINGS
from dashboard.cluster.configured import further_metrics
from dashboard.cluster.hottest import CPU, DISK, IN, LOAD, MAX_FURTHER, MEMORY, NEEDED, OUT, SWAP, hottest


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


def test_further_metrics_have_columns_of_their_own_and_order_what_is_equally_busy() -> None:
    given: dict[str, dict[str, list[float | None]]] = {
        "a": {"heap_used": [10.0, 30.0], "odd": [1.0]}, "b": {"heap_used": [70.0]}, "c": {"cpu_idle": [0.0]},
    }  # fmt: skip
    found = hottest([samples(given)], ["nobody's", "heap_used"])
    assert list(found.columns) == ["Host", CPU, "heap_used"]
    assert list(found["Host"]) == ["c", "b", "a"]
    assert list(found["heap_used"])[1:] == [70.0, 20.0]
    del given["c"]
    assert rows(hottest([samples(given)], ["heap_used"])) == [
        {"Host": "b", "heap_used": 70.0}, {"Host": "a", "heap_used": 20.0},
    ]  # fmt: skip
    many = {"a": {f"m{i}": [1.0] for i in range(9)}}
    assert list(hottest([samples(many)], sorted(many["a"])).columns) == ["Host", *(f"m{i}" for i in range(MAX_FURTHER))]


def test_what_exporters_and_daemons_tell_of_hosts_is_known() -> None:
    """They have the names of Ganglia; what a source measures by itself says how busy a host is."""
    usual = {name: [50.0] for name in DEFAULT_METRICS}
    assert {CPU, "Load", IN, OUT} <= set(hottest([samples({"a": usual})]).columns)
    every = {name: [50.0] for name in READINGS}
    assert {CPU, LOAD, MEMORY, SWAP, DISK, IN, OUT} <= set(hottest([samples({"a": every})]).columns)
    daemons: dict[str, list[float | None]] = {reading.name: [50.0] for reading in HOST_READINGS}
    assert {CPU, LOAD, MEMORY, SWAP} <= set(hottest([samples({"a": daemons})]).columns)
    found = hottest([samples({"a": {"cpu_busy": [30.0]}, "b": {"cpu_idle": [20.0], "cpu_busy": [1.0]}})])
    assert rows(found) == [{"Host": "b", CPU: 80.0}, {"Host": "a", CPU: 30.0}]


def test_the_metrics_that_settings_name_are_those_of_all_sources() -> None:
    text = """
sources:
  ganglia_rrd: {metrics: [cpu_user, pkts_in]}
  prometheus: {metrics: [cpu_wio, load_one], more_metrics: {heap_used: {metric: jvm_memory_bytes_used}}}
  remote_write: {more_metrics: {heap_used: {metric: jvm_memory_bytes_used}, fans: {metric: node_hwmon_fan_rpm}}}
load: {metric: cpu_steal}
"""
    found = further_metrics(Settings.model_validate(yaml.safe_load(text)))
    assert found[0] == "cpu_steal"
    assert sorted(found) == sorted({"cpu_steal", "pkts_in", "cpu_wio", "heap_used", "fans"})
    assert not set(found) & NEEDED
