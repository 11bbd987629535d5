"""The page of a Spark application, and the list of applications."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.jobs import application
from tests.dashboard.job_fixtures import T0_MS, batch, job_rows
from tests.dashboard.query_fixtures import HOSTILE, Installation, facts, installation, tables, texts, view

__all__ = ["installation"]  # a fixture

APPLICATION = "application_1700000000000_0009"
MINUTE = 60_000


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
