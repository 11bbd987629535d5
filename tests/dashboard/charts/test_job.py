"""Charts of a job: what they send to a browser."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

from dashboard.charts.axes import TimeAxis
from dashboard.charts.job_curves import life_time_chart, progress_chart, queue_chart
from dashboard.charts.job_timeline import attempt_chart, density_chart, fetch_chart
from dashboard.charts.marks import MAX_MARKS, AlertMark, Threshold
from dashboard.cluster.bins import TimeBins

T0_MS = 1_700_000_000_000.0
AXIS = TimeAxis(T0_MS, T0_MS + 60_000, "UTC")
HOSTILE = "<script>alert(1)</script>\n\u202e" + "x" * 10_000


def rows_of(chart: alt.Chart | alt.LayerChart) -> list[dict[str, Any]]:
    """All rows of all datasets of the specification."""
    spec = chart.to_dict()
    return [row for rows in spec["datasets"].values() for row in rows]


def attempts(**changes: Any) -> pd.DataFrame:
    """A reducer with phases, and what differs."""
    row = {
        "attempt_id": "attempt_1_1_r_000000_0",
        "task_id": "task_1_1_r_000000",
        "kind": "REDUCE",
        "host": "node1",
        "status": "SUCCEEDED",
        "start_lo_ms": T0_MS,
        "start_hi_ms": T0_MS,
        "end_lo_ms": T0_MS + 10_000,
        "end_hi_ms": T0_MS + 10_000,
        "duration_ms": 10_000.0,
        "progress": np.nan,
        "shuffle_ms": 6_000.0,
        "sort_ms": 1_000.0,
        "reduce_ms": 3_000.0,
        "lane": 0,
        "straggler": "",
        "limit_ms": np.nan,
    }
    return pd.DataFrame([{**row, **changes}])


def test_phases_end_with_the_attempt() -> None:
    """Shuffle, sort and reduce, in order, the last one up to the end."""
    stripes = [row for row in rows_of(attempt_chart(attempts(), AXIS)) if "phase" in row]
    spans = {row["phase"]: (row["phase_from"] - T0_MS, row["phase_to"] - T0_MS) for row in stripes}
    assert spans == {"shuffle": (0, 6_000), "sort": (6_000, 7_000), "reduce": (7_000, 10_000)}


def test_phases_stay_inside_an_attempt_whose_log_begins_late() -> None:
    stripes = [row for row in rows_of(attempt_chart(attempts(start_lo_ms=T0_MS + 8_000), AXIS)) if "phase" in row]
    assert min(row["phase_from"] for row in stripes) == T0_MS + 8_000
    assert all(row["phase_from"] <= row["phase_to"] for row in stripes)


@pytest.mark.parametrize("status", ["FAILED", "KILLED", "RUNNING", "NO END SEEN"])
def test_what_did_not_succeed_has_a_mark_besides_its_colour(status: str) -> None:
    spec = attempt_chart(attempts(status=status, shuffle_ms=np.nan, sort_ms=np.nan, reduce_ms=np.nan), AXIS).to_dict()
    points = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert len(points) == 1
    assert points[0]["encoding"]["shape"]["scale"]["domain"] == [status]


def test_what_ends_after_the_span_has_no_mark_of_its_end_there() -> None:
    """And its bar is cut off at the axis."""
    over = attempts(status="FAILED", end_hi_ms=AXIS.to_ms + 1, shuffle_ms=np.nan, sort_ms=np.nan, reduce_ms=np.nan)
    spec = attempt_chart(over, AXIS).to_dict()
    assert {layer["mark"]["type"] for layer in spec["layer"]} == {"bar"}
    assert all(layer["mark"]["clip"] for layer in spec["layer"])


def test_unsure_ends_are_pale() -> None:
    """Sure from the latest begin to the earliest end; the rest as intervals."""
    chart = attempt_chart(attempts(start_hi_ms=T0_MS + 500, end_hi_ms=T0_MS + 12_000), AXIS).to_dict()
    layers = chart["layer"][0]["layer"]
    pale = [layer["encoding"] for layer in layers if layer["mark"].get("opacity") == 0.35]
    assert [(e["x"]["field"], e["x2"]["field"]) for e in pale] == [
        ("start_lo_ms", "sure_from"),
        ("sure_to", "end_hi_ms"),
    ]
    precise = attempt_chart(attempts(), AXIS).to_dict()
    assert not [layer for layer in precise["layer"][0]["layer"] if layer["mark"].get("opacity") == 0.35]


def test_lanes_of_a_host_are_rows_and_only_the_first_is_labelled() -> None:
    table = pd.concat([attempts(lane=lane, host=host) for lane, host in ((1, "b"), (0, "b"), (0, "a"))])
    spec = attempt_chart(table.reset_index(drop=True), AXIS).to_dict()
    y = spec["layer"][1]["encoding"]["y"]
    assert y["scale"]["domain"] == ["a", "b", "b · 2"]
    assert y["axis"]["values"] == ["a", "b"]


def test_hostile_names_are_cut_and_inert() -> None:
    """In every chart that shows names."""
    bins = TimeBins(int(T0_MS), 1_000, 2)
    pulls = pd.DataFrame(
        {
            "source_host": [HOSTILE],
            "attempt_id": [HOSTILE],
            "map_attempt_id": [HOSTILE],
            "bytes": [1.0],
            "period_ms": [1.0],
            "t_from_ms": [T0_MS],
            "t_to_ms": [T0_MS],
        }
    )
    for chart in (
        attempt_chart(attempts(host=HOSTILE, attempt_id=HOSTILE, straggler="by the rule"), AXIS),
        density_chart(np.ones((1, 2)), [HOSTILE], bins, AXIS),
        fetch_chart(pulls, [HOSTILE], AXIS),
    ):
        text = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert "script" in text
        assert "\u202e" not in text
        assert "x" * 100 not in text
        assert "href" not in text


def test_a_straggler_has_a_tick_where_it_passed_its_limit() -> None:
    """Only what is framed, and only where it ran longer than the limit."""
    slow = attempts(limit_ms=4_000.0, straggler="by the rule")
    assert [row["limit_at"] - T0_MS for row in ticks_of(attempt_chart(slow, AXIS))] == [4_000]
    assert ticks_of(attempt_chart(slow.assign(straggler=""), AXIS)) == []
    assert ticks_of(attempt_chart(slow.assign(limit_ms=10_000.0), AXIS)) == []
    since = TimeAxis(T0_MS, T0_MS + 60_000, "UTC", T0_MS - 1_000, "the job's start")
    assert [row["limit_at"] for row in ticks_of(attempt_chart(slow, since))] == [5.0]


def ticks_of(chart: alt.LayerChart) -> list[dict[str, Any]]:
    """The rows behind the ticks of attempts."""
    spec = chart.to_dict()
    layers = [inner for layer in spec["layer"] for inner in layer.get("layer", [layer])]
    names = [layer["data"]["name"] for layer in layers if layer["mark"]["type"] == "tick"]
    return [row for name in names for row in spec["datasets"][name]]


def mark(after_ms: float, severity: str = "warning", query: str = "slow") -> AlertMark:
    """An alert that began so long after the axis does."""
    return AlertMark(T0_MS + after_ms, severity, query, HOSTILE)


def rules_of(chart: alt.LayerChart) -> list[dict[str, Any]]:
    """The rows behind the rules, each with its colour."""
    spec = chart.to_dict()
    found = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    return [
        {**row, "colour": layer["mark"]["color"]} for layer in found for row in spec["datasets"][layer["data"]["name"]]
    ]


def test_alerts_are_marked_where_they_began() -> None:
    """Those within the axis, each severity with its sign and colour, the most severe where they are many."""
    sure = pd.DataFrame({"kind": ["MAP"], "what": ["begun"], "t_ms": [T0_MS], "n_low": [1], "n_high": [1]})
    marks = [mark(5_000), mark(1_000, "critical"), mark(-1), mark(60_001), mark(2_000, "info")]
    found = rules_of(progress_chart(sure, AXIS, marks))
    assert [(row["onset_ms"] - T0_MS, row["severity"], row["sign"]) for row in found] == [
        (1_000, "critical", "▲"),
        (5_000, "warning", "◆"),
        (2_000, "info", "●"),
    ]
    assert len({row["colour"] for row in found}) == 3
    assert all(len(row["says"]) <= 200 and row["says"].isprintable() for row in found)
    many = [mark(n, "info") for n in range(2 * MAX_MARKS)] + [mark(50_000, "critical")]
    drawn = rules_of(progress_chart(sure, AXIS, many))
    assert len(drawn) == MAX_MARKS
    assert drawn[0]["severity"] == "critical"
    since = TimeAxis(T0_MS, T0_MS + 60_000, "UTC", T0_MS, "the job's start")
    assert [row["onset_ms"] for row in rules_of(progress_chart(sure, since, [mark(5_000)]))] == [5.0]


def test_thresholds_stand_across_the_axis_they_belong_to() -> None:
    queue = pd.DataFrame({"t_ms": [T0_MS], "bytes_low": [1.0], "bytes_high": [1.0], "n_changes": [1]})
    limit = Threshold("queued-data-high", 2.0, "2 B")
    spec = queue_chart(queue, None, AXIS, (), [limit]).to_dict()
    [rule] = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert rule["encoding"]["y"]["field"] == "at"
    assert "x" not in rule["encoding"]
    assert [row["at"] for row in rules_of(queue_chart(queue, None, AXIS, (), [limit]))] == [2.0]
    lives = pd.DataFrame({"job": ["a"], "life_ms": [1_500.0], "n": [1], "share": [1]})
    spec = life_time_chart(lives, "mappers", [limit]).to_dict()
    assert [layer["encoding"]["x"]["field"] for layer in spec["layer"]] == ["life_s", "life_s", "at"]


def test_density_is_what_it_was_given() -> None:
    """One cell per host and column in which something runs."""
    occupied = np.array([[0.0, 1.5], [2.0, 0.0]])
    bins = TimeBins(int(T0_MS), 1_000, 2)
    rows = rows_of(density_chart(occupied, ["a", "b"], bins, AXIS))
    assert [(row["host"], row["from_ms"] - T0_MS, row["n"]) for row in rows] == [("a", 1_000, 1.5), ("b", 0, 2.0)]


def test_curves_with_and_without_a_band() -> None:
    """A band stands only where numbers are not certain."""
    sure = pd.DataFrame({"kind": ["MAP"], "what": ["begun"], "t_ms": [T0_MS], "n_low": [1], "n_high": [1]})
    assert len(progress_chart(sure, AXIS).to_dict()["layer"]) == 1
    assert len(progress_chart(sure.assign(n_high=2), AXIS).to_dict()["layer"]) == 2
    queue = pd.DataFrame({"t_ms": [T0_MS], "bytes_low": [1.0], "bytes_high": [1.0], "n_changes": [1]})
    assert len(queue_chart(queue, None, AXIS).to_dict()["layer"]) == 2
    assert len(queue_chart(queue.assign(bytes_high=3.0), (T0_MS, 1.0), AXIS).to_dict()["layer"]) == 4


def test_life_times_of_jobs_have_their_colours() -> None:
    lives = pd.DataFrame(
        {"job": ["a", "a", "b"], "life_ms": [0.0, 1_500.0, 2_000.0], "n": [0, 1, 1], "share": [0, 1, 1]}
    )
    spec = life_time_chart(lives, "mappers").to_dict()
    colour = spec["layer"][0]["encoding"]["color"]
    assert colour["scale"]["domain"] == ["a", "b"]
    assert len(set(colour["scale"]["range"])) == 2
    assert [row["life_s"] for row in rows_of(life_time_chart(lives, "mappers"))] == [0.0, 1.5, 2.0]


def test_empty_charts() -> None:
    """No rows are no error."""
    nothing = attempts().iloc[:0]
    attempt_chart(nothing, AXIS).to_dict()
    density_chart(np.zeros((0, 2)), [], TimeBins(0, 1, 2), AXIS).to_dict()
    queue = pd.DataFrame({"t_ms": [], "bytes_low": [], "bytes_high": [], "n_changes": []})
    queue_chart(queue, None, AXIS).to_dict()
    progress_chart(pd.DataFrame(columns=["kind", "what", "t_ms", "n_low", "n_high"]), AXIS).to_dict()
    life_time_chart(pd.DataFrame(columns=["job", "life_ms", "n", "share"]), "mappers").to_dict()
