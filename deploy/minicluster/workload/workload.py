"""Runs the planned jobs phase by phase and collects what was injected."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deploy.minicluster.cluster import Cluster
from deploy.minicluster.daemons import job_faults
from deploy.minicluster.errors import JobError, MiniClusterError
from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.processes import processes
from deploy.minicluster.processes.processes import Process
from deploy.minicluster.settings import PlannedJob, Settings
from deploy.minicluster.workload import faults
from deploy.minicluster.workload.faults import Injection, Truth
from deploy.minicluster.workload.jobs import CATALOGUE, Job

JOB_CLIENT = "org.apache.hadoop.mapred.JobClient"
CLIENT_HEAP_MIB = 160
SUBMIT_TIMEOUT_S = 120.0
JOB_TIMEOUT_S = 600.0
HISTORY_TIMEOUT_S = 60.0

INJECTIONS = faults.INJECTIONS | job_faults.INJECTIONS

_SUBMITTED = re.compile(r"Submitted application application_(\d+_\d+)")

Say = Callable[[str], None]


@dataclass(frozen=True)
class FinishedJob:
    """A job of the workload as the manifest lists it."""

    job_id: str
    name: str
    kind: str
    healthy: bool
    status: str

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)


@dataclass
class Outcome:
    """What a run of the workload leaves for the manifest."""

    jobs: list[FinishedJob] = field(default_factory=list)
    truths: list[Truth] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def planned_jobs(settings: Settings) -> list[list[tuple[PlannedJob, Job]]]:
    """The workload with its jobs built. Raises JobError when one is unknown."""
    phases = []
    for phase in settings.workload:
        jobs = []
        for plan in phase:
            if plan.job not in CATALOGUE:
                raise JobError(f"workload: unknown job {plan.job!r}; known: {', '.join(CATALOGUE)}")
            jobs.append((plan, CATALOGUE[plan.job](settings.work_dir)))
        phases.append(jobs)
    return phases


class Workload:
    """The jobs of one run on a running cluster."""

    def __init__(self, cluster: Cluster, say: Say) -> None:
        """`say` gets a line about each step."""
        self.cluster = cluster
        self.api = cluster.api
        self.outcome = Outcome()
        self._say = say
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._clients: list[Process] = []
        self._round = 0

    def run(self) -> Outcome:
        """Run all phases; a job that goes wrong is told and does not stop the others."""
        self._round += 1
        self.outcome = Outcome()
        for phase in planned_jobs(self.cluster.settings):
            ended = {plan.job: threading.Event() for plan, _ in phase}
            threads = [threading.Thread(target=self._run_planned, args=(*pair, ended), daemon=True) for pair in phase]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.5)
                    self.cluster.check_running()
        return self.outcome

    def stop(self) -> None:
        """End the clients of running jobs."""
        self._stop.set()
        processes.stop_all(self._clients)

    def _run_planned(self, plan: PlannedJob, job: Job, ended: Mapping[str, threading.Event]) -> None:
        while plan.after and not ended[plan.after].wait(0.5):
            if self._stop.is_set():
                return
        if self._stop.wait(plan.start_after_s):
            return
        try:
            self._run_job(job)
        except (MiniClusterError, OSError, KeyError, ValueError) as error:
            with self._lock:
                self.outcome.problems.append(f"{job.kind}: {error}")
            self._say(f"{job.kind}: {error}")
        finally:
            ended[plan.job].set()

    def _run_job(self, job: Job) -> None:
        for path, content in job.inputs:
            self.api.put_file(path, content)
        client, log = self._submit(job)
        try:
            job_id = self._job_id(client, log)
            self._say(f"{job.kind}: {job_id} submitted")
            self._follow(job, job_id, client)
        finally:
            processes.stop_all([client])
        self._finish(job, job_id)

    def _submit(self, job: Job) -> tuple[Process, Path]:
        work = self.cluster.settings.work_dir
        log = work / "jobs" / f"{job.kind}-{self._round}.log"
        class_path = hadoop_config.class_path(work, "console")
        # Hadoop refuses to write into a folder that exists: every round gets its own.
        arguments = [word.replace("/out/", f"/out/{self._round}/") for word in job.arguments]
        command = [*self.cluster.java_command(CLIENT_HEAP_MIB, class_path, job.main_class), *arguments]
        client = processes.start(f"client of {job.kind}", command, log, self.cluster.environment, cwd=work)
        with self._lock:
            self._clients.append(client)
        return client, log

    def _job_id(self, client: Process, log: Path) -> str:
        deadline = time.monotonic() + SUBMIT_TIMEOUT_S
        while time.monotonic() < deadline:
            match = _SUBMITTED.search(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else None
            if match:
                return f"job_{match.group(1)}"
            if not client.is_running():
                raise JobError(str(client.failure(f"ended with status {client.guard.returncode}, no job submitted")))
            time.sleep(0.5)
        raise JobError(str(client.failure(f"no job submitted within {SUBMIT_TIMEOUT_S:.0f} s")))

    def _follow(self, job: Job, job_id: str, client: Process) -> None:
        ended = threading.Event()
        injection = Injection(self.cluster, self.api, job_id, ended, kill=lambda: self._kill(job_id))
        inject = INJECTIONS.get(job.fault)
        failures: list[str] = []
        thread = threading.Thread(target=_guarded, args=(inject, injection, failures), daemon=True)
        if inject is not None:
            thread.start()
        try:
            self._wait_for_end(job, job_id, client)
        finally:
            ended.set()
            if inject is not None:
                thread.join()
        if failures:
            raise JobError(failures[0])
        with self._lock:
            self.outcome.truths += injection.truths

    def _wait_for_end(self, job: Job, job_id: str, client: Process) -> None:
        deadline = time.monotonic() + JOB_TIMEOUT_S
        to_kill = job.expected == "KILLED" and not job.fault  # else its fault kills it
        while client.wait(0.5) is None:
            if self._stop.is_set():
                raise JobError(f"{job_id}: the workload was stopped")
            if time.monotonic() > deadline:
                raise JobError(f"{job_id}: still running after {JOB_TIMEOUT_S:.0f} s")
            # Not by the clock: on a slow machine there would be no container yet that a kill could end.
            if to_kill and self._all_maps_run(job_id):
                self._kill(job_id)
                to_kill = False

    def _all_maps_run(self, job_id: str) -> bool:
        maps = [task["id"] for task in self.api.live_tasks(job_id) if task["type"] == "MAP"]
        return bool(maps) and all(
            any(attempt["state"] == "RUNNING" for attempt in self.api.live_attempts(job_id, task_id))
            for task_id in maps
        )

    def _kill(self, job_id: str) -> None:
        """Ask the job's ApplicationMaster: it writes the history, which it could not if the RM killed it."""
        work = self.cluster.settings.work_dir
        log = work / "jobs" / f"kill-{job_id}.log"
        class_path = hadoop_config.class_path(work, "console")
        command = [*self.cluster.java_command(CLIENT_HEAP_MIB, class_path, JOB_CLIENT), "-kill", job_id]
        killer = processes.start(f"kill of {job_id}", command, log, self.cluster.environment, cwd=work)
        status = killer.wait(SUBMIT_TIMEOUT_S)
        processes.stop_all([killer])
        if status != 0:
            raise JobError(str(killer.failure(f"ended with status {status}")))

    def _finish(self, job: Job, job_id: str) -> None:
        deadline = time.monotonic() + HISTORY_TIMEOUT_S
        while not (seen := self.api.finished_job(job_id)):
            if time.monotonic() > deadline:
                raise JobError(f"{job_id}: not in the job history after {HISTORY_TIMEOUT_S:.0f} s")
            time.sleep(1)
        status = str(seen.get("state", "UNKNOWN"))
        truths = []
        if job.fault in {"mapper_straggler", "reducer_straggler"}:
            truths = [faults.straggler_truth(self.cluster, self.api, job_id, job.fault)]
        elif job.fault == "late_reducers":
            truths = [faults.late_reducers_truth(self.api, job_id)]
        with self._lock:
            self.outcome.jobs.append(FinishedJob(job_id, job.name, job.kind, job.healthy, status))
            self.outcome.truths += truths
        self._say(f"{job.kind}: {job_id} {status}")
        if status != job.expected:
            raise JobError(f"{job_id} ended as {status}, expected {job.expected}")


def _guarded(inject: Callable[[Injection], None], injection: Injection, failures: list[str]) -> None:
    try:
        inject(injection)
    except (MiniClusterError, OSError, KeyError, ValueError) as error:
        failures.append(str(error))
