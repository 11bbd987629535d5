"""A cluster made of documents: answers of ResourceManager, ApplicationMaster and JobHistoryServer, written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from collectors.base import SourceUnavailableError
from collectors.network.http import Answer

T0 = 1_700_000_000_000
NOW_MS = T0 + 60_000
APP = "application_1700000000000_0007"
JOB = "job_1700000000000_0007"
OPEN = "/ws/v1/cluster/apps?states=ACCEPTED,RUNNING"
ENDED = "/ws/v1/cluster/apps?applicationTypes=MAPREDUCE&states=FINISHED,FAILED,KILLED"
AM = f"/proxy/{APP}/ws/v1/mapreduce/jobs"
JHS = "/ws/v1/history/mapreduce/jobs"

MAP_DONE, MAP_RUNS = "task_1700000000000_0007_m_000000", "task_1700000000000_0007_m_000001"
REDUCE = "task_1700000000000_0007_r_000000"


class Script:
    """A transport that answers from a mapping path -> document, bytes, (status, bytes) or an exception."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.documents: dict[str, Any] = dict(documents)
        self.asked: list[str] = []

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As collectors.network.http.Transport."""
        self.asked.append(path)
        document = self.documents.get(path, (404, b"no such page"))
        if isinstance(document, Exception):
            raise document
        status, body = (200, document) if not isinstance(document, tuple) else document
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return Answer(base_url + path, status, "application/json", body, now_ms)


def app(state: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    """An application of the list."""
    return {
        "id": APP, "user": "ann", "name": "word count", "queue": "etl", "state": state, "finalStatus": "UNDEFINED",
        "applicationType": "MAPREDUCE", "amHostHttpAddress": "node1:8042", "startedTime": T0 - 3_000,
        "finishedTime": 0, **changes,
    }  # fmt: skip


def held(n_running: int, *asked: tuple[str, int], pending_mb: int | None = None) -> dict[str, Any]:
    """Containers of an application, 1,024 MB each, as the capacity scheduler tells them.

    `asked`: (resource name, number of containers); `pending_mb`: as many as are asked for anywhere.
    """
    capability = {"memory": 1_024, "vCores": 1}
    requests = [{"resourceName": name, "numContainers": n, "capability": capability} for name, n in asked]
    n_pending = sum(n for name, n in asked if name == "*")
    pending = {"memory": n_pending * 1_024 if pending_mb is None else pending_mb, "vCores": n_pending}
    return {
        "runningContainers": n_running, "allocatedMB": n_running * 1_024, "allocatedVCores": n_running,
        "resourceInfo": {"resourceUsagesByPartition": [{"partitionName": "", "pending": pending}]},
        **({"resourceRequests": requests} if requests else {}),
    }  # fmt: skip


def apps(*listed: dict[str, Any]) -> dict[str, Any]:
    """A list of applications."""
    return {"apps": {"app": list(listed)} if listed else None}


def job(**changes: Any) -> dict[str, Any]:
    """A job as a master tells it."""
    return {
        "id": JOB, "name": "word count", "user": "ann", "state": "RUNNING", "startTime": T0, "finishTime": 0,
        "mapsTotal": 2, "reducesTotal": 1, **changes,
    }  # fmt: skip


def attempt(task_id: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    """A running attempt that started at T0 + 10 s."""
    kind = "MAP" if "_m_" in task_id else "REDUCE"
    return {
        "id": f"attempt{task_id[4:]}_{number}", "type": kind, "state": "RUNNING", "startTime": T0 + 10_000,
        "finishTime": 0, "progress": 25.0, "nodeHttpAddress": "node2:8042", "rack": "/r1", **changes,
    }  # fmt: skip


def attempts(*listed: dict[str, Any]) -> dict[str, Any]:
    """A list of attempts."""
    return {"taskAttempts": {"taskAttempt": list(listed)}}


def tasks(**states: str) -> dict[str, Any]:
    """A list of tasks: m0, m1, r0 -> state."""
    names = {"m0": MAP_DONE, "m1": MAP_RUNS, "r0": REDUCE}
    return {"tasks": {"task": [{"id": names[name], "state": state} for name, state in states.items()]}}


def counters(attempt_id: str, **values: int) -> dict[str, Any]:
    """Counters of an attempt."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, value in values.items():
        group = {
            "IN_BYTES_READ": "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter",
            "OUT_BYTES_WRITTEN": "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter",
        }.get(name, "org.apache.hadoop.mapreduce.TaskCounter")
        groups.setdefault(group, []).append({"name": name.removeprefix("IN_").removeprefix("OUT_"), "value": value})
    listed = [{"counterGroupName": name, "counter": group} for name, group in groups.items()]
    return {"jobTaskAttemptCounters": {"id": attempt_id, "taskAttemptCounterGroup": listed}}


def running_job() -> Script:
    """One map has succeeded, one runs, and the reducer has just succeeded too (so that every event type occurs)."""
    from tests.collectors.histories import MAP_COUNTERS, REDUCE_COUNTERS

    done = attempt(MAP_DONE, state="SUCCEEDED", finishTime=T0 + 30_000, progress=100.0)
    reduced = attempt(
        REDUCE, state="SUCCEEDED", finishTime=T0 + 50_000, shuffleFinishTime=T0 + 40_000, mergeFinishTime=T0 + 41_000
    )
    base = f"{AM}/{JOB}/tasks"
    return Script(
        {
            OPEN: apps(app()),
            ENDED: apps(),
            AM: {"jobs": {"job": [job(state="SUCCEEDED", finishTime=T0 + 55_000)]}},
            base: tasks(m0="SUCCEEDED", m1="RUNNING", r0="SUCCEEDED"),
            f"{base}/{MAP_DONE}/attempts": attempts(done),
            f"{base}/{MAP_RUNS}/attempts": attempts(attempt(MAP_RUNS)),
            f"{base}/{REDUCE}/attempts": attempts(reduced),
            f"{base}/{MAP_DONE}/attempts/{done['id']}/counters": counters(done["id"], **MAP_COUNTERS),
            f"{base}/{REDUCE}/attempts/{reduced['id']}/counters": counters(reduced["id"], **REDUCE_COUNTERS),
        }
    )


def as_history(script: Script) -> dict[str, Any]:
    """The same tasks and attempts under the paths of the JobHistoryServer."""
    moved = {}
    for path, document in script.documents.items():
        if path.startswith(f"{AM}/{JOB}/"):
            moved[path.replace(AM, JHS)] = deepcopy(document)
    return moved


def down(text: str = "connection refused") -> SourceUnavailableError:
    """A server that does not answer."""
    return SourceUnavailableError(text)
