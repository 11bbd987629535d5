"""The list of jobs as a page."""

from __future__ import annotations

from dashboard.jobs.list import job_list
from dashboard.views import jobs as jobs_view
from dashboard.views.jobs import jobs_frame
from engine.events import EventBatch
from tests.dashboard.job_fixtures import DONE, HOSTILE_JOB, RUNNING_JOB, alert_row, batch, cluster_rows, job_rows
from tests.dashboard.query_fixtures import Installation, installation, texts, view

__all__ = ["installation"]  # a fixture


def test_jobs_of_the_log(installation: Installation) -> None:
    """Running first; failures and alerts counted; hostile names cut and in one line."""
    installation.log(batch(job_rows() + cluster_rows()))
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row("a1", job_id=DONE))
        writer.alerts.add(alert_row("a2", job_id=DONE))
        writer.alerts.add(alert_row("a3", job_id=DONE, merged_into="a1"))
    page = view("jobs")
    frame = page.dataframe[0].value
    assert list(frame)[:4] == ["Status", "Name", "Alerts", "Duration"], "what a narrow window shows"
    assert frame["Job"].tolist() == [RUNNING_JOB, HOSTILE_JOB, DONE]
    assert frame["Status"].tolist() == ["▶ running", "✕ failed", "✓ succeeded"]
    assert frame["Alerts"].tolist() == [0, 0, 2]
    assert frame["Failed"].tolist() == [0, 1, 0]
    assert frame["Duration"].tolist()[1:] == ["8 s", "51 s"]
    name = frame["Name"].tolist()[1]
    assert name.startswith("<script>")
    assert len(name) <= 200
    assert name.isprintable()
    assert "3 of 3 jobs" in texts(page)


def test_filters_come_from_the_address(installation: Installation) -> None:
    installation.log(batch(job_rows()))
    assert view("jobs", name="COUNT").dataframe[0].value["Job"].tolist() == [DONE]
    assert view("jobs", user="<script>").dataframe[0].value["Job"].tolist() == [HOSTILE_JOB]
    assert view("jobs", **{"from": "1", "to": "2"}).info[0].value.startswith("No job fits")
    page = view("jobs")
    page.multiselect(key="status").set_value(["FAILED"]).run()
    assert page.dataframe[0].value["Job"].tolist() == [HOSTILE_JOB]


def test_pages_of_many(installation: Installation) -> None:
    """A page at a time: no more rows travel than are looked at."""
    rows = [
        {"type": "JobStart", "t_lo_ms": 1_700_000_000_000 + n, "job_id": f"job_1_{n:04}", "job_name": "x"}
        for n in range(jobs_view.PAGE_ROWS + 5)
    ]
    installation.log(batch(rows))
    assert len(view("jobs").dataframe[0].value) == jobs_view.PAGE_ROWS
    assert view("jobs", page="2").dataframe[0].value["Job"].tolist() == [f"job_1_{n:04}" for n in range(4, -1, -1)]


def test_no_jobs_yet(installation: Installation) -> None:
    """What to do is told: without a log, and with one that has no job."""
    assert "sources.yarn_rest" in view("jobs").info[0].value
    installation.log(batch(cluster_rows()))
    assert "sources.yarn_rest" in view("jobs").info[0].value


def test_frame_of_nothing() -> None:
    assert len(jobs_frame(job_list(EventBatch.empty().table, {}, 0), [], [])) == 0
