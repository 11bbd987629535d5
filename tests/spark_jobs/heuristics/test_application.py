"""`report job` of a Spark application: from event logs to what is printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.event_store.folder import rooted
from app.heuristics.spark.from_events import application_figures
from spark_jobs.event_store import EventStore
from spark_jobs.heuristics.applications import rows_here, rows_on_spark
from spark_jobs.heuristics.job import application_here, application_of, main
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from spark_jobs.session import SparkJobError
from tests.collectors.spark.logs import APPLICATION, NAME, T0_MS, lines, recorded, stage, started, task

HOSTILE = "[red]x[/red]\x1b[2J\u202e"
MINUTE, MIB = 60_000, 1 << 20


def stored(root: Path, data: bytes, name: str = NAME) -> str:
    folder = root / "in"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(data)
    store = str(root / "store")
    limits = Limits(100, 1 << 26)
    assert ingest_here(store, ("spark_events",), [str(folder)], IngestOptions(), limits) is not None
    return store


def measured(run_ms: int, **more: Any) -> dict[str, Any]:
    shuffled = {"Remote Bytes Read": 3 * MIB, "Local Bytes Read": MIB, "Total Records Read": 1, "Fetch Wait Time": 0}
    return {"Executor Run Time": run_ms, "Executor CPU Time": 1, "JVM GC Time": run_ms // 10,
            "Memory Bytes Spilled": MIB, "Disk Bytes Spilled": 1, "Shuffle Read Metrics": shuffled, **more}  # fmt: skip


def slow(*runs_ms: int, settings: Sequence[tuple[str, str]] = (("spark.executor.instances", "1"),)) -> bytes:
    """A stage of these tasks, one after the launch of the other, on an executor with two cores."""
    environment = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": [list(pair) for pair in settings]}
    added = {"Event": "SparkListenerExecutorAdded", "Timestamp": T0_MS, "Executor ID": "1",
             "Executor Info": {"Host": "n1", "Total Cores": 2}}  # fmt: skip
    job = {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": T0_MS, "Stage IDs": [0, 7]}
    tasks = [
        task(number, 0, T0_MS, T0_MS + run_ms) | {"Task Metrics": measured(run_ms)}
        for number, run_ms in enumerate(runs_ms)
    ]
    end_ms = T0_MS + max(runs_ms)
    over = stage(0, end_ms, "Completed", **{"Submission Time": T0_MS, "Number of Tasks": len(runs_ms)})
    job_end = {"Event": "SparkListenerJobEnd", "Job ID": 0, "Completion Time": end_ms,
               "Job Result": {"Result": "JobSucceeded"}}  # fmt: skip
    app_end = {"Event": "SparkListenerApplicationEnd", "Timestamp": end_ms}
    first, second = started(HOSTILE)
    return lines(first, environment, second, added, job, stage(0, T0_MS), *tasks, over, job_end, app_end)


def told(store: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main([*words, f"--store={store}", "--", APPLICATION])
    return code, capsys.readouterr().out


def test_findings_with_values_limits_stages_and_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = told(stored(tmp_path, slow(MINUTE, MINUTE, 20 * MINUTE)), capsys, "--format=json")
    found = json.loads(out)
    assert code == 0
    assert (found["application_id"], found["n_jobs"], found["n_stages"], found["n_executors"]) == (APPLICATION, 1, 1, 1)
    assert found["gaps"] == []
    by_name = {one["heuristic"]: one for one in found["corrected"]}
    skew = by_name["spark-stage-skew"]
    assert (skew["severity"], skew["score"], skew["tasks"]) == ("CRITICAL", 12, ["stage 0.0"])  # 20 times, 3 tasks
    assert (skew["measures"][0]["value"], skew["measures"][0]["passed"]) == (20, 16)
    assert "spark.speculation=true" in skew["advice"]  # its task had no more data than the others
    assert (
        skew["note"]
        == "task 2.0 of stage 0.0 took longest on executor 1 on n1, with 1 times the data of the median one"
    )
    spill = by_name["spark-stage-spill"]
    assert (spill["severity"], spill["measures"][0]["value"]) == ("SEVERE", 0.25)  # 1 MiB of 4 each
    assert "spark.memory.fraction" in spill["advice"]
    assert by_name["spark-executor-gc"]["measures"][0]["value"] == 0.1
    stages = by_name["spark-stages"]["measures"][2]
    assert stages["value"] == 11 * MINUTE  # 22 minutes by two cores
    original = {one["heuristic"]: one for one in found["dr_elephant"]}
    assert original["spark-stages"]["measures"][2]["value"] == 22 * MINUTE  # by one executor that was asked for
    # 1 GiB and 384 MiB for 20 minutes; two cores have 40 minutes, and 22 of them tasks
    assert found["waste"]["held_gib_h"] == pytest.approx(1.375 / 3)
    assert found["waste"]["unused_gib_h"] == pytest.approx(1.375 * 9 / 60)


def test_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path, slow(MINUTE, MINUTE, 20 * MINUTE))
    code, out = told(store, capsys)
    assert code == 0
    assert "[red]x[/red]" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "spark-stage-skew: " in out
    code, out = told(store, capsys, "--dr-elephant")
    assert code == 0
    assert "as Dr. Elephant computes it" in out


def test_a_recorded_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slow task, six that failed, an executor that was killed, a job of five that failed."""
    code, out = told(stored(tmp_path, recorded()), capsys, "--format=json")
    found = json.loads(out)
    by_name = {one["heuristic"]: one for one in found["corrected"]}
    assert code == 0
    jobs = by_name["spark-jobs"]
    assert jobs["measures"][0]["value"] == 0.2  # 1 of 5
    assert "job 4" in jobs["tasks"]
    stages = by_name["spark-stages"]
    assert stages["measures"][0]["value"] == pytest.approx(1 / 6)
    assert by_name["spark-task-failures"]["severity"] == "CRITICAL"
    assert (found["n_jobs"], found["n_stages"], found["queue"], found["user"]) == (5, 6, "research", "ann")
    assert None not in {one["severity"] for one in [*found["corrected"], *found["dr_elephant"]]}


def test_an_application_that_still_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = slow(MINUTE, MINUTE, 20 * MINUTE)
    cut = b"\n".join(text.splitlines()[:-2]) + b"\n"
    store = stored(tmp_path, cut)
    code, out = told(store, capsys, "--format=json")
    found = json.loads(out)
    assert code == 0
    assert found["dr_elephant"] == []
    assert "so far these are findings about the 3 tasks" in found["gaps"][0]
    assert {one["heuristic"]: one["severity"] for one in found["corrected"]}["spark-stage-skew"] == "CRITICAL"
    code, out = told(store, capsys, "--dr-elephant")
    assert code == 1
    assert "once it has ended" in out


def test_mistakes(tmp_path: Path) -> None:
    store = stored(tmp_path, slow(1))
    with pytest.raises(SparkJobError, match="if it runs MapReduce, ask for job_1_1"):
        main([f"--store={store}", "--", "application_1_1"])
    with pytest.raises(SparkJobError, match="no event of a Spark application local-17"):
        main([f"--store={store}", "--", "local-17"])
    with pytest.raises(SparkJobError, match="expected an id"):
        main([f"--store={store}", "--", "application_1' OR 1=1"])


def test_the_same_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    url = stored(tmp_path, recorded())
    here = application_figures(APPLICATION, application_here(rooted(url), APPLICATION))
    there = application_figures(APPLICATION, application_of(EventStore.open(spark, url), APPLICATION))
    by_task = [sorted(stage.tasks, key=lambda one: one.task) for stage in here.stages]
    assert by_task == [sorted(stage.tasks, key=lambda one: one.task) for stage in there.stages]
    assert (here.jobs, here.executors, here.settings) == (there.jobs, there.executors, there.settings)
    assert here.settings == {"spark.executor.memory": "1024m"}


def test_applications_of_a_span_are_ranked_beside_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path, slow(MINUTE, MINUTE, 20 * MINUTE))
    (tmp_path / "in" / "other").mkdir()
    other = APPLICATION.replace("0007", "0008")
    (tmp_path / "in" / "other" / f"{other}_1").write_bytes(recorded().replace(APPLICATION.encode(), other.encode()))
    limits = Limits(100, 1 << 26)
    assert ingest_here(store, ("spark_events",), [str(tmp_path / "in")], IngestOptions(), limits) is not None
    assert main([f"--store={store}", "--format=json", "--", "jobs"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["job_id"] for row in found["jobs"]] == [APPLICATION, other]
    first = found["jobs"][0]
    assert (first["user"], first["severity"], first["heuristics"]) == ("ann", "CRITICAL", "spark-stage-skew")
    assert first["wasted_gib_h"] == pytest.approx(1.375 * 9 / 60)
    assert found["jobs"][1]["lost_h"] > 0
    assert (found["n_jobs"], found["users"][0]["n_jobs"]) == (2, 2)
    assert main([f"--store={store}", "--to=2001-01-01", "--", "jobs"]) == 1


def test_applications_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    url = stored(tmp_path, recorded())
    here, there = rows_here(url, None, None), rows_on_spark(EventStore.open(spark, url), None, None)
    assert here == there
    assert here is not None
    assert [row["job_id"] for row in here] == [APPLICATION]
    assert rows_on_spark(EventStore.open(spark, url), None, 1) == []
