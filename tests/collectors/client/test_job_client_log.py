"""What clients of MapReduce jobs print."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Collected, OptionError, PositionError, SourceUnavailableError
from collectors.client.counters import CHOSEN
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.schema import event_table
from engine.events import HEADER
from tests.collectors.client.consoles import (
    APPLICATION,
    COUNTERS,
    DAY_MS,
    HADOOP1,
    HADOOP3,
    JOB,
    OLD_JOB,
    OTHER,
    STREAMING,
    URL,
    Line,
    attempt,
    captured,
    console,
)
from tests.collectors.positions import saved
from tests.conftest import SHARED

NOW = DAY_MS + 86_400_000
DATA = SHARED / "data" / "logs" / "emulab_swim"

LAYOUTS = {
    "Hadoop 3": "{date} {level} {logger}: {message}",
    "Hadoop 2": "{short} {level} {logger}: {message}",
    "thread": "{date} {level} [main] {full}: {message}",
    "thread first": "{date} [main] {level}  {full} - {message}",
    "place": "{date} {level}  {logger} (Job.java:monitorAndPrintJob(1380)) - {message}",
}
CAPTURED = {
    "Airflow 1": "[2023-11-14 00:00:00,000] {bash_operator.py:126} INFO - ",
    "Airflow 2": "[2023-11-14, 00:00:00 UTC] {subprocess.py:93} INFO - ",
    "container": "2023-11-14T00:00:00.123456789Z stdout F ",
}


def put(root: Path, text: str | bytes, name: str = "job.log") -> Path:
    path = root / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (DAY_MS / 1000, DAY_MS / 1000))
    return path


def polled(root: Path, now_ms: int = NOW, **options: Any) -> Collected:
    return JobClientLogCollector(JobClientLogOptions(root, **options)).poll(now_ms)


def told(polled: Collected, *types: str) -> list[dict[str, Any]]:
    """Rows without what is not there, in the order of their lines."""
    rows = sorted(polled.events.rows(), key=lambda row: row["source_seq"])
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows
        if not types or row["type"] in types
    ]


def read(root: Path, lines: Sequence[Line] | str, *types: str, **options: Any) -> list[dict[str, Any]]:
    put(root, lines if isinstance(lines, str) else console(lines))
    return told(polled(root, **options), *types)


def kinds(collected: Collected) -> list[str]:
    return sorted(problem.kind for problem in collected.problems)


def values(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


def test_a_job_of_hadoop_3(tmp_path: Path) -> None:
    path = put(tmp_path, console(HADOOP3))
    found = polled(tmp_path)
    assert found.problems == ()
    rows = told(found)
    assert [(row["type"], (row["t_lo_ms"] - DAY_MS) // 1000) for row in rows] == [
        ("ClientJobStart", 5),
        ("ClientJobProgress", 9),
        ("ClientAttemptEnd", 13),
        ("ClientJobProgress", 15),
        ("ClientJobProgress", 20),
        ("ClientJobEnd", 21),
        ("ClientJobCounters", 21),
        ("ClientRunEnd", 22),
    ]
    assert {row["job_id"] for row in rows} == {JOB}
    assert {row["clock_id"] for row in rows} == {f"client:{JOB}"}
    start, first, failed, half, last, end, counters, run = rows
    assert values(start, "application_id", "tracking_url") == (APPLICATION, URL)
    assert start["origin"] == f"{path}:7"
    assert start["raw"] == f"2023-11-14 00:00:05,000 INFO mapreduce.Job: Running job: {JOB}"
    assert [values(row, "map_progress", "reduce_progress", "elapsed_ms") for row in (first, half, last)] == [
        (0.0, 0.0, 4_000),
        (0.5, 0.0, 10_000),
        (1.0, 1.0, 15_000),
    ]
    assert values(failed, "attempt_id", "task_id", "task_type", "status") == (
        attempt(),
        "task_1700000000000_0007_m_000000",
        "MAP",
        "FAILED",
    )
    assert failed["reason"] == (
        "Error: java.io.IOException: Spill failed "
        "at org.apache.hadoop.mapred.MapTask$MapOutputBuffer.checkSpillException(MapTask.java:1562) "
        "[2023-11-14 00:00:12.345]Container killed on request. Exit code is 143"
    )
    assert values(end, "status", "reason", "period_ms") == ("SUCCEEDED", None, 16_000)
    assert values(counters, "n_maps", "n_failed_maps", "n_reduces", "n_input_records", "n_spilled_records") == (
        3, 1, None, 616_167, 256,
    )  # fmt: skip
    assert json.loads(counters["counters"]) == {
        "File System Counters": {"FILE: Number of bytes read": 14_086},
        "Job Counters": {
            "Launched map tasks": 3,
            "Failed map tasks": 1,
            "Total time spent by all maps in occupied slots (ms)": 10_080,
        },
        "Map-Reduce Framework": {"Map input records": 616_167, "Spilled Records": 256, "CPU time spent (ms)": 8_660},
        "org.example.Wc$Counters": {"a=b": -3},
    }
    assert values(run, "n_jobs", "took_ms") == (1, 20_000)
    assert run["t_hi_ms"] - run["t_lo_ms"] == 999


def test_a_job_of_hadoop_1(tmp_path: Path) -> None:
    start, first, failed, second, end, counters = read(tmp_path, HADOOP1)
    assert values(start, "type", "application_id") == ("ClientJobStart", None)
    assert [row["map_progress"] for row in (first, second)] == [0.0, 0.35]
    assert failed["reason"].startswith("java.lang.RuntimeException: subprocess failed with code 1 attempt_2010")
    assert values(end, "type", "status", "period_ms") == ("ClientJobEnd", "FAILED", 28_000)
    assert end["reason"] == "# of failed Map Tasks exceeded allowed limit. FailedCount: 1."
    assert values(counters, "n_maps", "n_failed_maps", "n_input_records") == (4, 1, 0)
    assert json.loads(counters["counters"])["Job Counters"] == {"Launched map tasks": 4, "Failed map tasks": 1}


def test_how_a_job_of_hadoop_1_ended_is_not_made_up(tmp_path: Path) -> None:
    """That it succeeded is printed by streaming alone."""
    (end,) = read(tmp_path, HADOOP1[:-2], "ClientJobEnd")
    assert "status" not in end
    rows = read(tmp_path, STREAMING)
    assert [row["type"] for row in rows] == [
        "ClientJobStart", "ClientJobProgress", "ClientJobProgress", "ClientJobEnd",
    ]  # fmt: skip
    assert rows[-1]["status"] == "SUCCEEDED"
    (end,) = read(tmp_path, [*STREAMING[:-1], (11, "streaming.StreamJob", "Job not Successful!")], "ClientJobEnd")
    assert values(end, "status", "reason") == ("FAILED", None)


def test_why_a_job_failed_may_take_several_lines(tmp_path: Path) -> None:
    why = f"Application {APPLICATION} failed 2 times due to AM Container exited with exitCode: 1"
    lines: list[Line] = [
        (5, "mapreduce.Job", f"Running job: {JOB}"),
        (9, "mapreduce.Job", f"Job {JOB} failed with state FAILED due to: {why}"),
        "Failing this attempt.Diagnostics: Exception from container-launch.",
        ". Failing the application.",
        (9, "mapreduce.Job", "Counters: 0"),
    ]
    (end,) = read(tmp_path, lines, "ClientJobEnd")
    assert values(end, "status", "period_ms") == ("FAILED", 4_000)
    assert end["reason"] == (
        f"{why} Failing this attempt.Diagnostics: Exception from container-launch. . Failing the application."
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tmp_path: Path, layout: str) -> None:
    expected = [(row["event_id"], row["type"]) for row in read(tmp_path, HADOOP3)]
    found = read(tmp_path, console(HADOOP3, LAYOUTS[layout]))
    assert [(row["event_id"], row["type"]) for row in found] == expected
    width_ms = 999 if layout == "Hadoop 2" else 0
    assert {row["t_hi_ms"] - row["t_lo_ms"] for row in found if row["type"] != "ClientRunEnd"} == {width_ms}


@pytest.mark.parametrize("scheduler", CAPTURED)
@pytest.mark.parametrize("lines", [HADOOP3, HADOOP1])
def test_lines_that_a_scheduler_captured(tmp_path: Path, scheduler: str, lines: Sequence[Line]) -> None:
    """With the client's own time where it prints one, else with the scheduler's."""
    names = ("event_id", "type", "reason", "counters")
    expected = [values(row, *names) for row in read(tmp_path, lines)]
    assert [values(row, *names) for row in read(tmp_path, captured(console(lines), CAPTURED[scheduler]))] == expected
    undated = captured(console(lines, "{level} {logger}: {message}"), CAPTURED[scheduler])
    rows = read(tmp_path, undated)
    assert [row["type"] for row in rows] == [kind for _, kind, *_ in expected]
    width_ms = 0 if scheduler in ("Airflow 1", "container") else 999
    own = [row for row in rows if row["type"] != "ClientRunEnd"]
    assert {row["t_lo_ms"] // 1000 * 1000 for row in own} == {DAY_MS}
    assert {row["t_hi_ms"] - row["t_lo_ms"] for row in own} == {width_ms}


def test_an_offset_that_a_scheduler_prints_counts_and_else_the_zone(tmp_path: Path) -> None:
    line = f"[2023-11-14T02:00:00.5+0200] {{subprocess.py:93}} INFO - INFO mapreduce.Job: Running job: {JOB}\n"
    (row,) = read(tmp_path, line, zone="Asia/Tokyo")
    assert row["t_lo_ms"] == DAY_MS + 500
    (row,) = read(tmp_path, line.replace("T02:00:00.5+0200", " 09:00:00,500"), zone="Asia/Tokyo")
    assert row["t_lo_ms"] == DAY_MS + 500


@pytest.mark.parametrize("form", ["{level} {logger}: {message}", "4523 [main] {level}  {full}  - {message}"])
def test_lines_without_a_date_are_told_and_get_none(tmp_path: Path, form: str) -> None:
    put(tmp_path, console(HADOOP3, form))
    found = polled(tmp_path)
    assert [row["type"] for row in told(found)] == ["ClientRunEnd"]  # 'Job ended' has one
    (problem,) = found.problems
    assert (problem.kind, problem.place) == ("no_time", f"{tmp_path}/job.log:7")
    assert "%d{ISO8601} %p %c{2}: %m%n" in problem.message
    put(tmp_path, "The job took 20 seconds.\n")
    found = polled(tmp_path)
    assert (told(found), kinds(found)) == ([], ["no_time"])


def two_jobs(form: str, *, threads: tuple[str, str] = ("", "")) -> str:
    """Two clients that print into one file."""
    text = ""
    for second, who, message in (
        (1, 0, f"Running job: {JOB}"),
        (2, 0, " map 10% reduce 0%"),
        (3, 1, f"Running job: {OTHER}"),
        (4, 0, " map 20% reduce 0%"),
        (5, 1, " map 30% reduce 0%"),
        (6, 1, f"Task Id : {attempt(job=OTHER)}, Status : KILLED"),
        (7, 0, f"Job {JOB} completed successfully"),
        (8, 1, " map 40% reduce 0%"),
        (9, 1, f"Job {OTHER} completed successfully"),
    ):
        text += console([(second, "mapreduce.Job", message)], form.replace("THREAD", threads[who]))
    return text


def test_progress_of_several_jobs_in_one_file_is_left_out_where_it_is_nobodys(tmp_path: Path) -> None:
    put(tmp_path, two_jobs(LAYOUTS["Hadoop 3"]))
    found = polled(tmp_path)
    of_jobs = [(row["job_id"], row["map_progress"]) for row in told(found, "ClientJobProgress")]
    assert of_jobs == [(JOB, 0.1), (OTHER, 0.4)]
    (problem,) = found.problems
    assert (problem.kind, problem.place) == ("ambiguous", f"{tmp_path}/job.log:4")
    assert f"({JOB}, {OTHER})" in problem.message
    assert [row["job_id"] for row in told(found, "ClientAttemptEnd", "ClientJobEnd")] == [OTHER, JOB, OTHER]


def test_threads_tell_the_jobs_of_one_program_apart(tmp_path: Path) -> None:
    put(tmp_path, two_jobs("{date} {level} [THREAD] {logger}: {message}", threads=("pool-1", "pool-2")))
    found = polled(tmp_path)
    assert found.problems == ()
    assert [(row["job_id"], row["map_progress"]) for row in told(found, "ClientJobProgress")] == [
        (JOB, 0.1), (JOB, 0.2), (OTHER, 0.3), (OTHER, 0.4),
    ]  # fmt: skip


def test_counters_of_jobs_that_end_together(tmp_path: Path) -> None:
    ends = [(9, "mapreduce.Job", f"Job {job} completed successfully") for job in (JOB, OTHER)]
    once: list[Line] = [(9, "mapreduce.Job", "Counters: 8"), *COUNTERS]
    put(tmp_path, console([*ends, *once, *once]))
    found = polled(tmp_path)
    assert told(found, "ClientJobCounters") == []
    assert kinds(found) == ["ambiguous", "no_job"]
    later: list[Line] = [ends[0], (9 + 601, "mapreduce.Job", "Counters: 8"), *COUNTERS]
    put(tmp_path, console(later))
    assert kinds(polled(tmp_path)) == ["no_job"]


def test_a_client_that_was_killed_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """A file that each day's run is appended to."""
    day: list[Line] = [(10, "mapreduce.Job", f"Running job: {JOB}"), (20, "mapreduce.Job", " map 10% reduce 0%")]
    next_day: list[Line] = [
        (50_000, "mapreduce.Job", f"Running job: {OTHER}"),
        (50_001, "mapreduce.Job", " map 0% reduce 0%"),
    ]
    rows = read(tmp_path, [*day, *next_day], "ClientJobProgress")
    assert [(row["job_id"], row["map_progress"]) for row in rows] == [(JOB, 0.1), (OTHER, 0.0)]
    put(tmp_path, console([*day, *next_day]))
    found = polled(tmp_path, abandon_ms=50_000_000)
    assert kinds(found) == ["ambiguous"]


def test_progress_goes_back_when_the_application_master_is_started_again(tmp_path: Path) -> None:
    lines = [(n + 1, "mapreduce.Job", f" map {percent}% reduce 0%") for n, percent in enumerate((90, 20, 90))]
    rows = read(tmp_path, [(0, "mapreduce.Job", f"Running job: {JOB}"), *lines], "ClientJobProgress")
    assert [(row["map_progress"], row["elapsed_ms"]) for row in rows] == [(0.9, 1_000), (0.2, 2_000), (0.9, 3_000)]


def test_lines_of_one_second_are_events_of_their_own(tmp_path: Path) -> None:
    lines: list[Line] = [(1, "mapreduce.Job", f" map {percent}% reduce 0%") for percent in (10, 20, 20, 20)]
    rows = read(tmp_path, [(0, "mapreduce.Job", f"Running job: {JOB}"), *lines], "ClientJobProgress")
    assert len({row["event_id"] for row in rows}) == len(rows) == 4


def test_lines_of_no_job(tmp_path: Path) -> None:
    lines: list[Line] = [
        (1, "mapreduce.Job", " map 10% reduce 0%"),
        (2, "mapreduce.Job", " map 20% reduce 0%"),
        (3, "mapreduce.Job", "Counters: 8"),
        *COUNTERS,
        " map 30% reduce 0%",
        "23/11/14 00:00:05 INFO org.example.Job2:  map 40% reduce 0%",
        (5, "mapreduce.Job", " map 1000% reduce 0%"),
        (6, "mapreduce.Job", "Running job: job_170_1x"),
    ]
    put(tmp_path, console(lines))
    found = polled(tmp_path)
    assert told(found) == []
    assert [(problem.kind, problem.place.rpartition(":")[2]) for problem in found.problems] == [
        ("no_job", "1"), ("no_job", "3"),
    ]  # fmt: skip


def test_jobs_in_the_client_itself_are_told_and_left_out(tmp_path: Path) -> None:
    local = "job_local1234_0001"
    lines: list[Line] = [
        (1, "mapreduce.Job", f"Running job: {local}"),
        (2, "mapreduce.Job", " map 10% reduce 0%"),
        (2, "mapreduce.Job", f"Task Id : {attempt(job=local)}, Status : FAILED"),
        (3, "mapreduce.Job", f"Job {local} completed successfully"),
        (3, "mapreduce.Job", "Counters: 8"),
        *COUNTERS,
    ]
    put(tmp_path, console(lines))
    found = polled(tmp_path)
    assert (told(found), kinds(found)) == ([], ["local_job"])


def test_a_job_that_was_not_submitted(tmp_path: Path) -> None:
    staging = "/tmp/hadoop-yarn/staging/ann/.staging"
    lines: list[Line] = [
        (1, "mapreduce.JobSubmitter", f"Cleaning up the staging area {staging}/{JOB}"),
        'Exception in thread "main" java.io.IOException: Failed to run job : Queue root.q is full',
        "\tat org.apache.hadoop.mapred.YARNRunner.submitJob(YARNRunner.java:306)",
        (2, "streaming.StreamJob", "Error Launching job : Output directory hdfs://nn/out already exists"),
        "Streaming Command Failed!",
    ]
    first, second = read(tmp_path, lines, "ClientLaunchFailed", host="edge1")
    assert values(first, "job_id", "user", "client_host", "clock_id") == (JOB, "ann", "edge1", "host:edge1")
    assert "Failed to run job : Queue root.q is full at org" in first["reason"]
    assert values(second, "job_id", "reason") == (None, "Output directory hdfs://nn/out already exists")


def test_how_long_a_program_took_is_of_one_job_or_of_none(tmp_path: Path) -> None:
    def ended(*jobs: str) -> list[Line]:
        return [
            "Job started: Tue Nov 14 00:00:02 UTC 2023",
            *((9, "mapreduce.Job", f"Job {job} completed successfully") for job in jobs),
            "Job ended: Tue Nov 14 00:00:22 UTC 2023",
            "The job took 20 seconds.",
        ]

    rows = read(tmp_path, [*ended(JOB), *ended(), *ended(JOB, OTHER)], "ClientRunEnd")
    assert [values(row, "job_id", "n_jobs", "took_ms") for row in rows] == [
        (JOB, 1, 20_000), (None, 0, 20_000), (None, 2, 20_000),
    ]  # fmt: skip


def test_a_zone_that_is_not_that_of_the_client_is_told(tmp_path: Path) -> None:
    text = "Job started: Sat Apr 22 12:48:53 MDT 2017\n"
    put(tmp_path, text)
    (problem,) = polled(tmp_path).problems
    assert problem.kind == "time_zone"
    assert "MDT" in problem.message
    assert polled(tmp_path, zone="America/Denver").problems == ()


@pytest.mark.parametrize(
    ("date", "zone"),
    [
        ("Fri Dec 31 23:59:59 UTC 9999", "Asia/Tokyo"),
        ("Mon Jan 01 00:00:01 UTC 0001", "America/Denver"),
        ("Sat Jan 01 00:00:01 UTC 0000", "UTC"),
        ("Thu Feb 30 12:00:00 UTC 2023", "UTC"),
    ],
)
def test_a_date_beyond_the_calendar_is_none_and_costs_no_other_line(tmp_path: Path, date: str, zone: str) -> None:
    lines = [f"Job started: {date}", f"Job ended: {date}", "The job took 20 seconds."]
    put(tmp_path, "\n".join(lines) + "\n" + console(HADOOP3))
    found = polled(tmp_path, zone=zone)
    assert "no_time" in {problem.kind for problem in found.problems}
    put(tmp_path, console(HADOOP3))
    alone = polled(tmp_path, zone=zone)
    assert [row["type"] for row in told(found)] == [row["type"] for row in told(alone)]


def test_the_host_of_the_client(tmp_path: Path) -> None:
    put(tmp_path, console(HADOOP3), "edge1_wc.log")
    put(tmp_path, console(HADOOP1), "edge2_wc.log")
    rows = told(polled(tmp_path, name_pattern=r"(?P<host>[^_]+)_.+\.log", hosts={"edge2": "e2.example"}))
    assert {values(row, "client_host", "clock_id", "job_id") for row in rows} == {
        ("edge1", "host:edge1", JOB), ("e2.example", "host:e2.example", OLD_JOB),
    }  # fmt: skip


@pytest.mark.parametrize("lines", [HADOOP3, HADOOP1, STREAMING])
def test_growing_restarted_and_replayed_it_tells_the_same(tmp_path: Path, lines: Sequence[Line]) -> None:
    data = console(lines).encode()
    whole = tmp_path / "whole"
    whole.mkdir()
    put(whole, data)
    expected = told(polled(whole))
    slow = tmp_path / "slow"
    slow.mkdir()
    reader = JobClientLogCollector(JobClientLogOptions(slow))
    grown: list[dict[str, Any]] = []
    for end in range(0, len(data) + 97, 97):
        put(slow, data[:end])
        grown += told(reader.poll(NOW + end))
        position = saved(reader.checkpoint())
        reader = JobClientLogCollector(JobClientLogOptions(slow))
        reader.restore(position)
    grown += told(reader.poll(NOW + 86_400_000))
    names = ("event_id", "type", "t_lo_ms", "t_hi_ms", "job_id", "status", "reason", "counters", "elapsed_ms")
    grown.sort(key=lambda row: row["source_seq"])
    assert [values(row, *names) for row in grown] == [values(row, *names) for row in expected]

    replayed = JobClientLogCollector(JobClientLogOptions(whole))
    clocked: list[dict[str, Any]] = []
    for second in range(0, 60):
        found = replayed.poll(DAY_MS + second * 1_000)
        rows = told(found)
        assert all(row["t_lo_ms"] <= DAY_MS + second * 1_000 for row in rows)
        clocked += rows
    assert sorted(row["event_id"] for row in clocked) == sorted(row["event_id"] for row in expected)


def test_a_failure_waits_for_its_text_and_holds_the_watermark_meanwhile(tmp_path: Path) -> None:
    begin = HADOOP3[: HADOOP3.index(HADOOP3[9]) + 2]
    path = put(tmp_path, console(begin))
    reader = JobClientLogCollector(JobClientLogOptions(tmp_path))
    at_ms = DAY_MS + 13_000
    os.utime(path, (at_ms / 1000, at_ms / 1000))
    first = reader.poll(at_ms + 7_000)
    assert told(first, "ClientAttemptEnd") == []
    assert first.watermark_ms <= at_ms
    assert reader.poll(at_ms + 9_000).watermark_ms <= at_ms
    later = reader.poll(at_ms + 60_000)
    (row,) = told(later, "ClientAttemptEnd")
    assert row["reason"] == "Error: java.io.IOException: Spill failed"
    assert later.watermark_ms == at_ms + 55_000


def test_counters_that_break_off(tmp_path: Path) -> None:
    put(tmp_path, console(HADOOP3[: HADOOP3.index(COUNTERS[4])]))
    found = polled(tmp_path)
    (counters,) = told(found, "ClientJobCounters")
    assert values(counters, "n_maps", "n_input_records") == (3, None)
    (problem,) = found.problems
    assert (problem.kind, problem.message) == (
        "truncated",
        "2 of 8 counters stand here; what there is is used",
    )


def test_a_last_line_that_breaks_off_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, console(HADOOP3).encode()[:-30])
    reader = JobClientLogCollector(JobClientLogOptions(tmp_path))
    problems = [problem for n in range(3) for problem in reader.poll(NOW + n * 60_000).problems]
    assert [(problem.kind, problem.place) for problem in problems] == [("truncated", f"{path}:{len(HADOOP3) - 1}")]


def test_a_file_that_is_written_anew_is_another_client_s(tmp_path: Path) -> None:
    """As cron's `> job.log` does; the client of before was killed."""
    begin = console(HADOOP3[:10])
    path = put(tmp_path, begin)
    reader = JobClientLogCollector(JobClientLogOptions(tmp_path))
    assert len(told(reader.poll(NOW))) == 3
    path.write_text(
        console([(100, "mapreduce.Job", f"Running job: {OTHER}"), (110, "mapreduce.Job", " map 5% reduce 0%")])
    )
    found = reader.poll(NOW + 15_000)
    assert [(row["type"], row["job_id"]) for row in told(found)] == [
        ("ClientJobStart", OTHER), ("ClientJobProgress", OTHER),
    ]  # fmt: skip
    assert "ambiguous" not in kinds(found)


def test_files_that_are_gone_and_files_of_others(tmp_path: Path) -> None:
    path = put(tmp_path, console(HADOOP3[:10]))
    put(tmp_path, b"", "empty.err")
    put(tmp_path, console(HADOOP1), ".hidden")
    put(tmp_path, console(HADOOP1), "old.log.gz")
    put(tmp_path, "root@edge1: 17 map 3% reduce nothing\n" * 1_000, "notes.txt")
    reader = JobClientLogCollector(JobClientLogOptions(tmp_path))
    first = reader.poll(NOW)
    assert {row["job_id"] for row in told(first)} == {JOB}
    assert first.problems == ()
    path.unlink()
    for n in range(1, 5):
        reader.poll(NOW + n * 600_000)
    assert reader.checkpoint()["consoles"] == {}
    with pytest.raises(SourceUnavailableError, match="expected a readable folder"):
        polled(tmp_path / "nowhere")


def test_carriage_returns_rubbish_and_long_lines(tmp_path: Path) -> None:
    names = ("event_id", "type", "reason", "counters", "raw")
    expected = [values(row, *names) for row in read(tmp_path, HADOOP3)]
    assert [values(row, *names) for row in read(tmp_path, console(HADOOP3, end="\r\n"))] == expected
    lines = console(HADOOP3).encode().split(b"\n")
    rubbish = [b"\xff\xfe\0map 3% reduce \x1b[2J", b"Running job: job_" + b"9" * 5_000, b"x" * 2_000_000, b"["]
    before_failure = 9
    put(tmp_path, b"\n".join([*rubbish, *lines[:before_failure], *rubbish, *lines[before_failure:]]))
    found = polled(tmp_path)
    assert [values(row, *names) for row in told(found)] == expected
    assert set(kinds(found)) == {"oversized_record"}
    put(tmp_path, console(HADOOP3).encode("utf-16"))
    (problem,) = polled(tmp_path).problems
    assert problem.kind == "not_log"
    assert "iconv" in problem.message


def test_hostile_text_is_shown_and_bounded(tmp_path: Path) -> None:
    lines: list[Line] = [
        (1, "mapreduce.Job", f"Running job: {JOB}"),
        (2, "mapreduce.Job", f"Task Id : {attempt()}, Status : FAILED"),
        *["\x1b[2J\u202e" + "y" * 900] * 200,
        (3, "mapreduce.Job", f"Job {JOB} failed with state FAILED due to: " + "z" * 100_000),
        (3, "mapreduce.Job", "Counters: 9999"),
        "\t" + "g" * 1_900,
        *(f"\t\t{n}{'n' * 250}={n}" for n in range(400)),
        f"\t\tbig={10**18 * 9}9",
        "\t\tno=number",
    ]
    failed, end, counters = read(tmp_path, lines, "ClientAttemptEnd", "ClientJobEnd", "ClientJobCounters")
    assert failed["reason"].isprintable()
    assert len(failed["reason"]) <= 2_000 >= len(end["reason"])
    assert len(counters["counters"]) < 70_000
    assert all(row["raw"].isprintable() and len(row["raw"]) <= 2_000 for row in (failed, end, counters))


def test_options_and_positions_that_cannot_work(tmp_path: Path) -> None:
    wrong: dict[str, Any]
    for wrong, said in (
        ({"name_pattern": "("}, "no regular expression"),
        ({"hold_ms": -1}, "hold_ms is -1"),
        ({"zone": "Mars"}, "unknown time zone"),
    ):
        with pytest.raises(OptionError, match=said):
            JobClientLogCollector(JobClientLogOptions(tmp_path, **wrong))
    reader = JobClientLogCollector(JobClientLogOptions(tmp_path))
    good = saved(reader.checkpoint())
    damage: dict[str, Any]
    for damage in ({"version": 0}, {"consoles": {"1:2": [{}, None, "x", 0]}}, {"files": 3}):
        with pytest.raises(PositionError):
            reader.restore(good | damage)


def test_every_attribute_of_the_table_is_told(tmp_path: Path) -> None:
    more: list[Line] = [
        (50, "mapreduce.JobSubmitter", f"Cleaning up the staging area /staging/ann/.staging/{OTHER}"),
        "Exception: no",
        (51, "mapreduce.Job", f"Job {OTHER} failed with state KILLED due to: a user"),
        (51, "mapreduce.Job", f"Counters: {len(CHOSEN)}"),
        "\tJob Counters ",
        *(f"\t\t{name}=1" for name in CHOSEN),
    ]
    put(tmp_path, console([*HADOOP3, *more]))
    rows = told(polled(tmp_path, host="edge1"))
    found = {(row["type"], name) for row in rows for name in row} - {
        (row["type"], name) for row in rows for name in HEADER.names
    }
    assert found == {(row.type, row.attribute) for row in event_table() if "job_client_log" in row.sources}


@pytest.mark.external
@pytest.mark.parametrize("folder", ["normal", "delay"])
def test_real_consoles_by_another_count(folder: str) -> None:
    """Lines counted by their texts; of two files, into which two clients wrote at once, some progress is nobody's."""
    root = DATA / folder
    texts = {path: path.read_text() for path in sorted(root.glob("*.txt"))}
    found = polled(root, zone="America/Denver")
    rows = told(found)
    whole = "".join(texts.values())
    counted = Counter(row["type"] for row in rows)
    expected = {
        "ClientJobStart": "INFO mapreduce.Job: Running job: ",
        "ClientAttemptEnd": "INFO mapreduce.Job: Task Id : ",
        "ClientRunEnd": "\nThe job took ",
    }
    assert {name: counted[name] for name in expected} == {name: whole.count(text) for name, text in expected.items()}
    assert counted["ClientJobCounters"] == len(re.findall(r"INFO mapreduce.Job: Counters: [1-9]", whole))
    ends = re.findall(r"Job: Job (job_\d+_\d+) (completed|failed with state (\w+))", whole)
    assert sorted((row["job_id"], row["status"]) for row in rows if row["type"] == "ClientJobEnd") == sorted(
        (job, state or "SUCCEEDED") for job, _, state in ends
    )
    ambiguous = {problem.place.rpartition(":")[0] for problem in found.problems if problem.kind == "ambiguous"}
    assert {Path(place).name for place in ambiguous} == (set() if folder == "normal" else {"job-37.txt", "job-38.txt"})
    others = "".join(text for path, text in texts.items() if str(path) not in ambiguous)
    progress = [row for row in rows if row["type"] == "ClientJobProgress"]
    assert sum(row["origin"].rpartition(":")[0] not in ambiguous for row in progress) == others.count("Job:  map ")
    took = [int(seconds) * 1000 for seconds in re.findall(r"The job took (\d+) seconds", whole)]
    assert sorted(row["took_ms"] for row in rows if row["type"] == "ClientRunEnd") == sorted(took)
    n_counters = sum(map(int, re.findall(r"Counters: (\d+)", whole)))
    told_counters = [json.loads(row["counters"]) for row in rows if row["type"] == "ClientJobCounters"]
    assert sum(len(group) for groups in told_counters for group in groups.values()) == n_counters
