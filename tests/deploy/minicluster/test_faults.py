"""The ground truth is made from what was injected, on a cluster that answers from a table."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deploy.minicluster.cluster import Cluster
from deploy.minicluster.errors import JobError
from deploy.minicluster.hadoop.hadoop_api import HadoopApi, application_of, task_of
from deploy.minicluster.settings import Settings
from deploy.minicluster.workload import faults
from deploy.minicluster.workload.faults import Injection

JOB = "job_1_0001"


def attempt(
    kind: str, number: int, host: str, start: int = 0, finish: int = 0, state: str = "RUNNING"
) -> dict[str, Any]:
    letter = "m" if kind == "MAP" else "r"
    return {
        "id": f"attempt_1_0001_{letter}_{number:06d}_0",
        "type": kind,
        "nodeHttpAddress": f"{host}:18042",
        "startTime": start,
        "finishTime": finish,
        "state": state,
    }


class TableApi:
    """Stands for HadoopApi."""

    def __init__(self, attempts: list[dict[str, Any]], am_host: str = "node1", size: int = 0) -> None:
        self.attempts = {entry["id"]: entry for entry in attempts}
        self.am_host = am_host
        self.size = size

    def live_tasks(self, _job: str) -> list[dict[str, Any]]:
        return [
            {"id": task_of(key), "type": entry["type"], "state": entry["state"], "successfulAttempt": key}
            for key, entry in self.attempts.items()
        ]

    def live_attempts(self, _job: str, task: str) -> list[dict[str, Any]]:
        return [entry for key, entry in self.attempts.items() if task_of(key) == task]

    def finished_attempts(self, _job: str) -> list[dict[str, Any]]:
        return list(self.attempts.values())

    def application(self, _job: str) -> dict[str, Any]:
        return {"amHostHttpAddress": f"{self.am_host}:18042"}

    def history(self, _path: str) -> dict[str, Any]:
        counter = {"name": "MAP_OUTPUT_MATERIALIZED_BYTES", "value": self.size}
        return {"jobTaskAttemptCounters": {"taskAttemptCounterGroup": [{"counter": [counter]}]}}


def injection(api: TableApi, work: Path = Path("/nowhere")) -> Injection:
    cluster = SimpleNamespace(settings=Settings(work_dir=work))
    return Injection(cast(Cluster, cluster), cast(HadoopApi, api), JOB, threading.Event())


def test_ids() -> None:
    assert application_of("job_17_0004") == "application_17_0004"
    assert task_of("attempt_17_0004_r_000012_3") == "task_17_0004_r_000012"


def test_the_slow_host_serves_maps_and_runs_nothing_else() -> None:
    maps = [
        attempt("MAP", i, host, state="SUCCEEDED")
        for i, host in enumerate(["node1", "node2", "node3", "node4", "node4"])
    ]
    reducers = [attempt("REDUCE", 0, "node2")]
    chosen = injection(TableApi([*maps, *reducers]))
    outputs = faults.map_outputs(chosen)
    assert sorted(outputs["node4"]) == ["attempt_1_0001_m_000003_0", "attempt_1_0001_m_000004_0"]
    assert faults.choose_slow_host(chosen, outputs).name == "node4"
    with pytest.raises(JobError, match="nothing to slow down"):
        faults.choose_slow_host(chosen, {"node1": ["x"], "node2": ["y"]})


def test_reducers_must_all_run_first() -> None:
    reducers = [attempt("REDUCE", 0, "node2"), attempt("REDUCE", 1, "node3", state="SCHEDULED")]
    assert not faults.all_reducers_run(injection(TableApi(reducers)))
    assert faults.all_reducers_run(injection(TableApi(reducers[:1])))
    assert not faults.all_reducers_run(injection(TableApi([attempt("MAP", 0, "node2")])))


def test_a_job_that_ends_too_early_gets_no_truth() -> None:
    early = injection(TableApi([]))
    early.job_ended.set()
    with pytest.raises(JobError, match="ended before it was so; no fault"):
        early.wait(lambda: False, "it was so")


def test_straggler_truth_names_the_attempt_that_told_on_itself(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    slow = attempt("MAP", 2, "node5", start=1000, finish=126_000, state="SUCCEEDED")
    note = {"attempt_id": slow["id"], "host": "node5", "from_ms": 2000, "to_ms": 125_000}
    (tmp_path / "jobs" / "mapper_straggler.truth").write_text(json.dumps(note) + "\n")
    api = TableApi([attempt("MAP", 1, "node2"), slow])
    cluster = injection(api, tmp_path).cluster
    truth = faults.straggler_truth(cluster, cast(HadoopApi, api), JOB, "mapper_straggler")
    assert (truth.query, truth.host, truth.from_ms, truth.to_ms) == ("mapper-straggler-running", "node5", 1000, 126_000)
    assert (truth.task_ids, truth.attempt_ids) == (["task_1_0001_m_000002"], [slow["id"]])


def test_late_reducers_truth_starts_when_enough_waits() -> None:
    maps = [attempt("MAP", i, "node2", finish=1000 * (i + 1)) for i in range(6)]
    reducers = [attempt("REDUCE", 0, "node3", start=9000), attempt("REDUCE", 1, "node4", start=8000)]
    api = cast(HadoopApi, TableApi([*maps, *reducers], size=12_000_000))
    truth = faults.late_reducers_truth(api, JOB)
    assert (truth.from_ms, truth.to_ms) == (4000, 8000)
    assert truth.task_ids == ["task_1_0001_r_000000", "task_1_0001_r_000001"]
    with pytest.raises(JobError, match="only 72000000 bytes"):
        faults.late_reducers_truth(api, JOB, min_bytes=100_000_000)
