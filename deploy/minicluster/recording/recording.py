"""Assembles a recording from a run: histories, logs, RRDs and the manifest, without traces of the real machine."""

from __future__ import annotations

import gzip
import platform
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deploy.minicluster.cluster import Cluster
from deploy.minicluster.errors import RecordingError
from deploy.minicluster.ganglia import ganglia
from deploy.minicluster.hadoop.hadoop_api import HadoopApi
from deploy.minicluster.hadoop.history_mirror import HistoryMirror
from deploy.minicluster.processes.periodic import Periodic
from deploy.minicluster.recording.recorder import JsonLines, RestRecorder, XmlRecorder
from deploy.minicluster.workload.workload import Outcome

DROPPED_LOGS = {"directory.info", "launch_container.sh", "prelaunch.err", "prelaunch.out"}


@dataclass
class Recording:
    """A recording in progress in `folder`."""

    cluster: Cluster
    folder: Path
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def __post_init__(self) -> None:
        """Empty the folder and open the two streams."""
        if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / "manifest.yaml").exists():
            raise RecordingError(f"{self.folder} is not empty and holds no recording; choose another --out")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "manifest.yaml").write_text("incomplete: true\n", encoding="utf-8")
        self._rest_file = JsonLines(self.folder / "rest.jsonl.gz")
        self._xml_file = JsonLines(self.folder / "gmetad.jsonl.gz")
        settings = self.cluster.settings.recorder
        self.rest = RestRecorder(self.cluster, self._rest_file)
        xml = XmlRecorder(self.cluster, self._xml_file)
        self._threads = [
            Periodic(self.rest.poll, settings.poll_interval_s, "record-rest"),
            Periodic(xml.poll, settings.xml_interval_s, "record-xml"),
        ]

    def start(self) -> None:
        """Begin to poll."""
        for thread in self._threads:
            thread.start()

    def stop_polling(self) -> None:
        """End polling and close the files."""
        for thread in self._threads:
            thread.stop()
        self.rest.poll()  # the history of the last job may have come since
        self._rest_file.close()
        self._xml_file.close()

    def save_history(self, job_ids: list[str], timeout_s: float = 60.0) -> None:
        """Copy .jhist and _conf.xml of all jobs, under the names the JobHistoryServer gave them."""
        target = self.folder / "history"
        target.mkdir(exist_ok=True)
        mirror = HistoryMirror(HadoopApi(self.cluster.settings.master_address, self.cluster.ports), target)
        deadline = time.monotonic() + timeout_s
        missing = set(job_ids)
        while missing:
            mirror.copy_new()
            names = [path.name for path in target.iterdir()]
            missing = {job_id for job_id in job_ids if sum(job_id in name for name in names) < 2}
            if missing and time.monotonic() > deadline:
                raise RecordingError(f"no complete history of {', '.join(sorted(missing))} after {timeout_s:.0f} s")
            time.sleep(1 if missing else 0)

    def finish(self, outcome: Outcome, versions: dict[str, str]) -> None:
        """Collect what the ended daemons have left and write the manifest. The cluster must be stopped."""
        work = self.cluster.settings.work_dir
        for host in self.cluster.settings.hosts:
            copy_userlogs(work / "nodes" / host.name / "userlogs", self.folder / "userlogs" / host.name)
        daemons = self.folder / "daemons"
        daemons.mkdir(exist_ok=True)
        for log in sorted((work / "logs").glob("*.log")):
            if log.name.startswith(("resourcemanager", "nodemanager-")):
                shutil.copyfile(log, daemons / log.name)
        shutil.copytree(work / "rrds", self.folder / "rrds")
        n_redacted = redact(self.folder, socket.gethostname())
        manifest = self.manifest(outcome, versions, n_redacted)
        text = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=120)
        (self.folder / "manifest.yaml").write_text(text, encoding="utf-8")

    def manifest(self, outcome: Outcome, versions: dict[str, str], n_redacted: int) -> dict[str, Any]:
        """What the recording is, where it comes from and what was injected."""
        settings = self.cluster.settings
        return {
            "versions": versions,
            "cluster": settings.cluster,
            "started_ms": self.started_ms,
            "ended_ms": time.time_ns() // 1_000_000,
            "timezone": "UTC",
            "poll_interval_ms": settings.recorder.poll_interval_s * 1000,
            "xml_interval_ms": settings.recorder.xml_interval_s * 1000,
            "step_s": settings.ganglia.step_s,
            "cores_per_host": settings.ganglia.cores_per_host,
            "master": {"name": settings.master.name, "address": settings.master.address},
            "hosts": [{"name": host.name, "address": host.address} for host in settings.hosts],
            "ports": dict(self.cluster.ports),
            "redacted": f"{n_redacted} files named the real machine and were changed to say master",
            "rest": {"n_requests": self.rest.n_requests, "n_failed": self.rest.n_failed},
            "jobs": [job.as_dict() for job in sorted(outcome.jobs, key=lambda job: job.job_id)],
            "ground_truth": [truth.as_dict() for truth in sorted(outcome.truths, key=lambda t: (t.from_ms, t.query))],
            "problems": list(outcome.problems),
        }


def copy_userlogs(source: Path, target: Path) -> None:
    """Container logs without launch scripts and without empty files."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.name not in DROPPED_LOGS and path.stat().st_size:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def redact(folder: Path, hostname: str, replacement: str = "master") -> int:
    """Replace the machine's own host name where it stands as a word of its own; how many files were changed.

    Normally nothing is left to do, since process trees have host names of their own; where the system
    does not allow that, start-up messages and job configurations name the machine.
    """
    if not hostname or hostname == replacement:
        return 0
    pattern = re.compile(rb"(?<![\w.-])" + re.escape(hostname.encode()) + rb"(?![\w-]|\.\w)")
    n_changed = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix == ".rrd":
            continue
        is_packed = path.suffix == ".gz"
        content = gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()
        changed = pattern.sub(replacement.encode(), content)
        if changed != content:
            path.write_bytes(gzip.compress(changed, mtime=0) if is_packed else changed)
            n_changed += 1
    return n_changed


def versions(cluster: Cluster) -> dict[str, str]:
    """What the recording was made with."""
    jar = next(cluster.settings.library_dir.glob("hadoop-common-*.jar"), Path("hadoop-common-unknown.jar"))
    release = platform.freedesktop_os_release()
    return {
        "hadoop": jar.stem.removeprefix("hadoop-common-"),
        "java": _first_line([str(cluster.java), "-version"]),
        "ganglia": _first_line([ganglia.find_program("gmetad"), "--version"]),
        "rrdtool": _first_line([ganglia.find_program("rrdtool"), "--version"]),
        "os": release.get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
    }


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed programs
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
