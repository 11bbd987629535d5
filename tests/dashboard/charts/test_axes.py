"""The shared time axis and labels of hostile names."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts.axes import LABEL_CHARS, TimeAxis, bytes_axis, distinct_labels, layered

T0_MS = 1_700_000_000_000.0


@given(
    span_ms=st.one_of(st.integers(1, 5_000), st.integers(1, 90 * 86_400_000)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"]),
)
def test_ticks_lie_on_the_axis(span_ms: int, zone: str) -> None:
    """Few of them, in order, as far from each other everywhere."""
    axis = TimeAxis(T0_MS, T0_MS + span_ms, zone)
    ticks = axis.ticks_ms()
    assert len(ticks) <= 10
    assert all(T0_MS <= tick <= T0_MS + span_ms for tick in ticks)
    assert len({after - before for before, after in pairwise(ticks)}) <= 1
    assert len(ticks) >= 2 or span_ms < 10


@pytest.mark.parametrize(("zone", "hours"), [("Asia/Kolkata", 12), ("Europe/Berlin", 12), ("UTC", 48)])
def test_ticks_are_round_in_the_zone(zone: str, hours: int) -> None:
    """Whole hours (or midnight) there, whatever the zone's distance from UTC."""
    for tick in TimeAxis(T0_MS, T0_MS + hours * 3_600_000, zone).ticks_ms():
        assert datetime.fromtimestamp(tick / 1000, ZoneInfo(zone)).minute == 0


def test_seconds_since_an_event() -> None:
    """The same data, counted from there."""
    frame = pd.DataFrame({"t_ms": [T0_MS, T0_MS + 2_500]})
    clock = TimeAxis(T0_MS, T0_MS + 10_000, "UTC")
    since = TimeAxis(T0_MS, T0_MS + 10_000, "UTC", T0_MS + 500, "the job's start")
    assert clock.data(frame, ["t_ms"])["t_ms"].tolist() == [T0_MS, T0_MS + 2_500]
    assert since.data(frame, ["t_ms"])["t_ms"].tolist() == [-0.5, 2.0]
    assert since.x("t_ms").to_dict()["scale"]["domain"] == [-0.5, 9.5]
    assert since.x("t_ms").to_dict()["axis"]["title"] == "Seconds since the job's start"
    assert clock.x("t_ms").to_dict()["axis"]["title"] == "Time (UTC)"


HOSTILE = ["<script>alert(1)</script>", "a\nb", "a b", "x" * 10_000, "x" * 9_999 + "y", "\u202eevil", "", None, "\x00"]


def test_labels_are_inert_cut_and_distinct() -> None:
    """Different names never share a row of a chart, equal ones always do."""
    labels = distinct_labels([*HOSTILE, *HOSTILE])
    assert labels[: len(HOSTILE)] == labels[len(HOSTILE) :]
    assert len(set(labels)) == len(HOSTILE)
    assert all(len(label) <= LABEL_CHARS + 3 and label.isprintable() and label for label in labels)


@given(names=st.lists(st.text(max_size=60)))
def test_any_labels_are_distinct(names: list[str]) -> None:
    labels = distinct_labels(names, 5)
    assert len(set(labels)) == len(set(names))


def test_layers_share_the_axis() -> None:
    """All in the width of the page, with the height of the plot."""
    axis = TimeAxis(T0_MS, T0_MS + 10_000, "UTC")
    base = alt.Chart(pd.DataFrame({"t_ms": [T0_MS]})).encode(x=axis.x("t_ms"))
    spec = layered(base.mark_point(), base.mark_rule(), height=50, independent=("color",)).to_dict()
    assert (spec["autosize"]["type"], spec["height"], spec["resolve"]) == (
        "fit-x",
        50,
        {"scale": {"color": "independent"}},
    )
    assert [layer["encoding"]["x"]["scale"]["domain"] for layer in spec["layer"]] == [[T0_MS, T0_MS + 10_000]] * 2


@pytest.mark.parametrize(
    ("low", "high", "unit", "labels"),
    [
        ([], [], "B", [0]),
        ([0], [0], "B", [0]),
        ([0], [3], "B", [0, 1, 2, 3]),
        ([0], [1_023], "B", [0, 500, 1_000, 1_500]),
        ([0], [1_024], "KiB", [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([0, 5], [3 << 20, 64 << 20], "MiB", [0, 20, 40, 60, 80]),
        ([-(8 << 30)], [8 << 30], "GiB", [-10, -5, 0, 5, 10]),
        ([0], [7 << 60], "PiB", [0, 2_000, 4_000, 6_000, 8_000]),
        ([float("nan"), 1], [float("nan"), 2 << 40], "TiB", [0, 0.5, 1.0, 1.5, 2.0]),
    ],
)
def test_bytes_stand_at_the_numbers_that_texts_call_them(
    low: list[float], high: list[float], unit: str, labels: list[float]
) -> None:
    """Not more than eight of them, from the least to beyond the greatest."""
    axis = bytes_axis("Queued", pd.Series(low, dtype=float), pd.Series(high, dtype=float)).to_dict()
    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    assert axis["values"] == pytest.approx([label * 1024**power for label in labels])
    assert axis["labelExpr"] == f"format(datum.value / {1024**power}, '~g') + ' {unit}'"
    ends = [value for value in (*low, *high) if value == value]
    assert all(axis["values"][0] <= value <= axis["values"][-1] for value in ends)
