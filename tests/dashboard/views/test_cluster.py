"""The page of the cluster."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.cluster import data as cluster_data
from dashboard.cluster.bins import TimeBins
from dashboard.cluster.data import HeatMap
from dashboard.views.cluster import clicked_host
from tests.dashboard.job_fixtures import STEP_MS, T0_MS, alert_row, batch, cluster_rows, job_rows
from tests.dashboard.query_fixtures import HOSTILE, Installation, installation, rerun, tables, texts, view

__all__ = ["installation"]  # a fixture


def charts(page: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in page.get("vega_lite_chart")]


def rows_of_heat_map(chart: dict[str, Any]) -> list[str]:
    """The labels of its rows."""
    domain: list[str] = chart["layer"][0]["encoding"]["y"]["scale"]["domain"]
    return domain


def test_the_whole_page(installation: Installation) -> None:
    """Alerts, heat map with a missing cell and a lost node, load with its episode, all over one span."""
    installation.log(batch(cluster_rows() + job_rows()))
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row("a1", summary=HOSTILE, query=HOSTILE))
        writer.alerts.add(alert_row("a2", start_ms=1, end_ms=2))
    page = view("cluster")
    said = texts(page)
    assert "3 hosts, one row per host" in said
    assert "0 episodes of imbalance of at least 1 min (orange bands), 1 shorter" in said
    alerts, heat, load = charts(page)
    domains = {json.dumps(chart["layer"][0]["encoding"]["x"]["scale"]["domain"]) for chart in (alerts, heat, load)}
    assert len(domains) == 1
    assert len(heat["layer"]) == 3  # values, missing ones, events of nodes
    assert (rows_of_heat_map(heat)[0], rows_of_heat_map(heat)[2]) == ("node1", "node0"), "by their means"
    assert "\u202e" not in json.dumps([alerts, heat, load], ensure_ascii=False)


def test_bars_of_alerts_are_the_time_in_which_their_condition_holds(installation: Installation) -> None:
    installation.log(batch(cluster_rows()))
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row("a1", state="resolved"))
        writer.alerts.add(alert_row("a2"))
    chart = view("cluster").get("vega_lite_chart")[0].proto
    until_ms = json.loads(chart.spec)["layer"][0]["encoding"]["x"]["scale"]["domain"][1]
    rows = pa.ipc.open_stream(chart.datasets[0].data.data).read_all().to_pylist()
    times = {row["state"]: (row["t_from_ms"], row["t_to_ms"]) for row in rows}
    assert times == {"resolved": (T0_MS + 15_000, T0_MS + 20_000), "firing": (T0_MS + 15_000, until_ms)}


def test_the_span_and_the_metric_come_from_the_address(installation: Installation) -> None:
    installation.log(batch(cluster_rows()))
    span = {"from": str(T0_MS + 1), "to": str(T0_MS + 2 * STEP_MS)}
    page = view("cluster", metric="cpu_user", **span)
    assert "6 cells of 15 s, each is one sample" in texts(page)
    [heat, _] = charts(page)
    assert heat["layer"][0]["encoding"]["x"]["scale"]["domain"] == [T0_MS + 1, T0_MS + 2 * STEP_MS]


def test_a_hostile_metric(installation: Installation) -> None:
    """Chosen like any other; LoadStd says that it is of something else."""
    installation.log(batch(cluster_rows()))
    page = view("cluster")
    page.selectbox(key="metric").set_value(HOSTILE)
    said = texts(rerun(page))
    assert "It is derived from cpu\\_user alone" in said
    assert "<script>" not in said.replace("\\<script\\>", "")
    assert len(said) < 6_000


def test_hosts_are_filtered(installation: Installation) -> None:
    installation.log(batch(cluster_rows()))
    assert rows_of_heat_map(charts(view("cluster", hosts="NODE"))[0]) == ["node1", "node0"]
    assert rows_of_heat_map(charts(view("cluster", hosts="NODE", order="name"))[0]) == ["node0", "node1"]
    page = view("cluster", hosts="nowhere")
    assert "No host has a sample" in texts(page)


def test_the_hottest_hosts_of_the_end_of_the_span(installation: Installation) -> None:
    late_ms = T0_MS + 8 * STEP_MS
    rows = [
        {"type": "Metric", "host": host, "name": "cpu_idle", "value": idle, "unit": "%", "t_lo_ms": at_ms}
        for at_ms, of in (
            (late_ms - 301_000, {"node7": 0.0}),
            (late_ms, {"node0": 70.0, "node1": 5.0, HOSTILE: 90.0}),
        )
        for host, idle in of.items()
    ]
    installation.log(batch(cluster_rows() + rows))
    page = view("cluster", to=str(late_ms))
    assert "the busiest host first" in texts(page)
    (table,) = tables(page)
    assert table["CPU busy"] == ["95 %", "30 %", "10 %"]
    assert table["Host"][:2] == ["node1", "node0"]
    assert "\u202e" not in table["Host"][2]
    assert tables(view("cluster", hosts="node1"))[0]["Host"] == ["node1"]


def test_a_host_without_a_metric_has_nothing_in_its_column(installation: Installation) -> None:
    rows = [
        {"type": "Metric", "host": host, "name": name, "value": value, "unit": unit, "t_lo_ms": T0_MS + STEP_MS}
        for host, name, value, unit in (
            ("node0", "cpu_idle", 70.0, "%"),
            ("node0", "bytes_in", 0.0, "bytes/sec"),
            ("node1", "cpu_idle", 90.0, "%"),
        )
    ]
    installation.log(batch(rows))
    (table,) = tables(view("cluster"))
    assert table["Host"] == ["node0", "node1"]
    assert table["Network in"] == ["0 B/s", ""]


def test_a_metric_of_the_settings_stands_among_them_in_its_unit(installation: Installation) -> None:
    more = "{heap_used: {metric: jvm_memory_bytes_used, unit: MB}, disk_share: {metric: node_disk, unit: '%'}}"
    installation.configure(f"sources:\n  prometheus: {{more_metrics: {more}}}")
    rows = [
        {"type": "Metric", "host": host, "name": name, "value": value, "unit": unit, "t_lo_ms": T0_MS + STEP_MS}
        for host, name, value, unit in (
            ("node0", "heap_used", 1_700.0, "MB"),
            ("node1", "heap_used", 2_000.0, "MB"),
            ("node1", "disk_share", 40.0, "%"),
        )
    ]  # fmt: skip
    installation.log(batch(rows))
    (table,) = tables(view("cluster"))
    assert table == {"Host": ["node1", "node0"], "heap_used": ["2,000 MB", "1,700 MB"], "disk_share": ["40 %", ""]}


def test_one_host(installation: Installation) -> None:
    """Its metrics and what ran there; a host that is not there is ignored."""
    installation.log(batch(cluster_rows() + job_rows()))
    page = view("cluster", host="node0")
    assert len(charts(page)) == 2 + 2 + 1
    assert "3 attempts ran there in this span" in texts(page)
    assert len(charts(view("cluster", host="elsewhere"))) == 2


@pytest.mark.parametrize(
    ("points", "host"),
    [([{"place": 1}], "b"), ([{"place": 0.0}], "a"), ([], None), ([{"place": 2}], None), ([{"place": "1"}, {}], None)],
)
def test_a_click_chooses_the_first_host_of_the_row(points: list[dict[str, Any]], host: str | None) -> None:
    """What a browser sends is a row's number at best."""
    value = np.ones((2, 1))
    found = HeatMap(TimeBins(0, 1, 1), (("a",), ("b", "c")), value, value, 3, "mean", 1)
    assert clicked_host(points, found) == host


def test_what_is_taken_together_is_told(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and columns, and how."""
    monkeypatch.setattr(cluster_data, "MAX_ROWS", 2)
    monkeypatch.setattr(cluster_data, "MAX_CELLS", 4)
    installation.log(batch(cluster_rows()))
    page = view("cluster")
    assert "up to 2 hosts, neighbours in their order, share a row" in texts(page)
    assert "each shows the mean, weighted by time, of its samples" in texts(page)
    page.segmented_control(key="show").set_value("max")
    assert "each shows the greatest value of its samples" in texts(rerun(page))


def test_nothing_to_show(installation: Installation) -> None:
    """Without a log, without samples, and in a span without any."""
    told = view("cluster").info[0].value
    assert "No event is known" in told
    assert "above" not in told  # nothing to choose a span with is there
    installation.log(batch(job_rows()))
    assert "There is no sample between" in view("cluster").info[0].value


def test_a_span_without_samples(installation: Installation) -> None:
    installation.log(batch(cluster_rows()))
    page = view("cluster", **{"from": "1", "to": "2"})
    assert "There is no sample between" in page.info[0].value
