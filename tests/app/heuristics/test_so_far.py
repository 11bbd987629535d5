"""A job that still runs, judged by the tasks that are done: what REST tells of them is enough for most."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from app.heuristics import corrected
from app.heuristics.from_events import figures_so_far, job_figures
from app.heuristics.judging import judged, judged_so_far
from app.heuristics.severity import Severity
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from tests.app.heuristics.jobs import MIB, MINUTE
from tests.collectors import rest_server as rest

NONE, LOW, MODERATE, SEVERE, CRITICAL = Severity
JOB = "job_1700000000000_0001"
TASK_COUNTER = "org.apache.hadoop.mapreduce.TaskCounter"
FILE_SYSTEM = "org.apache.hadoop.mapreduce.FileSystemCounter"


def ended(kind: str, number: int, status: str = "SUCCEEDED", **told: Any) -> dict[str, Any]:
    """The end of an attempt with its figures, as REST and histories tell it."""
    task_id = f"task_{JOB[4:]}_{kind}_{number:06}"
    ids = {"job_id": JOB, "task_id": task_id, "attempt_id": f"attempt{task_id[4:]}_0"}
    at = {"type": "Mapper" if kind == "m" else "Reducer", "t_lo_ms": 1_000 + number, "t_hi_ms": 1_000 + number}
    return {**at, **ids, "status": status, **told}


def table(*rows: Mapping[str, Any]) -> pa.Table:
    start = {"type": "JobStart", "t_lo_ms": 1, "t_hi_ms": 1, "job_id": JOB, "n_maps": 300, "n_reduces": 10}
    names = dict.fromkeys(name for row in (start, *rows) for name in row)
    return pa.table({name: [row.get(name) for row in (start, *rows)] for name in names})


def so_far(*rows: Mapping[str, Any]) -> dict[str, tuple[Severity | None, int]]:
    judgement = judged_so_far(figures_so_far(JOB, table(*rows)))
    return {finding.heuristic: (finding.severity, finding.score) for finding in judgement.corrected}


def test_what_rest_tells_of_a_running_job_is_judged() -> None:
    """The job runs: its list of tasks has one that is not done."""
    script = rest.running_job()
    script.documents[rest.AM] = {"jobs": {"job": [rest.job()]}}
    polled = YarnRestCollector(YarnRestOptions(), script).poll(rest.NOW_MS).events
    told = [row for row in polled.rows() if row["type"] != "TaskSample"]
    assert "JobEnd" not in {row["type"] for row in told}
    names = dict.fromkeys(name for row in told for name in row)
    events = pa.table({name: [row.get(name) for row in told] for name in names})
    figures = figures_so_far(rest.JOB, events)
    (done,) = [row for row in told if row["type"] == "Mapper"]
    assert figures.maps[0].counters == {
        "GC_TIME_MILLIS": done["gc_ms"], "CPU_MILLISECONDS": done["cpu_ms"],
        "SPILLED_RECORDS": done["n_spilled_records"], "MAP_OUTPUT_RECORDS": done["n_output_records"],
        "INPUT_BYTES_READ": done["input_bytes"],
    }  # fmt: skip
    judgement = judged_so_far(figures)
    known = {finding.heuristic for finding in judgement.corrected if finding.severity is not None}
    assert {"mapper-gc", "mapper-time", "mapper-spill", "reducer-gc", "reducer-time", "shuffle-sort"} <= known
    assert judgement.gaps[0].endswith("1 of 2 maps and 1 of 1 reduces that have succeeded")
    assert judgement.dr_elephant == ()


@pytest.mark.parametrize(
    ("gc_ms", "severity"), [(9, NONE), (10, LOW), (20, MODERATE), (30, SEVERE), (40, CRITICAL)]
)  # fmt: skip
def test_garbage_collection_by_its_limits(gc_ms: int, severity: Severity) -> None:
    maps = [ended("m", n, period_ms=15 * MINUTE, gc_ms=gc_ms, cpu_ms=1_000) for n in range(3)]
    assert so_far(*maps)["mapper-gc"] == (severity, severity * 3 if severity > LOW else 0)


def test_skew_and_speed_by_bytes_that_the_input_format_read() -> None:
    small = [ended("m", n, period_ms=MINUTE, input_bytes=64 * MIB) for n in range(200)]
    large = ended("m", 200, period_ms=MINUTE, input_bytes=17 * 64 * MIB)
    # 200 tasks in the smaller group, sixteen times as much in the larger one, which reads 17 blocks.
    assert so_far(*small, large)["mapper-skew"] == (CRITICAL, 4 * 201)
    assert so_far(*small[:49], large)["mapper-skew"] == (LOW, 0)  # 49 tasks in the smaller group
    slow = [ended("m", n, period_ms=30 * MINUTE, input_bytes=MIB) for n in range(5)]
    assert so_far(*slow)["mapper-speed"] == (CRITICAL, 20)


def test_they_agree_with_those_of_the_whole_job_where_the_counters_are_the_same() -> None:
    """The history has all counters, REST those of Mapper and Reducer; the job had the same tasks."""
    summaries, whole = [], []
    for n in range(120):
        figures = {"gc_ms": 30 + n, "cpu_ms": 1_000, "n_spilled_records": 230 + n, "n_output_records": 100}
        of_map = ended("m", n, period_ms=11 * MINUTE + n, input_bytes=MIB * (1 + n), **figures)
        counters = {
            TASK_COUNTER: {
                "GC_TIME_MILLIS": 30 + n, "CPU_MILLISECONDS": 1_000, "SPILLED_RECORDS": 230 + n,
                "MAP_OUTPUT_RECORDS": 100,
            },
            FILE_SYSTEM: {"HDFS_BYTES_READ": MIB * (1 + n)},
        }  # fmt: skip
        summaries.append(of_map)
        ids = {name: of_map[name] for name in ("job_id", "task_id", "attempt_id", "t_lo_ms", "t_hi_ms")}
        whole.append({**ids, "type": "AttemptCounters", "counters": json.dumps(counters)})
    end = {"type": "JobEnd", "t_lo_ms": 9_000, "t_hi_ms": 9_000, "job_id": JOB, "status": "SUCCEEDED"}
    after = {
        finding.heuristic: finding for finding in corrected.judge(job_figures(JOB, table(*summaries, *whole, end)))
    }
    before = corrected.judge_so_far(figures_so_far(JOB, table(*summaries)))
    assert {finding.heuristic for finding in before} == {
        "mapper-skew", "mapper-gc", "mapper-time", "mapper-speed", "mapper-spill",
    }  # fmt: skip
    assert [finding for finding in before if finding != after[finding.heuristic]] == []
    assert {finding.severity for finding in before} > {NONE}


def test_attempts_that_failed_or_are_not_known_do_not_count() -> None:
    good = ended("m", 0, period_ms=1_000, gc_ms=1, cpu_ms=1_000)
    bad = ended("m", 1, "FAILED", period_ms=90 * MINUTE, gc_ms=900, cpu_ms=1_000)
    assert len(figures_so_far(JOB, table(good, bad)).maps) == 1
    assert so_far(good, bad)["mapper-gc"] == (NONE, 0)
    assert so_far(bad) == {}


def test_a_counter_that_nobody_told_is_not_known() -> None:
    assert so_far(ended("m", 0, period_ms=1_000))["mapper-gc"] == (None, 0)
    assert "mapper-memory" not in so_far(ended("m", 0, period_ms=1_000))


def test_a_job_that_has_ended_is_judged_as_before() -> None:
    """Without its counters: what Mapper tells is no reason not to ask for its history."""
    end = {"type": "JobEnd", "t_lo_ms": 9_000, "t_hi_ms": 9_000, "job_id": JOB, "status": "SUCCEEDED"}
    judgement = judged(job_figures(JOB, table(ended("m", 0, period_ms=1_000, gc_ms=1, cpu_ms=1_000), end)))
    assert {finding.heuristic: finding.severity for finding in judgement.corrected}["mapper-gc"] is None
