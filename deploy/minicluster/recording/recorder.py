"""Polls REST interfaces and gmetad while the cluster runs and appends every answer to a compressed file."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

from deploy.minicluster.cluster import Cluster
from deploy.minicluster.ganglia import ganglia
from deploy.minicluster.hadoop.hadoop_api import am_base
from deploy.minicluster.hadoop.http_client import Answer, request

RM_PATHS = (
    "/ws/v1/cluster/info",
    "/ws/v1/cluster/metrics",
    "/ws/v1/cluster/nodes",
    "/ws/v1/cluster/apps",
)
HISTORY = "/ws/v1/history/mapreduce/jobs"
DONE_STATES = {"SUCCEEDED", "FAILED", "KILLED"}


class JsonLines:
    """An open gzip file that takes one JSON object a line; it holds no stamp: equal input gives equal bytes."""

    def __init__(self, path: Path) -> None:
        """Create `path`."""
        self._raw = path.open("wb")
        self._stream: Any = gzip.GzipFile(fileobj=self._raw, mode="wb", mtime=0, filename="")
        self._lock = threading.Lock()

    def write(self, record: dict[str, object]) -> None:
        """Append one object; safe from several threads."""
        with self._lock:
            self._stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        """Write the end of the file."""
        with self._lock:
            self._stream.close()
            self._raw.close()


class RestRecorder:
    """One poll: the RM, every running MapReduce AM through the RM's proxy, and jobs that are new in the history."""

    def __init__(self, cluster: Cluster, sink: JsonLines) -> None:
        """Nothing is asked yet."""
        self._cluster = cluster
        self._sink = sink
        self._finished_tasks: set[str] = set()
        self._counted_attempts: set[str] = set()
        self._history_done: set[str] = set()
        self.n_requests = 0
        self.n_failed = 0

    def poll(self) -> None:
        """Ask for everything once."""
        applications: list[dict[str, Any]] = []
        for path in RM_PATHS:
            answer = self._ask("rm", path)
            if path.endswith("/apps"):
                applications = listed(answer, "apps", "app")
        for application in applications:
            if application.get("state") == "RUNNING" and application.get("applicationType") == "MAPREDUCE":
                self._poll_am(str(application["id"]).replace("application_", "job_", 1))
        for job in listed(self._ask("jhs", HISTORY), "jobs", "job"):
            if job["id"] not in self._history_done:
                self._poll_history(str(job["id"]))

    def _poll_am(self, job_id: str) -> None:
        base = am_base(job_id)
        jobs = self._ask("am", base.rpartition("/")[0])
        if jobs is None:
            return
        self._ask("am", f"{base}/counters")
        for task in listed(self._ask("am", f"{base}/tasks"), "tasks", "task"):
            task_id, state = str(task["id"]), task["state"]
            if state not in DONE_STATES:
                self._finished_tasks.discard(task_id)  # a map whose output was lost runs again
            if task_id in self._finished_tasks or state in {"NEW", "SCHEDULED"}:
                continue
            if state in DONE_STATES:
                self._finished_tasks.add(task_id)
            path = f"{base}/tasks/{task_id}/attempts"
            for attempt in listed(self._ask("am", path), "taskAttempts", "taskAttempt"):
                self._poll_counters("am", path, attempt)

    def _poll_history(self, job_id: str) -> None:
        base = f"{HISTORY}/{job_id}"
        if self._ask("jhs", base) is None:
            return
        self._ask("jhs", f"{base}/counters")
        for task in listed(self._ask("jhs", f"{base}/tasks"), "tasks", "task"):
            path = f"{base}/tasks/{task['id']}/attempts"
            for attempt in listed(self._ask("jhs", path), "taskAttempts", "taskAttempt"):
                self._poll_counters("jhs", path, attempt)
        self._history_done.add(job_id)

    def _poll_counters(self, source: str, path: str, attempt: dict[str, Any]) -> None:
        """Those of a running attempt every time, those of an ended one once: they stay as they are."""
        counters_path = f"{path}/{attempt['id']}/counters"
        if attempt["state"] in DONE_STATES:
            if counters_path in self._counted_attempts:
                return
            self._counted_attempts.add(counters_path)
        elif attempt["state"] != "RUNNING":
            return
        self._ask(source, counters_path)

    def _ask(self, source: str, path: str) -> Any:
        ports = self._cluster.ports
        port = ports["jobhistory_http"] if source == "jhs" else ports["resourcemanager_http"]
        record: dict[str, object] = {"t_ms": time.time_ns() // 1_000_000, "source": source, "path": path}
        self.n_requests += 1
        try:
            answer: Answer = request(self._cluster.settings.master_address, port, path)
        except (OSError, http.client.HTTPException) as error:
            self.n_failed += 1
            self._sink.write(record | {"status": 0, "error": f"{type(error).__name__}: {error}"})
            return None
        self.n_failed += answer.status >= 400
        self._sink.write(record | {"status": answer.status, "content_type": answer.content_type, "body": answer.body})
        return answer.json()


class XmlRecorder:
    """gmetad's XML, one document a poll."""

    def __init__(self, cluster: Cluster, sink: JsonLines) -> None:
        """Nothing is asked yet."""
        self._cluster = cluster
        self._sink = sink

    def poll(self) -> None:
        """Ask once."""
        record: dict[str, object] = {"t_ms": time.time_ns() // 1_000_000}
        try:
            xml = ganglia.read_xml(self._cluster.settings.master_address, self._cluster.ports["gmetad"])
        except OSError as error:
            self._sink.write(record | {"error": f"{type(error).__name__}: {error}"})
            return
        self._sink.write(record | {"xml": xml})


def listed(answer: Any, outer: str, inner: str) -> list[dict[str, Any]]:
    """A list out of Hadoop's two nested envelopes, which may be null when empty."""
    envelope = answer.get(outer) if isinstance(answer, dict) else None
    return list(envelope.get(inner) or []) if isinstance(envelope, dict) else []
