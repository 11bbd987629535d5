"""Hand-written job histories in the Avro-Json form, for tests."""

from __future__ import annotations

import json
from typing import Any

CLASS = "org.apache.hadoop.mapreduce.jobhistory."
SCHEMA = {"type": "record", "name": "Event", "fields": [{"name": "type"}, {"name": "event"}]}

T0 = 1_700_000_000_000


def record(kind: str, name: str, **fields: Any) -> str:
    """One line of a history."""
    return json.dumps({"type": kind, "event": {CLASS + name: fields}}, separators=(",", ":"))


def counters(**values: int) -> dict[str, Any]:
    """Counters of the task group; file format counters by their attribute's prefix."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, value in values.items():
        group = {
            "IN_BYTES_READ": "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter",
            "OUT_BYTES_WRITTEN": "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter",
        }.get(name, "org.apache.hadoop.mapreduce.TaskCounter")
        short = name.removeprefix("IN_").removeprefix("OUT_")
        groups.setdefault(group, []).append({"name": short, "displayName": short.lower(), "value": value})
    return {"name": "COUNTERS", "groups": [{"name": g, "displayName": g, "counts": c} for g, c in groups.items()]}


MAP_COUNTERS = {
    "MAP_INPUT_RECORDS": 7,
    "MAP_OUTPUT_RECORDS": 14,
    "IN_BYTES_READ": 700,
    "MAP_OUTPUT_BYTES": 280,
    "MAP_OUTPUT_MATERIALIZED_BYTES": 310,
    "SPILLED_RECORDS": 14,
    "GC_TIME_MILLIS": 21,
    "CPU_MILLISECONDS": 950,
}
REDUCE_COUNTERS = {
    "REDUCE_INPUT_RECORDS": 14,
    "REDUCE_OUTPUT_RECORDS": 2,
    "REDUCE_SHUFFLE_BYTES": 310,
    "OUT_BYTES_WRITTEN": 44,
    "SPILLED_RECORDS": 14,
    "GC_TIME_MILLIS": 5,
    "CPU_MILLISECONDS": 640,
}


def header() -> list[str]:
    """The two first lines."""
    return ["Avro-Json", json.dumps(SCHEMA)]


def start_records(job_id: str = "job_1700000000000_0007", n_maps: int = 1, n_reduces: int = 1) -> list[str]:
    """Until the job's launch at T0 + 5000."""
    return [
        record("AM_STARTED", "AMStarted", applicationAttemptId="x", startTime=T0 + 2_000, nodeManagerHost="node1"),
        record(
            "JOB_SUBMITTED", "JobSubmitted", jobid=job_id, jobName="word count", userName="ann",
            submitTime=T0, jobQueueName={"string": "etl"},
        ),
        record(
            "JOB_INITED", "JobInited", jobid=job_id, launchTime=T0 + 5_000, totalMaps=n_maps, totalReduces=n_reduces,
            jobStatus="INITED", uberized=False,
        ),
    ]  # fmt: skip


def map_records(attempt_id: str = "attempt_1700000000000_0007_m_000000_0", **changes: Any) -> list[str]:
    """Start at T0 + 6000, success at T0 + 9000."""
    task_id = "task" + attempt_id[len("attempt") : attempt_id.rindex("_")]
    fields: dict[str, Any] = {
        "taskid": task_id, "attemptId": attempt_id, "taskType": "MAP", "taskStatus": "SUCCEEDED", "mapFinishTime": 0,
        "finishTime": T0 + 9_000, "hostname": "node2", "rackname": "/r1", "state": "map",
        "counters": counters(**MAP_COUNTERS),
    }  # fmt: skip
    return [
        record("TASK_STARTED", "TaskStarted", taskid=task_id, taskType="MAP", startTime=T0 + 5_500),
        record(
            "MAP_ATTEMPT_STARTED", "TaskAttemptStarted", taskid=task_id, taskType="MAP", attemptId=attempt_id,
            startTime=T0 + 6_000, trackerName="node2",
        ),
        record("MAP_ATTEMPT_FINISHED", "MapAttemptFinished", **(fields | changes)),
        record("TASK_FINISHED", "TaskFinished", taskid=task_id, taskType="MAP", finishTime=T0 + 9_000),
    ]  # fmt: skip


def reduce_records(attempt_id: str = "attempt_1700000000000_0007_r_000000_0", **changes: Any) -> list[str]:
    """Start at T0 + 7000, shuffled at + 10000, merged at + 10200, done at + 12000."""
    task_id = "task" + attempt_id[len("attempt") : attempt_id.rindex("_")]
    fields: dict[str, Any] = {
        "taskid": task_id, "attemptId": attempt_id, "taskType": "REDUCE", "taskStatus": "SUCCEEDED",
        "shuffleFinishTime": T0 + 10_000, "sortFinishTime": T0 + 10_200, "finishTime": T0 + 12_000,
        "hostname": "node3", "rackname": {"string": "/r2"}, "state": "reduce > reduce",
        "counters": {CLASS + "JhCounters": counters(**REDUCE_COUNTERS)},
    }  # fmt: skip
    return [
        record(
            "REDUCE_ATTEMPT_STARTED", "TaskAttemptStarted", taskid=task_id, taskType="REDUCE", attemptId=attempt_id,
            startTime=T0 + 7_000, trackerName="node3",
        ),
        record("REDUCE_ATTEMPT_FINISHED", "ReduceAttemptFinished", **(fields | changes)),
    ]  # fmt: skip


def end_records(job_id: str = "job_1700000000000_0007") -> list[str]:
    """Success at T0 + 12500."""
    return [record("JOB_FINISHED", "JobFinished", jobid=job_id, finishTime=T0 + 12_500, finishedMaps=1)]


def history(*parts: list[str]) -> bytes:
    """Header and parts as a file, with the blank line after each record that Hadoop writes."""
    lines = header() + [line for part in parts for line in part]
    return ("\n\n".join(lines) + "\n").encode()


def whole_history() -> bytes:
    """One map, one reducer, success."""
    return history(start_records(), map_records(), reduce_records(), end_records())
