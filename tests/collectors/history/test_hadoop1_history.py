"""Hadoop 1 job histories: written by hand after its JobHistory.java, read back event by event."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from typing import Any

import pytest

from collectors.base import Problem, ProblemLog
from collectors.history.hadoop1_history import Hadoop1Job, Hadoop1Parser
from collectors.history.hadoop1_lines import counter_groups
from collectors.identity import lifecycle_id
from engine.events import EventBatch
from tests.conftest import SHARED

JOB = "job_201001020304_0007"
MAP, REDUCE = "attempt_201001020304_0007_m_000000_0", "attempt_201001020304_0007_r_000000_0"
COUNTERS = (
    r"{(org\.apache\.hadoop\.mapred\.Task$Counter)(Map-Reduce Framework)[(MAP_INPUT_RECORDS)(Map input records)(12)]"
    r"[(MAP_OUTPUT_RECORDS)(Map output records)(13)][(MAP_OUTPUT_BYTES)(Map output bytes)(140)]"
    r"[(PHYSICAL_MEMORY_BYTES)(Physical memory \\(bytes\\) snapshot)(7)][(MAP_INPUT_BYTES)(Map input bytes)(99)]"
    r"[(MAP_OUTPUT_MATERIALIZED_BYTES)(Map output materialized bytes)(55)]"
    r"[(SPILLED_RECORDS)(Spilled Records)(13)][(CPU_MILLISECONDS)(CPU time spent \\(ms\\))(290)]}"
)
HISTORY = rf"""Meta VERSION="1" .
Job JOBID="{JOB}" JOBNAME="say \"hi\", v1\.2" USER="u" SUBMIT_TIME="1262401440000" JOB_QUEUE="q" JOBCONF="x\.xml" .
Job JOBID="{JOB}" JOB_PRIORITY="NORMAL" .
Job JOBID="{JOB}" LAUNCH_TIME="1262401441000" TOTAL_MAPS="1" TOTAL_REDUCES="1" JOB_STATUS="PREP" .
MapAttempt TASK_TYPE="SETUP" TASK_ATTEMPT_ID="attempt_201001020304_0007_m_000001_0" START_TIME="1262401441500" .
MapAttempt TASK_TYPE="MAP" TASKID="task_201001020304_0007_m_000000" TASK_ATTEMPT_ID="{MAP}" START_TIME="1262401400000" TRACKER_NAME="tracker_n1\.example:localhost/127\.0\.0\.1:1" HTTP_PORT="50060" .
MapAttempt TASK_TYPE="MAP" TASKID="task_201001020304_0007_m_000000" TASK_ATTEMPT_ID="{MAP}" TASK_STATUS="SUCCESS" FINISH_TIME="1262401405000" HOSTNAME="/r1/n1\.example" STATE_STRING="" COUNTERS="{COUNTERS}" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_201001020304_0007_r_000000" TASK_ATTEMPT_ID="{REDUCE}" START_TIME="1262401450000" TRACKER_NAME="n2/127\.0\.0\.1:3" HTTP_PORT="1" .
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_201001020304_0007_r_000000" TASK_ATTEMPT_ID="{REDUCE}" TASK_STATUS="KILLED" SHUFFLE_FINISHED="1262401452000" SORT_FINISHED="1262401452500" FINISH_TIME="1262401459000" HOSTNAME="n2" ERROR="java\.io\.IOException: exit 15\.
	at Task\.run(Task\.java:4)
" .
Job JOBID="{JOB}" FINISH_TIME="1262401460000" JOB_STATUS="KILLED" FINISHED_MAPS="1" FINISHED_REDUCES="0" .
""".encode()  # noqa: E501 - records are lines


def parse(data: bytes, chunk: int = 0) -> tuple[list[Hadoop1Job], tuple[Problem, ...]]:
    problems = ProblemLog("job_history")
    parser = Hadoop1Parser("h", problems, 3)
    for at in range(0, len(data), chunk or len(data) or 1):
        parser.feed(data[at : at + chunk] if chunk else data)
    parser.close()
    return parser.jobs, problems.drain()


def rows_of(job: Hadoop1Job) -> dict[str, dict[str, Any]]:
    return {row["type"]: defaultdict(lambda: None, row) for row in job.events.take_batch().rows()}


@pytest.mark.parametrize("chunk", [0, 1, 37])
def test_all_events_of_a_history(chunk: int) -> None:
    (job,), problems = parse(HISTORY, chunk)
    rows = rows_of(job)
    assert problems == ()
    assert set(rows) == {
        "JobStart", "JobEnd", "MapStart", "MapEnd", "Mapper", "DataIO", "ReducerStart", "ReducerEnd", "Reducer",
    }  # fmt: skip
    start, mapper, reducer, end = (rows[name] for name in ("JobStart", "Mapper", "Reducer", "JobEnd"))
    assert (start["job_name"], start["user"], start["queue"], start["n_maps"]) == ('say "hi", v1.2', "u", "q", 1)
    assert (start["event_id"], start["clock_id"]) == (lifecycle_id("JobStart", JOB), "jobtracker:201001020304")
    assert (end["status"], end["period_ms"], end["source_rank"]) == ("KILLED", 19_000, 3)
    assert (mapper["host"], mapper["rack"], mapper["clock_id"]) == ("n1.example", "/r1", "host:n1.example")
    # The input format has no counter of its own in this version; the record reader's stands for it.
    assert {k: mapper[k] for k in ("n_input_records", "n_output_records", "input_bytes", "output_bytes", "cpu_ms")} == {
        "n_input_records": 12, "n_output_records": 13, "input_bytes": 99, "output_bytes": 140, "cpu_ms": 290,
    }  # fmt: skip
    assert (rows["DataIO"]["size_bytes"], rows["DataIO"]["event_id"]) == (55, lifecycle_id("DataIO", MAP))
    assert (reducer["host"], reducer["rack"], reducer["status"]) == ("n2", None, "KILLED")
    assert (reducer["shuffle_ms"], reducer["sort_ms"], reducer["reduce_ms"]) == (2_000, 500, 6_500)
    assert reducer["origin"] == "h:9"


def test_parts_of_a_stream() -> None:
    other = HISTORY.replace(b"_0007", b"_0008")
    stream = (
        b"\f!!FILE=jt_1_job_201001020304_0007_conf.xml!!\n<configuration/>\n"
        + b"\f!!FILE=jt_1_job_201001020304_0007_u_a%2Fb!!\n"
        + HISTORY.rstrip(b"\n")  # the last line has no end of its own
        + b"\f!!FILE=jt_1_job_201001020304_0009_u_c!!\n"
        + other
        + HISTORY.replace(b"_0007", b"_0010")  # joined without a mark
    )
    jobs, problems = parse(stream)
    assert [(job.job.job_id[-2:] if job.job else "", job.name[-3:]) for job in jobs] == [
        ("07", "a/b"),
        ("08", "u_c"),
        ("10", ""),
    ]
    assert all(job.finished and len(job.events) == 9 for job in jobs)
    assert [p.kind for p in problems] == ["name_disagrees"]
    assert jobs[0].digest == parse(HISTORY)[0][0].digest
    assert jobs[0].digest != jobs[1].digest


@pytest.mark.parametrize(
    ("data", "kinds", "n_events"),
    [
        (HISTORY[:-60], ["truncated"], 8),
        (HISTORY[: HISTORY.rindex(b"Job JOBID")], ["unfinished"], 8),
        (HISTORY.replace(b'JOB_STATUS="KILLED"', b'JOB_STATUS="RUNNING"'), ["unfinished"], 8),
        (HISTORY.replace(b'FINISH_TIME="1262401405000"', b'FINISH_TIME=""'), ["missing_time"], 6),
        (HISTORY.replace(b'FINISH_TIME="1262401405000"', b'FINISH_TIME="1262401300000"'), ["negative_period"], 9),
        (
            HISTORY.replace(b'START_TIME="1262401450000"', b'START_TIME="0"'),
            ["missing_time", "finish_without_start"],
            8,
        ),
        (HISTORY.replace(b"m_000000_0", b"m_x_0"), ["bad_record", "bad_record"], 5),
        (HISTORY.replace(b'HTTP_PORT="50060" .', b'HTTP_PORT="50060"'), ["bad_record", "finish_without_start"], 8),
        (HISTORY.replace(b"Job JOBID", b"\x00\xff\nJob JOBID", 1), ["bad_record"], 9),
        (HISTORY.replace(b"(SPILLED_RECORDS)", b"(OTHER)"), ["missing_counter"], 9),
        (HISTORY + HISTORY.splitlines(keepends=True)[-1].replace(b"60000", b"60001"), ["second_finish"], 9),
        (b"", ["not_a_history"], None),
        (b"nothing\n", ["bad_record", "not_a_history"], None),
    ],
)
def test_bad_input_yields_what_can_be_read(data: bytes, kinds: list[str], n_events: int | None) -> None:
    jobs, problems = parse(data)
    assert sorted(p.kind for p in problems) == sorted(kinds)
    assert [len(job.events) for job in jobs] == ([] if n_events is None else [n_events])


def test_a_missing_end_is_not_invented() -> None:
    (job,), _ = parse(HISTORY.replace(b'FINISH_TIME="1262401405000"', b'FINISH_TIME="1262401300000"'))
    assert rows_of(job)["MapEnd"]["period_ms"] is None


def test_histories_before_version_1_are_lines_without_escapes() -> None:
    text = (
        f'Job JOBID="{JOB}" JOBNAME="a\\b" USER="u" SUBMIT_TIME="1262401440000" \n'
        f'Job JOBID="{JOB}" LAUNCH_TIME="1262401441000" TOTAL_MAPS="0" TOTAL_REDUCES="0" \n'
        f'Job JOBID="{JOB}" FINISH_TIME="1262401460000" JOB_STATUS="SUCCESS" \n'
    )
    (job,), problems = parse(text.encode())
    assert problems == ()
    assert rows_of(job)["JobEnd"]["job_name"] == "a\\b"


def test_counters_of_old_versions() -> None:
    old = "Job Counters .Launched map tasks:2,Map-Reduce Framework.Map input records:31,Map-Reduce Framework.Other:4"
    assert list(counter_groups(old)) == [("TaskCounter", [{"name": "MAP_INPUT_RECORDS", "value": 31}])]
    assert list(counter_groups("{(g)(G)[(a)(A)(1)]}{(b.FileInputFormat$Counter)(F)[(BYTES_READ)(Bytes)(9)]}")) == [
        ("g", [{"name": "a", "value": 1}]),
        ("FileInputFormatCounter", [{"name": "BYTES_READ", "value": 9}]),
    ]


# ---- real files ------------------------------------------------------------------------------------------------

DATA = SHARED / "data" / "jobhistory1"


def read(name: str) -> bytes:
    path = DATA / name
    return gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()


@pytest.mark.external
@pytest.mark.parametrize(
    "name",
    [
        "sample-job-tracker-logs.gz",
        "v20-single-input-log.gz",
        "chukwa_JobHistory.log",
        "job_201311192236_3583_1386370578196_user1_Sleep+job",
    ],
)
def test_real_histories_agree_with_a_count_of_their_lines(name: str) -> None:
    data = read(name)
    jobs, problems = parse(data)
    assert {problem.kind for problem in problems} <= {"clock_skew"}  # some of its hosts are minutes behind
    found = Counter(EventBatch.concat(job.events.take_batch() for job in jobs).strings("type").to_pylist())
    text = data.decode()
    expected: Counter[str] = Counter()
    for kind, names in (("MAP", ("Map", "Mapper")), ("REDUCE", ("Reducer", "Reducer"))):
        lines = re.findall(rf'^(?:Map|Reduce)Attempt TASK_TYPE="{kind}" .*$', text, re.MULTILINE)
        expected[names[0] + "Start"] = sum("START_TIME=" in line for line in lines)
        expected[names[0] + "End"] = expected[names[1]] = sum("TASK_STATUS=" in line for line in lines)
    expected["JobStart"] = len(re.findall(r"^Job .*LAUNCH_TIME=", text, re.MULTILINE))
    expected["JobEnd"] = len(re.findall(r"^Job .*FINISH_TIME=", text, re.MULTILINE))
    assert found == expected


@pytest.mark.external
def test_another_parser_reads_the_same_from_the_same_history() -> None:
    """Rumen's reading of the sample logs: every time, host, status and counter of every attempt."""
    jobs, _ = parse(read("sample-job-tracker-logs.gz"))
    ours = {row["event_id"]: row for job in jobs for row in job.events.take_batch().rows()}
    text = gzip.decompress((SHARED / "data/traces/rumen_job-tracker-logs-trace-output.gz").read_bytes()).decode()
    theirs, at = [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        job, at = json.JSONDecoder().raw_decode(text, at)
        theirs.append(job)
    attempts = [a for job in theirs for t in job["mapTasks"] + job["reduceTasks"] for a in t["attempts"]]
    assert len(attempts) == 276  # the other 7 of 283 set jobs up and clean up after them
    known = {"SUCCESS": "SUCCEEDED"}
    for a in attempts:
        is_map = "_m_" in a["attemptID"]
        start = ours.pop(lifecycle_id("MapStart" if is_map else "ReducerStart", a["attemptID"]))
        end = ours.pop(lifecycle_id("MapEnd" if is_map else "ReducerEnd", a["attemptID"]))
        summary = ours.pop(lifecycle_id("Mapper" if is_map else "Reducer", a["attemptID"]))
        assert (start["t_lo_ms"], end["t_lo_ms"]) == (a["startTime"], a["finishTime"])
        assert end["status"] == known.get(a["result"], a["result"])
        assert f"{end.get('rack', '')}/{end['host']}".endswith(a["hostName"].replace("\\.", "."))
        fields = (
            {"mapInputRecords": "n_input_records", "mapOutputRecords": "n_output_records",
             "mapOutputBytes": "output_bytes"}
            if is_map
            else {"reduceInputRecords": "n_input_records", "reduceOutputRecords": "n_output_records",
                  "reduceShuffleBytes": "input_bytes"}
        ) | {"spilledRecords": "n_spilled_records"}  # fmt: skip
        for theirs_name, ours_name in fields.items():
            assert (summary.get(ours_name), a["attemptID"]) == (
                None if a[theirs_name] < 0 else a[theirs_name],
                a["attemptID"],
            )
    for job in theirs:
        start = ours.pop(lifecycle_id("JobStart", job["jobID"]))
        end = ours.pop(lifecycle_id("JobEnd", job["jobID"]))
        assert (start["t_lo_ms"], end["t_lo_ms"]) == (job["launchTime"], job["finishTime"])
        assert (start["n_maps"], start["n_reduces"], start["user"]) == (
            job["totalMaps"],
            job["totalReduces"],
            job["user"],
        )
        assert end["status"] == known.get(job["outcome"], job["outcome"])
    assert ours == {}  # neither has an event that the other lacks; Rumen leaves out the jobs' names


# ---- Hadoop 0.18 -----------------------------------------------------------------------------------------------

OLD = f"""Job JOBID="{JOB}" JOBNAME="sort" USER="u" SUBMIT_TIME="1262401440000" JOBCONF="x.xml"
Job JOBID="{JOB}" LAUNCH_TIME="1262401441000" TOTAL_MAPS="1" TOTAL_REDUCES="1"
Task TASKID="task_201001020304_0007_m_000000" TASK_TYPE="MAP" START_TIME="1262401442000" SPLITS="/r1/n1"
MapAttempt TASK_TYPE="MAP" TASKID="task_201001020304_0007_m_000000" TASK_ATTEMPT_ID="{MAP}" START_TIME="1262401443000" HOSTNAME="/r1/n1.example"
MapAttempt TASK_TYPE="MAP" TASKID="task_201001020304_0007_m_000000" TASK_ATTEMPT_ID="{MAP}" TASK_STATUS="SUCCESS" FINISH_TIME="1262401449000" HOSTNAME="n1.example"
Task TASKID="task_201001020304_0007_m_000000" TASK_TYPE="MAP" TASK_STATUS="SUCCESS" FINISH_TIME="1262401450000" COUNTERS="File Systems.HDFS bytes read:90,Map-Reduce Framework.Map input records:12,Map-Reduce Framework.Map output records:13,Map-Reduce Framework.Map input bytes:99,Map-Reduce Framework.Map output bytes:140"
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_201001020304_0007_r_000000" TASK_ATTEMPT_ID="{REDUCE}" START_TIME="1262401450000" HOSTNAME="/r2/n2"
ReduceAttempt TASK_TYPE="REDUCE" TASKID="task_201001020304_0007_r_000000" TASK_ATTEMPT_ID="{REDUCE}" TASK_STATUS="SUCCESS" SHUFFLE_FINISHED="1262401452000" SORT_FINISHED="1262401452500" FINISH_TIME="1262401459000" HOSTNAME="/r2/n2"
Job JOBID="{JOB}" FINISH_TIME="1262401460000" JOB_STATUS="SUCCESS" FINISHED_MAPS="1" FINISHED_REDUCES="1"
""".encode()  # noqa: E501 - records are lines


@pytest.mark.parametrize("chunk", [0, 1, 37])
def test_hadoop_018_tells_counters_of_tasks_and_hosts_of_starts(chunk: int) -> None:
    (job,), problems = parse(OLD, chunk)
    rows = rows_of(job)
    start, mapper, reducer = (rows[name] for name in ("MapStart", "Mapper", "Reducer"))
    assert (start["host"], start["rack"], start["clock_id"]) == ("n1.example", "/r1", "host:n1.example")
    assert (mapper["host"], mapper["rack"], mapper["period_ms"]) == ("n1.example", "/r1", 6_000)
    assert {k: mapper[k] for k in ("n_input_records", "n_output_records", "input_bytes", "output_bytes")} == {
        "n_input_records": 12, "n_output_records": 13, "input_bytes": 99, "output_bytes": 140,
    }  # fmt: skip
    # Of the reducer no record has counters: it is told with what is known, its phases among it.
    assert (reducer["status"], reducer["shuffle_ms"], reducer["n_input_records"]) == ("SUCCEEDED", 2_000, None)
    assert {p.kind for p in problems} == {"missing_counter"}
    assert all("n_spilled_records" in p.message or "input" in p.message or "output" in p.message for p in problems)


def test_counters_of_a_task_belong_to_its_last_successful_attempt() -> None:
    """A map whose output was lost is run again: each of its ends is followed by a record of its task."""
    lines = OLD.decode().splitlines(keepends=True)
    again = [
        line.replace(MAP, MAP[:-1] + "1").replace("records:12", "records:21")
        for line in lines[3:6]
    ]  # fmt: skip
    (job,), _ = parse("".join([*lines[:6], *again, *lines[6:]]).encode())
    found = {row["attempt_id"]: row for row in job.events.take_batch().rows() if row["type"] == "Mapper"}
    assert {attempt: row["n_input_records"] for attempt, row in found.items()} == {MAP: 12, MAP[:-1] + "1": 21}
