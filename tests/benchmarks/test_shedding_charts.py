"""Charts of the shedding tables: which there are, what a line has at which place."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.plots import line_chart
from benchmarks.shedding.charts import draw

SVG = "{http://www.w3.org/2000/svg}"


def _row(**given: Any) -> dict[str, Any]:
    row = {
        "dataset": "stock", "shape": "sequence of ten, 600", "query": "PATTERN A a WITHIN 600", "rate": 1.2,
        "match_probability": 0.3, "strategy": "pspice", "pane": None, "cost_factor": 1.0, "fn": 0.2, "fp": 0.0,
        "dropped": 0.3, "overhead": 0.01, "build_s": 0.05, "bound_ms": 1_000.0, "latency_max_ms": 900.0,
    }  # fmt: skip
    return row | given


def _circles(path: Path) -> list[tuple[float, float]]:
    root = ET.fromstring(path.read_text())
    return [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.iter(f"{SVG}circle")]


def _texts(path: Path) -> set[str | None]:
    return {one.text for one in ET.fromstring(path.read_text()).iter(f"{SVG}text")}


def test_shares_are_linear_from_zero(tmp_path: Path) -> None:
    path = tmp_path / "shares.svg"
    line_chart(path, "t", "x", "y", {"a": [(120.0, 0.0), (160.0, 40.0), (200.0, 80.0), (180.0, None)]}, shares=True)
    (low_x, low_y), (half_x, half_y), (high_x, high_y) = _circles(path)
    assert (half_x, half_y) == pytest.approx(((low_x + high_x) / 2, (low_y + high_y) / 2), abs=0.1)
    assert low_y > high_y, "0 is below"
    assert {"0", "80", "120", "200"} <= _texts(path)


def test_rates_make_a_chart_of_means_over_seeds(tmp_path: Path) -> None:
    rows = [
        _row(rate=rate, seed=seed, strategy=strategy, fn=lost + (0.05 if seed == 1 else -0.05))
        for strategy, losses in {"pspice": (0.2, 0.4), "pm-bl": (0.4, 0.8)}.items()
        for rate, lost in zip((1.2, 2.0), losses, strict=True)
        for seed in (1, 2)
    ]
    paths = {path.name: path for path in draw(rows, tmp_path)}
    assert {name.rpartition("-")[2] for name in paths if "-rate-" in name} == {
        "lost.svg", "false.svg", "dropped.svg", "latency.svg",
    }  # fmt: skip
    lost = paths["shedding-rate-stock-sequence_of_ten_600-lost.svg"]
    assert {"pspice", "pm-bl", "120", "200"} <= _texts(lost)
    at_120, at_200, random_120, random_200 = _circles(lost)
    assert at_120[0] == random_120[0] < at_200[0] == random_200[0]
    assert at_200[1] == random_120[1], "40 % on average, both"
    assert random_200[1] < at_200[1] < at_120[1]


def test_each_axis_takes_the_rows_that_differ_on_it(tmp_path: Path) -> None:
    rows = [
        _row(shape="sequence of ten, 500", query="PATTERN A a WITHIN 500", match_probability=0.2),
        _row(match_probability=0.3),
        _row(cost_factor=8.0),
        _row(dataset="D1", shape="by pane", query="PATTERN A a WITHIN 250 seconds", pane=0),
        _row(dataset="D1", shape="by pane", query="PATTERN A a WITHIN 250 seconds", pane=10),
        _row(dataset="D5", shape="by pane", query="PATTERN A a WITHIN 250 seconds", pane=10),
    ]
    names = {path.name for path in draw(rows, tmp_path)}
    assert names == {
        "shedding-match_probability-stock-sequence_of_ten_n-120-lost.svg",
        "shedding-match_probability-stock-sequence_of_ten_n-120-false.svg",
        "shedding-cost_factor-stock-sequence_of_ten_600-120-lost.svg",
        "shedding-window-stock-sequence_of_ten_n-120-overhead.svg",
        "shedding-window-stock-sequence_of_ten_n-120-model.svg",
        "shedding-pane-D1-by_pane-120-lost.svg",
        "shedding-pane-D1-by_pane-120-false.svg",
        "shedding-dataset-by_pane-120-lost.svg",
        "shedding-dataset-by_pane-120-dropped.svg",
    }


def test_what_has_no_figure_has_no_chart(tmp_path: Path) -> None:
    rows = [_row(rate=rate, dropped=None) for rate in (1.2, 2.0)]
    assert not any(path.name.endswith("dropped.svg") for path in draw(rows, tmp_path))
