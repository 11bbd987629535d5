"""Queries about trends in the editor: rows with windows, values of every window, and what the chart shows of them."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest

from app.queries.messages import End, QueryRequest, ResultRow, RunLimits, WindowValues, as_json, from_json
from collectors.schema import load_event_types
from dashboard.queries import run as runs
from dashboard.queries.results import BEGINS, CONFIDENCE, ENDS, ROUNDED, as_csv, as_json_lines, result_frame
from dashboard.queries.run import run_query
from dashboard.queries.window_chart import MOST_GROUPS, plotted, threshold_frame, window_frame
from engine import compile_query, trend_thresholds
from engine.events import EventBatch
from tests.dashboard.queries.test_run import FakeLog

RISING = """PARAMETERS least = 5
PATTERN MapEnd+ m
WHERE   m.period_ms < NEXT(m).period_ms
GROUP BY host
WITHIN  10 s SLIDE 5 s
HAVING  COUNT(*) >= :least
RETURN  host, COUNT(*) AS n_rising, MAX(m.period_ms) AS longest_ms
"""
LIMITS = RunLimits(max_events=10_000, timeout_ms=600_000)


def ends(hosts: dict[str, list[int]], every_ms: int = 1_000) -> EventBatch:
    """Mappers that end one after the other, with these run times by host."""
    rows: list[dict[str, Any]] = [
        {"event_id": f"{host}-{i}", "type": "MapEnd", "t_lo_ms": 1 + i * every_ms, "host": host, "period_ms": period}
        for host, periods in hosts.items()
        for i, period in enumerate(periods)
    ]
    return EventBatch.from_rows(rows, load_event_types())


def run(events: EventBatch, text: str = RISING, **parameters: int) -> tuple[list[ResultRow], list[WindowValues]]:
    """Rows and values of windows, as a process tells them."""
    request = QueryRequest(text, parameters, 0, 10**9, "rising")
    told = [from_json(json.loads(json.dumps(as_json(m)))) for m in run_query(request, FakeLog(events), LIMITS)]
    assert isinstance(told[-1], End)
    return [m for m in told if isinstance(m, ResultRow)], [m for m in told if isinstance(m, WindowValues)]


def test_rows_are_those_that_having_lets_through_and_values_those_of_all() -> None:
    rows, windows = run(ends({"n1": [1, 2, 3, 4], "n2": [4, 3, 2, 1]}))
    # In (-5 s, 5 s] and (0, 10 s] n1 has all 15 rising trends of four values, n2 the four of one value each.
    assert [(row.key, row.last_hi_ms, row.values["n_rising"]) for row in rows] == [
        ({"host": "n1"}, 5_000, 15),
        ({"host": "n1"}, 10_000, 15),
    ]
    assert all(row.of_trends and row.exact and not row.bindings for row in rows)
    found = [
        (group["host"], end_ms, n, longest)
        for part in windows
        for group, end_ms, n, longest in zip(
            part.groups, part.end_ms, part.values["n_rising"], part.values["longest_ms"], strict=True
        )
    ]
    assert found == [("n1", 5_000, 15, 4), ("n2", 5_000, 4, 4), ("n1", 10_000, 15, 4), ("n2", 10_000, 4, 4)]


def test_so_many_windows_are_told_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_WINDOWS", 3)
    rows, windows = run(ends({"n1": [1, 2, 3, 4], "n2": [4, 3, 2, 1]}))
    assert (len(rows), sum(len(part.end_ms) for part in windows)) == (2, 3)


def test_matches_have_no_windows() -> None:
    text = "PATTERN SEQ(MapEnd a) WHERE skip_till_next_match WITHIN 1 s RETURN a.host"
    rows, windows = run(ends({"n1": [1, 2]}), text)
    assert (len(rows), windows) == (2, [])
    assert not any(row.of_trends for row in rows)


def test_rows_as_table_and_files() -> None:
    rows, _ = run(ends({"n1": [1, 2, 3, 4]}))
    frame = result_frame(rows)
    assert list(frame.columns) == ["host", "n_rising", "longest_ms", BEGINS, ENDS]
    assert CONFIDENCE not in frame
    (first, *_) = csv.DictReader(io.StringIO(as_csv(rows)))
    assert first == {
        "window_start_ms": "-5000", "window_end_ms": "5000", "exact": "True", "expected": "", "host": "n1",
        "n_rising": "15", "longest_ms": "4",
    }  # fmt: skip
    line = json.loads(as_json_lines(rows).splitlines()[0])
    assert (line["of_trends"], line["values"]) == (True, {"host": "n1", "n_rising": 15, "longest_ms": 4})


def test_numbers_beyond_all_doubles_are_told_and_drawn() -> None:
    # 1,100 values that rise have 2^1100 - 1 trends: 331.1 powers of ten, more than a double has.
    rows, windows = run(ends({"n1": list(range(1_100))}, every_ms=2), RISING, least=1)
    assert not rows[0].exact
    frame, _ = window_frame(windows, rows, "n_rising", 5_000)
    assert list(frame["power"]) == pytest.approx([1_100 * math.log10(2)] * 2)
    assert frame["number"].isna().all()
    assert str(frame["told"][0]).endswith("e+331")
    assert list(result_frame(rows)[ROUNDED]) == [True, True]


@pytest.mark.parametrize(
    ("value", "number", "power"),
    [
        (100, 100.0, 2.0),
        (2.5, 2.5, math.log10(2.5)),
        (0, 0.0, math.nan),
        (-3, -3.0, math.nan),
        (2**63, 2.0**63, 63 * math.log10(2)),
        (10**400, math.nan, 400.0),
        (str(2**63), 2.0**63, 63 * math.log10(2)),
        (str(10**400), math.nan, 400.0),
        (str(-(10**30)), -1e30, math.nan),
        ("1.5e+400", math.nan, 400 + math.log10(1.5)),
        ("-1.5e+400", math.nan, math.nan),
        ("inf", math.nan, math.nan),
        ("text", math.nan, math.nan),
        (None, math.nan, math.nan),
    ],
)
def test_a_value_is_a_number_or_a_power_of_ten(value: Any, number: float, power: float) -> None:
    assert plotted(value) == pytest.approx((number, power), nan_ok=True)


def test_groups_with_the_greatest_values_are_shown_and_lines_break_where_windows_lack() -> None:
    names = [f"n{i}" for i in range(MOST_GROUPS + 2)]
    part = WindowValues(
        end_ms=[*(5_000 for _ in names), 10_000, 20_000],
        groups=[*({"host": name} for name in names), {"host": "n8"}, {"host": "n8"}],
        values={"n": [*range(len(names)), 1, None]},
    )
    later = WindowValues([25_000], [{"host": "n8"}], {"n": [2]})
    frame, n_groups = window_frame([part, later], [], "n", 5_000)
    assert n_groups == len(names)
    assert set(frame["group"]) == {f"n{i}" for i in range(2, len(names))}
    of_one = frame[frame["group"] == "n8"]
    assert list(of_one["end_ms"]) == [5_000, 10_000, 25_000], "NULL is no value"
    first, second, third = of_one["piece"]
    assert first == second != third
    assert not frame["is_let_through"].any()


def test_thresholds_stand_where_values_do() -> None:
    text = RISING.replace("HAVING  ", "HAVING  MAX(m.period_ms) > 2 minutes AND COUNT(*) < 0 - 1 AND ")
    asked = trend_thresholds(compile_query(text, load_event_types()).resolved.query)
    plain = threshold_frame(asked, in_powers=False)
    assert [tuple(row) for row in plain.to_numpy()] == [
        (120_000.0, "HAVING > 2 min"),
        (-1.0, "HAVING < -1"),
        (5.0, "HAVING >= 5"),
    ]
    assert list(threshold_frame(asked, in_powers=True)["y"]) == pytest.approx([math.log10(120_000), math.log10(5)])
