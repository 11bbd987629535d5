"""The page of reports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.reports.folder import reports_folder
from app.reports.tables import QUEUING, REPORTS, STRAGGLERS
from dashboard.views import reports as view_of_reports
from tests.dashboard.query_fixtures import Installation, installation, rerun, texts, view
from tests.dashboard.report_fixtures import REPORT_ROWS, T0_MS, queued, straggler, write_report

__all__ = ["installation"]  # a fixture


@pytest.fixture
def reported(installation: Installation) -> Installation:
    """With all reports."""
    for name in REPORTS:
        figures = {"n_attempts": {"compared": 1234, "tiny": 5, "few attempts": 6}} if name == STRAGGLERS else {}
        write_report(reports_folder(installation.settings), name, REPORT_ROWS[name], figures=figures)
    return installation


def test_what_to_do_without_a_report(installation: Installation) -> None:
    for part in ("Stragglers", "Life times", "Queued data"):
        page = view("reports", part=part)
        assert "`clustercep ingest FOLDER`, `clustercep report`" in page.info[0].value


def test_stragglers_and_slow_hosts(reported: Installation) -> None:
    page = view("reports")
    attempts, hosts = (table.value for table in page.dataframe)
    assert attempts["Ratio"].tolist() == [10.0, 9.0]
    assert attempts["Expected"].tolist() == ["9 s", "9 s"]
    assert attempts["Compared by"].tolist() == ["per byte read", "running time"]
    assert attempts["Status"].tolist() == ["SUCCEEDED", "KILLED"]
    assert hosts["Median ratio"].tolist() == [1.9, 1.1, 0.9]
    assert attempts["Host"][0].startswith("<script>")
    assert attempts["Host"][0].isprintable()
    said = texts(page)
    assert "1,234 attempts were compared" in said
    assert "Left out: 5 tiny ones, 6 of jobs with too few" in said
    (chart,) = page.get("vega_lite_chart")
    assert "\u202e" not in chart.proto.spec
    assert len(json.loads(chart.proto.spec)["layer"]) == 3


def test_life_times_of_a_user(reported: Installation) -> None:
    page = view("reports", part="Life times")
    by_user, by_job = (table.value for table in page.dataframe)
    assert by_user["Median"].tolist() == ["1 min", "—"]
    assert by_user["Not measured"].tolist() == [0, 12]
    assert by_job["Kind"].tolist() == ["mapper", "reducer"]
    assert by_job["User"].tolist() == ["ada", "—"]
    page.text_input(key="user").set_value("ADA")
    rerun(page)
    assert [len(table.value) for table in page.dataframe] == [1, 1]
    page.text_input(key="user").set_value("nobody")
    assert "No attempt of such a user" in rerun(page).info[0].value


def test_queued_data_says_what_is_not_known(reported: Installation) -> None:
    page = view("reports", part="Queued data")
    (jobs,) = (table.value for table in page.dataframe)
    assert jobs["Known"].tolist() == ["complete", "unknown: arrivals missing"]
    assert [size == "—" for size in jobs["At most waited"]] == [False, True]
    (chart,) = page.get("vega_lite_chart")
    assert len(json.loads(chart.proto.spec)["layer"]) == 3  # with a band
    assert "up to 1 at a time" in texts(page)


def time_axis(chart: Any) -> list[float]:
    """Its first and last moment."""
    found: list[float] = json.loads(chart.proto.spec)["layer"][0]["encoding"]["x"]["scale"]["domain"]
    return found


def test_of_years_of_queued_data_the_last_week_is_drawn_unless_one_chooses(installation: Installation) -> None:
    years = [queued(0, 1, 1), queued(2_000_000, 2, 2), queued(2_000_001, 3, 3)]
    write_report(reports_folder(installation.settings), QUEUING, {**REPORT_ROWS[QUEUING], "of_cluster": years})
    page = view("reports", part="Queued data")
    (chart,) = page.get("vega_lite_chart")
    assert time_axis(chart) == [T0_MS + n * 60_000 for n in (2_000_001, 2_000_003)]
    old = {"from": str(T0_MS), "to": str(T0_MS + 60_000)}
    (chart,) = view("reports", part="Queued data", **old).get("vega_lite_chart")
    assert time_axis(chart) == [T0_MS + n * 60_000 for n in (1, 2)]
    between = {"from": str(T0_MS + 300_000), "to": str(T0_MS + 400_000)}
    page = view("reports", part="Queued data", **between)
    assert "No map output waited between" in page.info[0].value
    assert len(page.dataframe) == 1  # the jobs stay


def test_a_newer_run_is_shown_at_once(reported: Installation) -> None:
    page = view("reports")
    rows = REPORT_ROWS[STRAGGLERS] | {"attempts": [straggler(7)]}
    write_report(reports_folder(reported.settings), STRAGGLERS, rows, T0_MS + 1)
    assert rerun(page).dataframe[0].value["Host"].tolist() == ["node7"]


def test_a_damaged_report_is_told_with_what_to_do(reported: Installation) -> None:
    folder = reports_folder(reported.settings)
    (folder / STRAGGLERS / "latest.json").write_text("{", encoding="utf-8")
    assert "make the report anew" in view("reports").error[0].value.replace("\\", "")


def test_of_many_windows_the_greatest_are_drawn(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_of_reports, "MAX_POINTS", 5)
    rows = {**REPORT_ROWS[QUEUING], "of_cluster": [queued(n, n * 37 % 11, n * 37 % 11 + 1) for n in range(23)]}
    write_report(reports_folder(installation.settings), QUEUING, rows)
    page = view("reports", part="Queued data")
    assert "Several windows share a point" in texts(page)
    steps = view_of_reports.queue_steps(view_of_reports.report(QUEUING).tables["of_cluster"], 60_000)
    assert len(steps) == 5
    assert steps["high"].max() == 11
