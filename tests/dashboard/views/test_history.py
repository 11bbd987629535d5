"""A store that holds only what `clustercep ingest` read: jobs, a job and the cluster are shown all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.chosen_store import STORE_VARIABLE
from dashboard.jobs.unusual import LEAST_PEERS
from deploy.minicluster.recording import packing
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from tests.conftest import RECORDING
from tests.dashboard.job_fixtures import DONE, RUNNING_JOB, batch, job_rows
from tests.dashboard.query_fixtures import Installation, installation, opened, rerun, tables, texts, view

__all__ = ["installation"]  # a fixture


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An event store that has the recording's job histories and samples of hosts, and nothing else."""
    folder = tmp_path_factory.mktemp("history")
    packing.unpack(RECORDING, folder / "in")
    paths = [str(path) for path in (folder / "in").rglob("*") if path.name in ("history", "rrds")]
    assert len(paths) == 2
    told = ingest_here(str(folder / "store"), ("job_history",), paths, IngestOptions(), Limits(1_000, 1 << 26))
    assert told is not None
    return folder / "store"


@pytest.fixture
def history(installation: Installation, ingested: Path) -> Installation:
    """Settings beside that store; there is no database."""
    shutil.copytree(ingested, installation.folder / "data" / "event-store")
    for path in (installation.folder / "data").glob("clustercep.db*"):
        path.unlink()
    return installation


def test_jobs(history: Installation) -> None:
    """All are there, none is running, and what is not known has no column."""
    page = view("jobs")
    frame = page.dataframe[0].value
    assert len(frame) == 13
    assert frame["Status"].value_counts().to_dict() == {"✓ succeeded": 12, "■ killed": 1}
    assert "Alerts" not in frame
    assert frame["Failed"].sum() == 1
    said = texts(page)
    assert "13 of 13 jobs in the history" in said
    assert r"event\-store" in said
    assert "There is no database in" in said
    assert not page.error


def test_one_job(history: Installation) -> None:
    jobs = view("jobs").dataframe[0].value
    page = view("job", id=jobs["Job"].tolist()[0])
    said = texts(page)
    assert page.title[0].value
    assert "which `clustercep ingest` fills" in said
    assert "Attempts by host" in [found.value for found in page.subheader]
    assert "Heuristics" in [found.value for found in page.subheader]
    assert not page.error
    assert "No job" in view("job", id="job_1_1").warning[0].value


def test_the_cluster(history: Installation) -> None:
    page = view("cluster")
    said = texts(page)
    assert [found.value for found in page.subheader] == [
        "Hottest hosts",
        "cpu\\_user by host",
        "Spread of the load",
        "One host",
    ]
    assert "6 hosts, one row per host" in said
    assert "which `clustercep ingest` fills" in said
    assert not page.error
    page.selectbox(key="host").set_value("node1")
    rerun(page)
    assert len(page.get("vega_lite_chart")) > 5


def test_it_begins_with_the_jobs_and_says_that_nobody_watches(history: Installation) -> None:
    test = AppTest.from_string("from dashboard.main import main\nmain()", default_timeout=300)
    rerun(test)
    assert "Only history is known here" in " ".join(found.value for found in test.sidebar.caption)
    assert not test.error


def test_a_log_goes_first_and_the_address_chooses(installation: Installation, ingested: Path) -> None:
    """A job that the log no longer has is found in the history."""
    shutil.copytree(ingested, installation.folder / "data" / "event-store")
    installation.log(batch(job_rows()))
    page = view("jobs")
    assert RUNNING_JOB in page.dataframe[0].value["Job"].tolist()
    assert "in the event log" in texts(page)
    past = view("jobs", events="history")
    names = past.dataframe[0].value["Job"].tolist()
    assert len(names) == 13
    assert DONE not in names
    assert "which `clustercep ingest` fills" in texts(past)
    assert "There is no database" not in texts(past)
    assert "which `clustercep ingest` fills" in texts(view("job", id=names[0]))
    assert "which `clustercep ingest` fills" not in texts(view("job", id=DONE))


def test_a_store_elsewhere_is_left_to_spark(installation: Installation) -> None:
    installation.configure("spark: {store: hdfs://master:8020/events}")
    for page in ("jobs", "cluster"):
        told = view(page).info[0].value
        assert "The event store hdfs" in told
        assert "is not on this machine: pages do not read it" in told
    assert "No job has been seen yet" in view("jobs").info[0].value
    installation.configure("")
    assert "event store" not in view("jobs").info[0].value


def test_what_is_unusual_and_the_runs_before(history: Installation) -> None:
    """Of the recorded straggler: its attempt first, with its memory; and the job's earlier runs where there are any."""
    jobs = view("jobs").dataframe[0].value
    straggler = jobs.loc[jobs["Name"].str.contains("mapper straggler", regex=False), "Job"].tolist()
    page = view("job", id=straggler[0])
    [found] = [table for table in tables(page) if "Score" in table and "Unusual" in table]
    scores = [float(score) for score in found["Score"]]
    assert scores == sorted(scores, reverse=True)
    assert found["Unusual"][0].startswith("Duration")
    assert "times the median" in found["Unusual"][0]
    [table] = [element.value for element in opened(page, "attempts-table").dataframe]
    assert table["Attempt"].tolist()[: len(scores)] == found["Attempt"]
    assert table["Memory"].str.contains("MiB").any()
    assert table["Spilled records"].str.fullmatch("[0-9,]+|—").all()
    n_reduces = int((table["Attempt"].str.contains("_r_", regex=False) & (table["Status"] == "SUCCEEDED")).sum())
    assert 0 < n_reduces < LEAST_PEERS
    assert f"Reduce attempts are not compared: {n_reduces} succeeded." in texts(page)
    assert "Map attempts are not compared" not in texts(page)


def test_a_history_that_cannot_be_read_takes_nothing_from_the_log(installation: Installation, ingested: Path) -> None:
    folder = installation.folder / "data" / "event-store"
    shutil.copytree(ingested, folder)
    max(folder.glob("_commits/*")).write_bytes(b"no JSON")
    installation.log(batch(job_rows()))
    page = view("jobs")
    assert RUNNING_JOB in page.dataframe[0].value["Job"].tolist()
    assert "a damaged commit" in " ".join(found.value for found in page.warning)
    assert DONE in texts(view("job", id=DONE)).replace("\\", "")


@pytest.mark.parametrize("name", ["alerts", "health", "queries"])
def test_pages_that_a_history_has_nothing_for_lead_to_its_jobs(history: Installation, name: str) -> None:
    test = view(name)
    assert not test.error
    assert test.title[0].value == name.capitalize()
    assert "only history is known here" in test.info[0].value


@pytest.mark.parametrize("below", ["", "event-store"])
def test_a_folder_that_is_named_shows_its_history(
    history: Installation, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    """As `clustercep dashboard --store` names it; the settings speak of another store."""
    folder = history.folder / "data"
    history.configure("spark: {store: elsewhere}")
    assert "No job has been seen yet" in view("jobs").info[0].value
    monkeypatch.setenv(STORE_VARIABLE, str(folder / below))
    page = view("jobs")
    assert len(page.dataframe[0].value) == 13
    assert "There is no database in" in texts(page)
    assert view("job", id=page.dataframe[0].value["Job"].tolist()[0]).subheader
    assert "6 hosts, one row per host" in texts(view("cluster"))
    assert "only history is known here" in view("alerts").info[0].value
