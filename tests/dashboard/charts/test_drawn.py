"""Charts as they are put on a page."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts.drawn import specification

DASHBOARD = Path(__file__).parents[3] / "dashboard"
N_THREADS = 8


def chart_of(*frames: pd.DataFrame) -> alt.LayerChart:
    return alt.layer(*(alt.Chart(frame).mark_point().encode(x="x:Q") for frame in frames))


def frames_of(spec: dict[str, Any]) -> list[pd.DataFrame]:
    """By layer."""
    shared = spec.get("data")
    return [spec["datasets"][layer.get("data", shared)["name"]] for layer in spec["layer"]]


def test_a_specification_is_what_altair_makes_of_the_chart() -> None:
    one, other = pd.DataFrame({"x": [1.0, 2.0]}), pd.DataFrame({"x": [3.0]})
    spec = specification(chart_of(one, other, one))
    for frame, expected in zip(frames_of(spec), (one, other, one), strict=True):
        pd.testing.assert_frame_equal(frame, expected)
    assert len(spec["datasets"]) == 2
    with alt.theme.enable("none"), alt.data_transformers.enable(consolidate_datasets=False):
        expected_spec = chart_of(one, other, one).to_dict()
    values = {name: {"values": frame.to_dict("records")} for name, frame in spec.pop("datasets").items()}
    for layer in spec["layer"]:
        layer["data"] = values[layer["data"]["name"]]
    assert spec == expected_spec


def test_viewers_at_the_same_time_get_their_own_data() -> None:
    """What Altair makes of data is set for all threads of a process."""
    begin = Barrier(N_THREADS)

    def many(viewer: int) -> list[tuple[int, list[float]]]:
        begin.wait()
        seen = []
        for turn in range(20):
            number = float(viewer * 100 + turn)
            [frame] = frames_of(specification(chart_of(pd.DataFrame({"x": [number]}))))
            seen.append((int(number), frame["x"].tolist()))
        return seen

    with ThreadPoolExecutor(N_THREADS) as threads:
        for seen in threads.map(many, range(N_THREADS)):
            assert [[float(number)] for number, _ in seen] == [values for _, values in seen]


def test_charts_are_drawn_in_one_way() -> None:
    """Streamlit's own would set Altair to something else meanwhile."""
    users = [path.name for path in DASHBOARD.rglob("*.py") if ".altair_chart(" in path.read_text()]
    assert users == []
