"""What the workload asks of the running cluster: files in HDFS, applications, jobs and their attempts."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from deploy.minicluster.errors import MiniClusterError
from deploy.minicluster.hadoop.http_client import Answer, get_json, request

USER = "hadoop"
WEBHDFS_TIMEOUT_S = 60.0


def application_of(job_id: str) -> str:
    """The YARN application of a MapReduce job."""
    return job_id.replace("job_", "application_", 1)


def task_of(attempt_id: str) -> str:
    """The task of an attempt: attempt_1_0001_m_000002_0 -> task_1_0001_m_000002."""
    return attempt_id.rpartition("_")[0].replace("attempt_", "task_", 1)


class HadoopApi:
    """REST calls to the daemons on the master's address."""

    def __init__(self, address: str, ports: dict[str, int], addresses: Mapping[str, str] | None = None) -> None:
        """`ports`: those that were chosen at the cluster's start; `addresses`: of hosts with DataNodes, by name."""
        self.address = address
        self.ports = ports
        self.addresses = addresses or {}

    def rm(self, path: str) -> Any:
        """JSON from the ResourceManager (and, under /proxy/, from MapReduce AMs); None when there is none."""
        return get_json(self.address, self.ports["resourcemanager_http"], path)

    def history(self, path: str) -> Any:
        """JSON from the JobHistoryServer."""
        return get_json(self.address, self.ports["jobhistory_http"], path)

    def application(self, job_id: str) -> dict[str, Any]:
        """The RM's view of a job; empty when it does not know it."""
        answer = self.rm(f"/ws/v1/cluster/apps/{application_of(job_id)}")
        return dict(answer["app"]) if isinstance(answer, dict) and "app" in answer else {}

    def live_tasks(self, job_id: str) -> list[dict[str, Any]]:
        """Tasks as the job's AM sees them; empty when it does not answer."""
        return _listed(self.rm(f"{am_base(job_id)}/tasks"), "tasks", "task")

    def live_attempts(self, job_id: str, task_id: str) -> list[dict[str, Any]]:
        """Attempts of a task as the job's AM sees them."""
        return _listed(self.rm(f"{am_base(job_id)}/tasks/{task_id}/attempts"), "taskAttempts", "taskAttempt")

    def finished_job(self, job_id: str) -> dict[str, Any]:
        """The JobHistoryServer's view of a job; empty as long as it has none."""
        answer = self.history(f"/ws/v1/history/mapreduce/jobs/{job_id}")
        return dict(answer["job"]) if isinstance(answer, dict) and "job" in answer else {}

    def finished_attempts(self, job_id: str) -> list[dict[str, Any]]:
        """All attempts of a finished job."""
        base = f"/ws/v1/history/mapreduce/jobs/{job_id}/tasks"
        tasks = _listed(self.history(base), "tasks", "task")
        return [
            attempt
            for task in tasks
            for attempt in _listed(self.history(f"{base}/{task['id']}/attempts"), "taskAttempts", "taskAttempt")
        ]

    def submit_application(self, name: str, kind: str, command: str) -> str:
        """An application whose master is a command of the shell, tried once; its id."""
        base, port = "/ws/v1/cluster/apps", self.ports["resourcemanager_http"]
        new = request(self.address, port, f"{base}/new-application", method="POST", body=b"").json()
        if not isinstance(new, dict) or "application-id" not in new:
            raise MiniClusterError(f"the ResourceManager gave no new application: {new!r}")
        application = {
            "application-id": new["application-id"],
            "application-name": name,
            "application-type": kind,
            "am-container-spec": {"commands": {"command": command}},
            "max-app-attempts": 1,
            "resource": {"memory": 128, "vCores": 1},
        }
        answer = request(self.address, port, base, method="POST", body=json.dumps(application).encode())
        if answer.status != http.client.ACCEPTED:
            raise MiniClusterError(f"the ResourceManager refused {kind}: HTTP {answer.status}: {answer.body[:300]}")
        return str(new["application-id"])

    def _webhdfs(self, method: str, path: str, operation: str, body: bytes | None = None) -> Answer:
        url = f"/webhdfs/v1{quote(path)}?op={operation}&user.name={USER}"
        # Long for an answer: at the first of these requests the NameNode has much to load.
        answer = request(self.address, self.ports["namenode_http"], url, method=method, timeout_s=WEBHDFS_TIMEOUT_S)
        if answer.status == http.client.TEMPORARY_REDIRECT:
            # The redirect names the DataNode by its host name, which only the cluster knows.
            target = urlsplit(answer.location)
            answer = request(
                self.addresses.get(target.hostname or "", self.address),
                self.ports["datanode_http"],
                f"{target.path}?{target.query}",
                method=method,
                body=body,
                content_type="application/octet-stream",
                timeout_s=WEBHDFS_TIMEOUT_S,
            )
        if answer.status >= 300:
            raise MiniClusterError(f"HDFS refused {operation} of {path}: HTTP {answer.status}: {answer.body[:300]}")
        return answer

    def put_file(self, path: str, content: bytes) -> None:
        """Write a file to HDFS."""
        self._webhdfs("PUT", path, "CREATE&overwrite=true", content)

    def read_file(self, path: str) -> str:
        """A text file from HDFS."""
        return self._webhdfs("GET", path, "OPEN").body

    def walk(self, path: str) -> Iterator[str]:
        """Every file below a folder of HDFS; nothing when the folder does not exist."""
        try:
            listed = self._webhdfs("GET", path, "LISTSTATUS").json()
        except MiniClusterError:
            return
        for status in listed["FileStatuses"]["FileStatus"]:
            child = f"{path.rstrip('/')}/{status['pathSuffix']}"
            if status["type"] == "DIRECTORY":
                yield from self.walk(child)
            else:
                yield child


def am_base(job_id: str) -> str:
    """Path of a job at its AM, through the ResourceManager's proxy."""
    return f"/proxy/{application_of(job_id)}/ws/v1/mapreduce/jobs/{job_id}"


def _listed(answer: Any, outer: str, inner: str) -> list[dict[str, Any]]:
    """A list out of Hadoop's two nested envelopes, which may be null when empty."""
    envelope = answer.get(outer) if isinstance(answer, dict) else None
    return list(envelope.get(inner) or []) if isinstance(envelope, dict) else []
