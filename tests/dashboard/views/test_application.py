"""The page of a Spark application, and the list of applications."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from collectors.time_units import DAY_MS
from dashboard.jobs import application
from dashboard.jobs.list import QUIET_MS
from tests.dashboard.job_fixtures import T0_MS, alert_row, at, batch, job_rows
from tests.dashboard.query_fixtures import (
    HOSTILE,
    Installation,
    facts,
    installation,
    links_of,
    lists,
    rerun,
    tables,
    texts,
    view,
)

__all__ = ["installation"]  # a fixture

APPLICATION = "application_1700000000000_0009"
MINUTE = 60_000


@pytest.fixture
def refreshes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every how many seconds parts of the application's page are told to run again."""
    seen: list[float] = []

    class Spied:
        def __getattr__(self, name: str) -> Any:
            return getattr(st, name)

        def fragment(self, made: Any, *, run_every: float) -> Any:
            seen.append(run_every)
            return st.fragment(made, run_every=run_every)

    monkeypatch.setattr(application, "st", Spied())
    return seen


def event(t_ms: int, event_type: str, **other: Any) -> dict[str, Any]:
    whose = {"application_id": APPLICATION, "application_attempt": "1", "application_name": "orders", "user": "ann"}
    return {"type": event_type, "t_lo_ms": T0_MS + t_ms, **whose, **other}


def rows(*, has_ended: bool = True) -> list[dict[str, Any]]:
    """A stage of three tasks, of which one takes 20 times as long as the others."""
    tasks = [
        event(
            run_ms, "SparkTaskEnd", stage="0.0", task=f"{number}.0", executor_id="1", host="n1", status="SUCCEEDED",
            period_ms=run_ms, run_ms=run_ms, gc_ms=run_ms // 10, memory_spilled_bytes=0, input_bytes=1_000,
        )
        for number, run_ms in enumerate((MINUTE, MINUTE, 20 * MINUTE))
    ]  # fmt: skip
    end_ms = 20 * MINUTE
    told = [
        event(0, "SparkApplicationStart", settings="{}"),
        event(1, "SparkExecutorAdded", executor_id="1", host="n1", n_cores=1),
        event(2, "SparkJobStart", spark_job=0, stages="0"),
        event(3, "SparkStageStart", stage="0.0", n_tasks=3),
        *tasks,
        event(end_ms, "SparkStageEnd", stage="0.0", n_tasks=3, status="SUCCEEDED", period_ms=end_ms),
        event(end_ms, "SparkJobEnd", spark_job=0, status="SUCCEEDED", period_ms=end_ms),
    ]
    if has_ended:
        told.append(event(end_ms, "SparkApplicationEnd", period_ms=end_ms, exit_code=0))
    return told


def findings(page: AppTest) -> pd.DataFrame:
    table = next(found for found in tables(page) if "Heuristic" in found)
    return pd.DataFrame(table).set_index("Heuristic")


def test_an_application_that_has_ended(installation: Installation) -> None:
    installation.log(batch([*job_rows(), *rows()]))
    page = view("job", id=APPLICATION)
    assert page.title[0].value == "orders"
    assert facts(page)["Tasks ended"] == "3"
    assert facts(page)["Executors"] == "1, 0 lost"
    found = findings(page)
    skew = found.loc["spark-stage-skew"]
    assert skew[["Severity", "Score", "Limit passed", "Tasks"]].tolist() == ["● critical", "12", "≥ 16", "stage 0.0"]
    assert skew["Measured"].startswith("max / median run time 20; task 2.0 of stage 0.0 took longest")
    assert found.loc["spark-executor-gc", "Severity"] == "◔ moderate"
    assert "spark.executor.memory" in texts(page).replace("\\", "")


def test_as_dr_elephant_computes_it(installation: Installation) -> None:
    installation.log(batch(rows()))
    page = view("job", id=APPLICATION, heuristics="as Dr. Elephant")
    assert findings(page).loc["spark-executor-gc", "Score"] == "0"


def test_one_that_still_runs(installation: Installation) -> None:
    installation.log(batch(rows(has_ended=False)))
    page = view("job", id=APPLICATION)
    assert "Heuristics so far" in [found.value for found in page.subheader]
    assert "so far these are findings about the 3 tasks" in texts(page)


def test_one_that_still_runs_is_read_again_until_it_has_ended(
    installation: Installation, refreshes: list[float]
) -> None:
    told = batch(rows())
    has_ended = np.asarray([row["type"] == "SparkApplicationEnd" for row in told.rows()])
    installation.log(told.where(~has_ended))
    page = view("job", id=APPLICATION)
    said = texts(page)
    assert "▶ no end seen" in said
    assert f"Known up to 2023-11-14 22:33:30. Read again every {application.REFRESH_S} s." in said
    assert refreshes == [application.REFRESH_S]
    assert facts(page)["Duration"] == "20 min"
    refreshes.clear()
    installation.log(told.where(has_ended), step=2)
    rerun(page)
    assert "Read again" not in texts(page)
    assert refreshes == []
    assert "Heuristics" in [found.value for found in page.subheader]


@pytest.mark.parametrize(("n_ms", "is_quiet"), [(0, False), (1, True)])
def test_one_of_which_nothing_was_heard_for_long(
    installation: Installation, refreshes: list[float], n_ms: int, is_quiet: bool
) -> None:
    """Its tasks may take so long: it is looked at again, less often."""
    later = at(20 * MINUTE + QUIET_MS + n_ms, "JobStart", "job_1700000000000_0001")
    installation.log(batch([*rows(has_ended=False), later]))
    page = view("job", id=APPLICATION)
    assert ("No end has been seen; the last sign of life was at 2023-11-14 22:33:30." in texts(page)) is is_quiet
    assert refreshes == [application.QUIET_REFRESH_S if is_quiet else application.REFRESH_S]
    assert facts(page)["Duration"] == ("20 min" if is_quiet else "35 min")


def test_one_with_many_tasks_is_read_again_less_often_and_at_last_not(
    installation: Installation, refreshes: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.log(batch(rows(has_ended=False)))
    monkeypatch.setattr(application, "SOME_TASKS", 2)
    view("job", id=APPLICATION)
    assert refreshes == [application.QUIET_REFRESH_S]
    monkeypatch.setattr(application, "MANY_TASKS", 2)
    page = view("job", id=APPLICATION)
    assert refreshes == [application.QUIET_REFRESH_S]
    assert "only when the page is opened anew" in texts(page)


def test_its_alerts_come_first(installation: Installation) -> None:
    """Whatever form its id has; of no other application, though its id begins with this one's, and of its span."""
    installation.log(batch(rows(has_ended=False)))
    other = {"application_id": f"{APPLICATION}1"}
    with installation.store() as store, store.transaction() as writer:
        mine = {"application_id": APPLICATION}
        writer.alerts.add(alert_row("a1", query="spark-task-stragglers", values=mine, summary="<b>slow</b>"))
        writer.alerts.add(alert_row("a2", query="job-waits", labels={"application": APPLICATION}, summary="waits"))
        writer.alerts.add(alert_row("a3", values=other, labels={"application": f"{APPLICATION}1"}))
        old = {"start_ms": T0_MS - DAY_MS, "end_ms": T0_MS - DAY_MS, "onset_ms": T0_MS - DAY_MS}
        writer.alerts.add(alert_row("a4", values=mine, **old))
    page = view("job", id=APPLICATION)
    [alerts] = lists(page)
    assert sorted(row["title"] for row in alerts["rows"]) == ["<b>slow</b>", "waits"]
    assert [found.value for found in page.subheader] == ["Alerts", "Heuristics so far"]


def test_an_alert_leads_to_its_application(installation: Installation) -> None:
    """Also by the job that it would be."""
    installation.log(batch(rows()))
    with installation.store() as store, store.transaction() as writer:
        job_id = APPLICATION.replace("application", "job")
        values = {"application_id": APPLICATION}
        writer.alerts.add(alert_row("a" * 32, job_id=job_id, values=values))
        writer.alerts.add(alert_row("b" * 32, values=values, summary="the other one"))
        writer.alerts.add(alert_row("c" * 32, job_id=job_id, values={**values, "job_id": job_id}))
    page = view("alert", id="a" * 32)
    assert "Other alerts of this application" in [found.value for found in page.subheader]
    assert {row["title"] for row in lists(page)[-1]["rows"]} == {"the other one", "slow"}
    assert links_of(page)["The application"] == f"job?id={APPLICATION}"
    assert links_of(view("alert", id="c" * 32))["The job"] == f"job?id={job_id}"
    assert view("job", id=job_id).title[0].value == "orders"


def test_what_an_older_log_does_not_say(installation: Installation) -> None:
    older = [{name: value for name, value in row.items() if name not in ("settings", "stages", "memory_spilled_bytes")}
             for row in rows()]  # fmt: skip
    installation.log(batch(older))
    found = findings(view("job", id=APPLICATION))
    assert found.loc["spark-stage-spill", "Severity"] == "? not known"
    assert "ingest its event log again" in found.loc["spark-stage-spill", "Measured"]


def test_hostile_names(installation: Installation) -> None:
    hostile = [row | {"application_name": HOSTILE, "user": HOSTILE, "queue": HOSTILE, "host": HOSTILE}
               for row in rows()]  # fmt: skip
    installation.log(batch(hostile))
    page = view("job", id=APPLICATION)
    assert "<script" not in texts(page).replace("\\<", "")
    assert HOSTILE not in page.title[0].value


def test_too_many_tasks_for_a_page(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MAX_TASKS", 2)
    installation.log(batch(rows()))
    assert f"clustercep report job {APPLICATION}" in texts(view("job", id=APPLICATION)).replace("\\", "")


def test_applications_are_listed(installation: Installation) -> None:
    installation.log(batch([*job_rows(), *rows()]))
    page = view("jobs")
    listed = page.dataframe[1].value
    assert listed["Application"].tolist() == [APPLICATION]
    assert listed.loc[0, ["Status", "Name", "User", "Duration"]].tolist() == ["✓ ended", "orders", "ann", "20 min"]


def test_applications_without_jobs_are_listed(installation: Installation) -> None:
    installation.log(batch(rows(has_ended=False)))
    page = view("jobs")
    assert page.dataframe[0].value["Status"].tolist() == ["▶ no end seen"]
    assert "No job has been seen yet" not in texts(page)
