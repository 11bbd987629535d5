"""What goes into a recording, and what must not."""

import gzip
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.process.serving.loopback import serving
from deploy.minicluster.cluster import Cluster
from deploy.minicluster.errors import RecordingError
from deploy.minicluster.recording.recorder import JsonLines, RestRecorder
from deploy.minicluster.recording.recording import Recording, copy_userlogs, redact
from deploy.minicluster.settings import load
from deploy.minicluster.workload.faults import Truth
from deploy.minicluster.workload.workload import FinishedJob, Outcome

JOB, APPLICATION = "job_1_0001", "application_1_0001"
TASKS = f"/proxy/{APPLICATION}/ws/v1/mapreduce/jobs/{JOB}/tasks"
ANSWERS: dict[str, Any] = {
    "/ws/v1/cluster/apps": {"apps": {"app": [{"id": APPLICATION, "state": "RUNNING", "applicationType": "MAPREDUCE"}]}},
    f"/proxy/{APPLICATION}/ws/v1/mapreduce/jobs": {"jobs": {"job": [{"id": JOB}]}},
    TASKS: {
        "tasks": {
            "task": [
                {"id": "done", "state": "SUCCEEDED"},
                {"id": "now", "state": "RUNNING"},
                {"id": "later", "state": "SCHEDULED"},
            ]
        }
    },
    f"{TASKS}/now/attempts": {"taskAttempts": {"taskAttempt": [{"id": "now_0", "state": "RUNNING"}]}},
    f"{TASKS}/done/attempts": {"taskAttempts": {"taskAttempt": [{"id": "done_0", "state": "SUCCEEDED"}]}},
    "/ws/v1/history/mapreduce/jobs": {"jobs": None},
}


class Handler(BaseHTTPRequestHandler):
    """Answers from the table; 404 for all else."""

    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path, {} if self.path.startswith("/ws/v1/cluster") else None)
        body = json.dumps(answer).encode()
        self.send_response(200 if answer is not None else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def server_port() -> Iterator[int]:
    with serving(Handler) as url:
        yield int(url.rpartition(":")[2])


def cluster_at(port: int) -> Cluster:
    ports = {"resourcemanager_http": port, "jobhistory_http": port}
    return cast(Cluster, SimpleNamespace(settings=load(), ports=ports))


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_tasks_are_asked_about_until_they_have_ended(tmp_path: Path, server_port: int) -> None:
    sink = JsonLines(tmp_path / "rest.jsonl.gz")
    recorder = RestRecorder(cluster_at(server_port), sink)
    recorder.poll()
    recorder.poll()
    sink.close()
    paths = [record["path"] for record in records(tmp_path / "rest.jsonl.gz")]
    assert paths.count(f"{TASKS}/now/attempts") == 2
    assert paths.count(f"{TASKS}/now/attempts/now_0/counters") == 2
    assert paths.count(f"{TASKS}/done/attempts") == 1
    assert f"{TASKS}/later/attempts" not in paths
    assert paths.count("/ws/v1/cluster/nodes") == 2


def test_answers_and_failures_are_kept_as_they_came(tmp_path: Path, server_port: int) -> None:
    sink = JsonLines(tmp_path / "rest.jsonl.gz")
    RestRecorder(cluster_at(server_port), sink).poll()
    RestRecorder(cluster_at(1), sink).poll()  # nobody listens there
    sink.close()
    found = records(tmp_path / "rest.jsonl.gz")
    apps = next(record for record in found if record["path"] == "/ws/v1/cluster/apps")
    assert (apps["source"], apps["status"], json.loads(apps["body"])) == ("rm", 200, ANSWERS["/ws/v1/cluster/apps"])
    assert [record["status"] for record in found if record["path"].endswith(f"{APPLICATION}/counters")] == []
    assert {record["status"] for record in found} == {0, 200, 404}
    refused = [record for record in found if record["status"] == 0]
    assert all("ConnectionRefused" in record["error"] for record in refused)


def test_json_lines_have_no_stamp(tmp_path: Path) -> None:
    for name in ("a", "b"):
        lines = JsonLines(tmp_path / name)
        lines.write({"text": "\u00e9"})
        lines.close()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_manifest(tmp_path: Path, server_port: int) -> None:
    recording = Recording(cluster_at(server_port), tmp_path / "out", started_ms=5)
    recording.stop_polling()
    early = Truth("late_reducers", "queued-data-high", JOB, "", 10, 20, "note")
    late = Truth("slow_source_host", "data-pull-straggler", JOB, "node2", 30, 40, "note", ["t"], ["a"], ["node2"])
    outcome = Outcome([FinishedJob(JOB, "<name>", "pi", True, "SUCCEEDED")], [late, early], [])
    manifest = recording.manifest(outcome, {"hadoop": "3"}, 0)
    assert [truth["fault"] for truth in manifest["ground_truth"]] == ["late_reducers", "slow_source_host"]
    assert manifest["jobs"] == [{"job_id": JOB, "name": "<name>", "kind": "pi", "healthy": True, "status": "SUCCEEDED"}]
    assert manifest["hosts"][5] == {"name": "node6", "address": "127.0.10.6"}
    assert (manifest["started_ms"], manifest["step_s"], manifest["timezone"]) == (5, 5, "UTC")


def test_a_folder_that_holds_something_else_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(RecordingError, match="not empty"):
        Recording(cluster_at(1), tmp_path)
    assert (tmp_path / "precious").exists()


def test_only_logs_with_content_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "source" / "application_1" / "container_1"
    source.mkdir(parents=True)
    for name, text in {"syslog": "x", "stdout": "", "stderr": "y", "launch_container.sh": "z"}.items():
        (source / name).write_text(text)
    copy_userlogs(tmp_path / "source", tmp_path / "copy")
    names = sorted(path.name for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert names == ["stderr", "syslog"]


def test_the_machines_name_is_replaced_only_as_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("host = box/1.2.3.4 box:80 box. inbox box-2 x.box box.local java.box.name\n")
    (tmp_path / "b.rrd").write_bytes(b"box")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b'{"host": "box"}'))
    assert redact(tmp_path, "box") == 2
    assert gzip.decompress((tmp_path / "c.gz").read_bytes()) == b'{"host": "master"}'
    expected = "host = master/1.2.3.4 master:80 master. inbox box-2 x.box box.local java.box.name\n"
    assert (tmp_path / "a.log").read_text() == expected
    assert (tmp_path / "b.rrd").read_bytes() == b"box"
    assert redact(tmp_path, "") == 0
