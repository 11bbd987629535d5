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

from dashboard.charts.axes import LABEL_CHARS, TimeAxis, distinct_labels, layered

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
