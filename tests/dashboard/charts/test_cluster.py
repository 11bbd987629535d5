"""Charts of the cluster: what they send to a browser."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dashboard.charts.axes import TimeAxis
from dashboard.charts.cluster import (
    SELECTION,
    alert_chart,
    heat_chart,
    host_chart,
    load_chart,
    row_labels,
    value_domain,
)
from dashboard.charts.drawn import specification
from dashboard.cluster.bins import TimeBins
from dashboard.cluster.data import HeatMap
from engine.events import Float64Array

T0_MS = 1_700_000_000_000
AXIS = TimeAxis(T0_MS, T0_MS + 60_000, "UTC")
HOSTILE = "<script>alert(1)</script>\n\u202e" + "x" * 10_000
NO_MARKS = pd.DataFrame(columns=["type", "host", "t_from_ms", "t_to_ms", "reason"])


def specified(chart: alt.Chart | alt.LayerChart | dict[str, Any]) -> dict[str, Any]:
    """What a browser is sent, after Altair has checked it against the schema of Vega-Lite."""
    spec = chart if isinstance(chart, dict) else specification(chart)
    plain = {**spec, "datasets": {name: frame.to_dict("records") for name, frame in spec["datasets"].items()}}
    alt.LayerChart.from_dict(plain, validate=True)
    return spec


def rows_of(chart: alt.Chart | alt.LayerChart | dict[str, Any]) -> list[dict[str, Any]]:
    return [row for frame in specified(chart)["datasets"].values() for row in frame.to_dict("records")]


def found(value: Float64Array, *rows: tuple[str, ...]) -> HeatMap:
    bins = TimeBins(T0_MS, 15_000, value.shape[1])
    coverage = np.where(np.isnan(value), 0.0, 1.0)
    return HeatMap(bins, rows, value, coverage, sum(len(row) for row in rows), "mean", 15_000)


def test_missing_cells_are_not_cells_of_zero() -> None:
    """Values, zeros among them, in one layer; what is missing in another, with a colour and a legend of its own."""
    spec = heat_chart(
        found(np.array([[0.0, np.nan], [5.0, 6.0]]), ("a",), ("b",)), "cpu", "%", NO_MARKS, AXIS
    ).to_dict()
    by_layer = [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]]
    assert [[(row["host"], row.get("value")) for row in rows] for rows in by_layer] == [
        [("a", 0.0), ("b", 5.0), ("b", 6.0)],
        [("a", None)],
    ]
    colours = [layer["encoding"]["color"] for layer in spec["layer"]]
    assert colours[0]["scale"]["domain"] == [0.0, 100.0]
    assert colours[1]["scale"]["domain"] == ["no sample"]
    assert spec["resolve"]["scale"]["color"] == "independent"


def test_a_click_tells_the_row_by_number() -> None:
    """Names do not travel back."""
    spec = heat_chart(found(np.array([[1.0]]), (HOSTILE,)), "cpu", "", NO_MARKS, AXIS).to_dict()
    [selection] = [param for param in spec["params"] if param["name"] == SELECTION]
    assert selection["select"]["fields"] == ["place"]


def test_rows_of_groups() -> None:
    assert row_labels((("a", "b", "c"), ("d",))) == ["a +2", "d"]
    same = row_labels((("x" * 50 + "1",), ("x" * 50 + "2",)))
    assert len(set(same)) == 2


def test_colours_cover_the_values() -> None:
    assert value_domain(found(np.array([[3.0, np.nan]]), ("a",)), "%") == [0.0, 100.0]
    assert value_domain(found(np.array([[300.0]]), ("a",)), "%") == [0.0, 300.0]
    assert value_domain(found(np.array([[3.0, -1.0]]), ("a",)), "") == [-1.0, 3.0]
    assert value_domain(found(np.array([[0.0]]), ("a",)), "") == [0.0, 1.0]
    assert value_domain(found(np.array([[np.nan]]), ("a",)), "") == [0.0, 1.0]


def test_marks_stand_on_the_row_of_their_host() -> None:
    """Also in a group; a host without a row has none."""
    marks = pd.DataFrame(
        {
            "type": ["NodeLost", "ContainerKilled"],
            "host": ["b", "elsewhere"],
            "t_from_ms": [T0_MS] * 2,
            "t_to_ms": [T0_MS] * 2,
            "reason": [HOSTILE] * 2,
        }
    )
    rows = rows_of(heat_chart(found(np.array([[1.0]]), ("a", "b")), "cpu", "", marks, AXIS))
    assert [(row["host"], row["on"]) for row in rows if "reason" in row] == [("a +1", "b")]


def load(**changes: Any) -> pd.DataFrame:
    row = {
        "metric": "cpu_user",
        "cluster": "c",
        "t_from_ms": T0_MS + 1,
        "t_to_ms": T0_MS + 15_000,
        "mean": 2.0,
        "low": 2.0,
        "high": 2.0,
        "n_steps": 1,
        "n_missing": 0,
    }
    return pd.DataFrame([{**row, **changes}])


BANDS = pd.DataFrame(
    {
        "metric": ["cpu_user"],
        "cluster": ["c"],
        "t_from_ms": [T0_MS],
        "t_to_ms": [T0_MS + 15_000],
        "n_steps": [1],
        "busy_ratio": [0.5],
    }
)


def test_load_names_clusters_when_there_are_several() -> None:
    two = pd.concat([load(), load(cluster="d")], ignore_index=True)
    assert {row["series"] for row in rows_of(load_chart(two, BANDS.iloc[:0], AXIS))} == {"cpu_user (c)", "cpu_user (d)"}
    assert {row["series"] for row in rows_of(load_chart(load(), BANDS, AXIS))} == {"cpu_user"}


def test_episodes_lie_behind_the_line() -> None:
    assert "Standard deviation (%)" in json.dumps(load_chart(load(), BANDS, AXIS, "%").to_dict())
    spec = load_chart(load(), BANDS, AXIS).to_dict()
    assert spec["layer"][0]["mark"]["type"] == "rect"
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["imbalance"]


def test_hostile_texts() -> None:
    alerts = pd.DataFrame(
        {
            "query": [HOSTILE],
            "severity": ["warning"],
            "state": ["firing"],
            "summary": [HOSTILE],
            "t_from_ms": [T0_MS],
            "t_to_ms": [T0_MS],
        }
    )
    heat = found(np.array([[1.0, np.nan]]), (HOSTILE,))
    for chart in (
        alert_chart(alerts, AXIS),
        heat_chart(heat, HOSTILE, HOSTILE, NO_MARKS, AXIS),
        host_chart(load(), HOSTILE, HOSTILE, AXIS),
        load_chart(load(metric=HOSTILE), BANDS, AXIS),
    ):
        spec = {name: part for name, part in specified(chart).items() if name != "datasets"}
        text = json.dumps([spec, rows_of(chart)], ensure_ascii=False)
        assert "script" in text
        assert "\u202e" not in text
        assert "x" * 130 not in text


def test_charts_of_a_host_have_titles_scales_and_data_of_their_own() -> None:
    """They share all else, and a name may look like what stands in for it."""
    names = ("cpu", '"<domain>"', "<title>", "<domain>")
    for step, name in enumerate(names, 1):
        series = load(mean=float(step), low=0.5, high=2.0 * step)
        spec = specified(host_chart(series, name, "%", AXIS))
        assert spec["title"]["text"] == f"{name} (%)"
        tips = [tip for layer in spec["layer"] for tip in layer["encoding"].get("tooltip", ())]
        assert f"{name} (%)" in [tip["title"] for tip in tips]
        scales = [layer["encoding"]["y"].get("scale") for layer in spec["layer"]]
        assert scales == [None, *[{"domain": [0.0, 2.0 * step]}] * 2]
        assert spec["datasets"][spec["data"]["name"]]["mean"].tolist() == series["mean"].tolist()


def test_a_long_title_has_two_lines() -> None:
    series = pd.DataFrame({"t_from_ms": [T0_MS], "t_to_ms": [T0_MS + 1], "mean": [1.0], "low": [1.0], "high": [1.0]})
    spec = specified(host_chart(series.assign(n_steps=1), "pkts_out", "packets/sec", AXIS))
    assert spec["title"]["text"] == ["pkts_out", "(packets/sec)"]


@pytest.mark.parametrize(
    ("high", "title", "shown"),
    [(3.0, "disk (B/s)", 3.0), (1023.0, "disk (B/s)", 1023.0), (1024.0, "disk (KiB/s)", 1.0),
     (5.0 * 2**30, "disk (GiB/s)", 5.0), (2.0**70, "disk (EiB/s)", 1024.0)],
)  # fmt: skip
def test_bytes_have_a_unit_that_can_be_read(high: float, title: str, shown: float) -> None:
    spec = specified(host_chart(load(mean=high / 2, low=0.0, high=high), "disk", "bytes/sec", AXIS))
    data = spec["datasets"][spec["data"]["name"]]
    assert spec["title"]["text"] == title
    assert (data["high"].max(), data["mean"].max(), data["low"].max()) == (shown, shown / 2, 0.0)
    assert specified(host_chart(load(high=high), "disk", "bytes", AXIS))["title"]["text"] == title.replace("/s", "")


def test_nothing_stands_outside_of_the_axis() -> None:
    """An alert that began before the span has a bar that is cut off, and no sign of a beginning; an event of a node
    that may have been before it stands at its edge."""
    began = [T0_MS - 60_000, T0_MS + 10_000, T0_MS - 5_000]
    alerts = pd.DataFrame(
        {"query": list("abc"), "severity": "warning", "state": "firing", "summary": "", "t_from_ms": began}
    ).assign(t_to_ms=T0_MS + 90_000)
    spec = specified(alert_chart(alerts, AXIS))
    bars, starts = spec["layer"]
    assert (bars["mark"]["type"], bars["mark"]["clip"]) == ("bar", True)
    assert spec["datasets"][bars["data"]["name"]]["t_from_ms"].tolist() == began
    assert spec["datasets"][starts["data"]["name"]]["query"].tolist() == ["b"]

    marks = pd.DataFrame({"type": "NodeLost", "host": "a", "t_from_ms": began, "t_to_ms": T0_MS + 20_000, "reason": ""})
    spec = specified(heat_chart(found(np.array([[1.0]]), ("a",)), "cpu", "%", marks, AXIS))
    drawn = spec["datasets"][spec["layer"][-1]["data"]["name"]]
    assert drawn["at_ms"].tolist() == [T0_MS, T0_MS + 10_000, T0_MS]
    assert drawn["t_from_ms"].tolist() == began
    assert spec["layer"][-1]["encoding"]["x"]["field"] == "at_ms"


def test_a_constant_metric_has_a_scale() -> None:
    """All zero: from 0 to 1, not a point."""
    spec = specified(host_chart(load(mean=0.0, low=0.0, high=0.0), "load_one", "", AXIS))
    assert spec["layer"][0]["encoding"]["y"]["scale"]["domain"] == [0.0, 1.0]


def test_bytes_of_a_full_heat_map() -> None:
    """In Arrow, as Streamlit sends it: 20,000 cells stay below a megabyte."""
    value = np.random.default_rng(1).random((200, 100))
    chart = heat_chart(found(value, *((f"node{n:04}.example.org",) for n in range(200))), "cpu", "%", NO_MARKS, AXIS)
    table = pa.Table.from_pandas(chart.data, preserve_index=False)
    assert table.num_rows == 20_000
    assert table.nbytes < 800_000


def test_empty_charts() -> None:
    heat_chart(found(np.zeros((0, 0))), "cpu", "", NO_MARKS, AXIS).to_dict()
    load_chart(load().iloc[:0], BANDS.iloc[:0], AXIS).to_dict()
    specified(host_chart(load().iloc[:0], "cpu", "", AXIS))
    alert_chart(pd.DataFrame(columns=["query", "severity", "state", "summary", "t_from_ms", "t_to_ms"]), AXIS).to_dict()
