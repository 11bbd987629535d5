"""`report job`: from files to what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from app.event_store.folder import rooted
from app.heuristics.from_events import job_figures
from app.heuristics.judging import judged
from app.heuristics.severity import Severity
from app.heuristics.waste import waste_of
from spark_jobs.event_store import EventStore
from spark_jobs.heuristics.job import events_here, events_of, main
from spark_jobs.heuristics.jobs import rows_here, rows_on_spark
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from spark_jobs.session import SparkJobError
from tests.collectors import histories

JOB = "job_1700000000000_0007"
MIB = 1 << 20
HOSTILE = "[red]x[/red]\x1b[2J`<script>alert(1)</script>\u202e"
CONF = """<configuration><property><name>mapreduce.map.memory.mb</name><value>4096</value></property>
<property><name>mapreduce.reduce.memory.mb</name><value>1024</value></property>
<property><name>fs.s3a.secret.key</name><value>hunter2</value></property></configuration>"""


def map_of(number: int, attempt: int = 0, **changes: Any) -> list[str]:
    """A map of 120 s that reads 10 MiB and has 256 MiB of memory."""
    counters = histories.counters(
        **{**histories.MAP_COUNTERS, "PHYSICAL_MEMORY_BYTES": 256 * MIB, "CPU_MILLISECONDS": 100_000}
    )
    counters["groups"].append(
        {
            "name": "org.apache.hadoop.mapreduce.FileSystemCounter",
            "counts": [{"name": "HDFS_BYTES_READ", "value": 10 * MIB}],
        }
    )
    finish_ms = histories.T0 + 6_000 + 120_000
    told = {"counters": counters, "finishTime": finish_ms, "mapFinishTime": finish_ms, **changes}
    return histories.map_records(f"attempt_1700000000000_0007_m_{number:06d}_{attempt}", **told)


def whole(n_maps: int = 60) -> bytes:
    """A job of many short maps."""
    maps = [record for number in range(n_maps) for record in map_of(number)]
    return histories.history(
        histories.start_records(n_maps=n_maps), maps, histories.reduce_records(), histories.end_records()
    )


def stored(tmp_path: Path, data: bytes, conf: str | None = CONF) -> str:
    folder = tmp_path / "in"
    folder.mkdir(parents=True)
    (folder / f"{JOB}-x.jhist").write_bytes(data)
    if conf is not None:
        (folder / f"{JOB}_conf.xml").write_text(conf)
    limits = Limits(100, 1 << 26)
    assert ingest_here(str(tmp_path / "store"), ("job_history",), [str(folder)], IngestOptions(), limits) is not None
    return str(tmp_path / "store")


def told(store: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main([*words, f"--store={store}", "--", JOB])
    return code, capsys.readouterr().out


def test_findings_with_values_thresholds_tasks_and_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = told(stored(tmp_path, whole()), capsys, "--format=json")
    found = json.loads(out)
    assert code == 0
    assert (found["job_id"], found["status"], found["n_maps"], found["gaps"]) == (JOB, "SUCCEEDED", 60, [])
    memory = next(one for one in found["corrected"] if one["heuristic"] == "mapper-memory")
    # 256 of 4096 MiB, and 4096 is twice 2048: severe, 60 tasks
    assert (memory["severity"], memory["score"], memory["n_tasks"]) == ("SEVERE", 180, 60)
    assert (memory["measures"][0]["value"], memory["measures"][0]["passed"]) == (0.0625, 0.3)
    assert (memory["measures"][1]["value"], memory["measures"][1]["passed"]) == (4096 * MIB, 4096 * MIB)
    assert memory["tasks"][0] == "task_1700000000000_0007_m_000000"
    assert "mapreduce.map.memory.mb to about 512" in memory["advice"]
    original = next(one for one in found["dr_elephant"] if one["heuristic"] == "mapper-time")
    assert (original["severity"], original["measures"][0]["value"]) == ("LOW", 120_000)  # 60 maps, at most 2 minutes
    assert "hunter2" not in out


def test_waste_in_memory_and_time(tmp_path: Path) -> None:
    ended, as_failed = '"taskStatus":"SUCCEEDED"', '"status":"FAILED"'
    failed = [line.replace("ATTEMPT_FINISHED", "ATTEMPT_FAILED").replace(ended, as_failed) for line in map_of(1, 0)]
    start, end = histories.start_records(n_maps=2), histories.end_records()
    data = histories.history(start, map_of(0), map_of(1, 1), failed, end)
    figures = job_figures(JOB, events_here(rooted(stored(tmp_path, data)), JOB))
    runs_ms = [attempt.run_ms for attempt in figures.attempts]
    assert [attempt.is_success for attempt in figures.attempts] == [True, False, True]
    waste, hour = waste_of(figures), 3_600_000
    run_ms = runs_ms[0]
    assert run_ms is not None
    assert runs_ms == [run_ms] * 3
    # two maps leave 3.75 of 4 GiB unused, one is lost whole
    assert waste.held_gib_h == pytest.approx(12 * run_ms / hour)
    assert waste.unused_gib_h == pytest.approx(7.5 * run_ms / hour)
    assert waste.lost_gib_h == pytest.approx(4 * run_ms / hour)
    assert waste.wasted_gib_h == pytest.approx(11.5 * run_ms / hour)
    assert waste.lost_h == pytest.approx(run_ms / hour)


def test_a_store_from_before_says_ingest_again(tmp_path: Path) -> None:
    events = events_here(rooted(stored(tmp_path, whole())), JOB)
    kept = pc.invert(pc.is_in(events.column("type"), value_set=pc.cast(["AttemptCounters", "JobSettings"], "string")))
    judgement = judged(job_figures(JOB, events.filter(kept)))
    by_name = {one.heuristic: one for one in judgement.dr_elephant}
    assert by_name["mapper-gc"].severity is None
    assert "ingest its history again" in by_name["mapper-gc"].note
    assert by_name["reducer-time"].severity == Severity.NONE  # times are known
    assert len([gap for gap in judgement.gaps if "ingest" in gap]) == 3


def test_a_job_that_still_runs_is_judged_by_the_tasks_that_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maps = [record for number in range(60) for record in map_of(number)]
    store = stored(tmp_path, histories.history(histories.start_records(n_maps=200), maps))
    code, out = told(store, capsys, "--format=json")
    found = json.loads(out)
    assert (code, found["dr_elephant"]) == (0, [])
    assert "60 of 200 maps" in found["gaps"][0]
    by_name = {one["heuristic"]: one for one in found["corrected"]}
    assert (by_name["mapper-time"]["severity"], by_name["mapper-time"]["measures"][0]["value"]) == ("LOW", 120_000)
    assert "mapper-memory" not in by_name  # of a job that runs nobody tells them
    _, out = told(store, capsys)
    assert "its end is not stored" in out
    code, out = told(store, capsys, "--dr-elephant")
    assert code == 1
    assert "once it has ended" in out


def test_hostile_names_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = whole().replace(b'"jobName":"', f'"jobName":{json.dumps(HOSTILE)[:-1]}'.encode())
    code, out = told(stored(tmp_path, data), capsys)
    assert code == 0
    assert "[red]x[/red]" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "mapreduce.map.memory.mb" in out


def test_without_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = told(stored(tmp_path, whole(), None), capsys, "--dr-elephant")
    assert "its configuration is not known: ingest its _conf.xml" in out
    assert "as Dr. Elephant computes it" in out


def test_mistakes(tmp_path: Path) -> None:
    store = stored(tmp_path, whole())
    with pytest.raises(SparkJobError, match="expected an id"):
        main([f"--store={store}", "--", "job_1' OR 1=1"])
    with pytest.raises(SparkJobError, match="no event of job_1_1"):
        main([f"--store={store}", "--", "job_1_1"])


def test_the_same_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    url = stored(tmp_path, whole(3))
    here, there = events_here(rooted(url), JOB), events_of(EventStore.open(spark, url), JOB)
    assert job_figures(JOB, here) == job_figures(JOB, there)
    assert len(job_figures(JOB, there).maps) == 3


def test_jobs_of_a_span_ranked_by_waste(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, other = tmp_path / "in", "job_1700000000000_0008"
    store = stored(tmp_path, whole(3))
    second = whole(6).replace(JOB[3:].encode(), other[3:].encode()).replace(b'"ada"', b'"bob"')
    third = histories.whole_history().replace(JOB[3:].encode(), b"_1700000000000_0009")
    (folder / f"{other}-x.jhist").write_bytes(second)
    (folder / f"{other}_conf.xml").write_text(CONF)
    (folder / "job_1700000000000_0009-x.jhist").write_bytes(third)
    limits = Limits(100, 1 << 26)
    assert ingest_here(store, ("job_history",), [str(folder)], IngestOptions(), limits) is not None
    assert main([f"--store={store}", "--format=json", "--", "jobs"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["job_id"] for row in found["jobs"]] == [other, JOB, "job_1700000000000_0009"]
    # 3.75 GiB unused by each map for 120 s; reducers have no memory counter
    assert found["jobs"][0]["wasted_gib_h"] == pytest.approx(6 * 3.75 * 120 / 3600)
    assert found["jobs"][2]["wasted_gib_h"] is None  # without a configuration
    assert (found["n_jobs"], found["queues"][0]["n_jobs"], found["queues"][0]["n_unknown"]) == (3, 3, 1)
    assert found["queues"][0]["wasted_gib_h"] == pytest.approx(9 * 3.75 * 120 / 3600)
    assert main([f"--store={store}", "--", "jobs"]) == 0
    assert "the most wasteful first" in capsys.readouterr().out
    assert main([f"--store={store}", "--to=2001-01-01", "--", "jobs"]) == 1


def test_jobs_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    url = stored(tmp_path, whole(3))
    here, there = rows_here(url, None, None), rows_on_spark(EventStore.open(spark, url), None, None)
    assert here == there
    assert here is not None
    assert len(here) == 1
    assert rows_on_spark(EventStore.open(spark, url), None, 1) == []
