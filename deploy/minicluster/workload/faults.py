"""Injects faults while a job runs and writes down what was injected: the ground truth."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deploy.minicluster.cluster import NODEMANAGER, Cluster
from deploy.minicluster.errors import JobError
from deploy.minicluster.hadoop.hadoop_api import HadoopApi, task_of
from deploy.minicluster.processes.process_tree import scan, tree_pids
from deploy.minicluster.settings import Host
from deploy.minicluster.watch_config import MAX_QUEUED_BYTES

HOG_RAMP_S = 50.0
HOG_HOLD_S = 30.0
HOG_LEVELS = (0.05, 0.95)
HOG_DELAY_S = 12.0
PAUSE_S = 12.0
RUN_S = 0.003
RUN_GROWTH = 4
SLOW_AT_MOST_S = 75.0
CONDITION_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Truth:
    """One injected fault as the manifest has it; times in ms since the epoch, both ends inclusive."""

    fault: str
    query: str
    job_id: str
    host: str
    from_ms: int
    to_ms: int
    note: str
    task_ids: list[str] = field(default_factory=list)
    attempt_ids: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    application_id: str = ""
    """Of a fault that hit an application that is no job."""

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)


@dataclass
class Injection:
    """A fault in progress: the job it belongs to and where it stores what it did."""

    cluster: Cluster
    api: HadoopApi
    job_id: str
    job_ended: threading.Event
    truths: list[Truth] = field(default_factory=list)
    kill: Callable[[], None] = lambda: None
    """Ask the job's ApplicationMaster to end it."""

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Poll four times a second. Raises JobError when the job ends first or time is up."""
        deadline = time.monotonic() + CONDITION_TIMEOUT_S
        while not condition():
            if self.job_ended.wait(0.25):
                raise JobError(f"{self.job_id} ended before {what}; no fault was injected")
            if time.monotonic() > deadline:
                raise JobError(f"{self.job_id}: not {what} within {CONDITION_TIMEOUT_S:.0f} s; no fault was injected")

    def running(self, kind: str) -> list[dict[str, Any]]:
        """Running attempts of the job's maps (`kind` "MAP") or reducers ("REDUCE")."""
        found = []
        for task in self.api.live_tasks(self.job_id):
            if task["type"] == kind and task["state"] == "RUNNING":
                attempts = self.api.live_attempts(self.job_id, task["id"])
                found += [attempt for attempt in attempts if attempt["state"] == "RUNNING"]
        return found

    def n_reduces(self) -> int:
        """How many reducers the job has."""
        return sum(task["type"] == "REDUCE" for task in self.api.live_tasks(self.job_id))

    def am_host(self) -> str:
        """The host of the job's ApplicationMaster."""
        return host_of(str(self.api.application(self.job_id).get("amHostHttpAddress", "")))


def host_of(http_address: str) -> str:
    """node3:18042 -> node3."""
    return http_address.partition(":")[0]


def now_ms() -> int:
    """Wall clock in ms since the epoch."""
    return time.time_ns() // 1_000_000


def all_reducers_run(injection: Injection) -> bool:
    """Whether every reducer of the job has a running attempt."""
    return 0 < injection.n_reduces() == len(injection.running("REDUCE"))


def all_maps_are_done(injection: Injection) -> bool:
    """Whether every map of the job has succeeded."""
    states = {task["state"] for task in injection.api.live_tasks(injection.job_id) if task["type"] == "MAP"}
    return states == {"SUCCEEDED"}


def starve_processors(injection: Injection) -> None:
    """A hog on two hosts uses more and more of their capacity while the reducers sleep."""
    injection.wait(lambda: all_reducers_run(injection), "all reducers were running")
    reducers = injection.running("REDUCE")
    cluster = injection.cluster
    cores = cluster.settings.ganglia.cores_per_host
    targets = [host for host in cluster.settings.hosts if host.name != injection.am_host()][:2]
    first, last = (str(level * cores) for level in HOG_LEVELS)
    script = cluster.settings.work_dir / "tasks" / "hog.py"
    # Not before the start of the reducers' JVMs has passed, which loads some hosts for a moment.
    if injection.job_ended.wait(HOG_DELAY_S):
        raise JobError(f"{injection.job_id} ended before the hogs were started")
    from_ms = now_ms()
    for host in targets:
        command = [sys.executable, str(script), first, last, str(HOG_RAMP_S), str(HOG_HOLD_S)]
        cluster.nodes[host].start_beside(command, cluster.log_path(f"hog-{host.name}"))
    if injection.job_ended.wait(HOG_RAMP_S + HOG_HOLD_S):
        raise JobError(f"{injection.job_id} ended before the hogs on {targets[0].name} and {targets[1].name} did")
    for query, form in (("load-imbalance-task", "Q6"), ("imbalance-window-task", "Q5")):
        injection.truths.append(
            Truth(
                fault="cpu_hungry_node",
                query=query,
                job_id=injection.job_id,
                host=targets[0].name,
                hosts=[host.name for host in targets],
                from_ms=from_ms,
                to_ms=now_ms(),
                task_ids=sorted(task_of(attempt["id"]) for attempt in reducers),
                attempt_ids=sorted(str(attempt["id"]) for attempt in reducers),
                note=f"{form} form: a process on each of {', '.join(host.name for host in targets)} uses"
                f" {HOG_LEVELS[0]:.0%} to {HOG_LEVELS[1]:.0%} of the host within {HOG_RAMP_S:.0f} s"
                f" and stays there for {HOG_HOLD_S:.0f} s; tasks are the reducers that ran meanwhile",
            )
        )


def nodemanager_pid(cluster: Cluster, host: Host) -> int:
    """The JVM below the host's guard."""
    return pid_below(cluster.nodes[host].pid, NODEMANAGER, host)


def pid_below(root: int, main_class: str, host: Host) -> int:
    """The JVM that is a child of the guard `root` and runs this class."""
    processes = scan()
    children = [pid for pid in tree_pids(processes, root) if processes[pid].parent == root]
    for pid in children:
        if main_class.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    name = main_class.rpartition(".")[2]
    raise JobError(f"no {name} process was found below the guard of {host.name} (pid {root})")


def map_outputs(injection: Injection) -> dict[str, list[str]]:
    """Host -> attempts of the job's finished maps whose outputs it serves."""
    outputs: dict[str, list[str]] = {}
    for task in injection.api.live_tasks(injection.job_id):
        if task["type"] == "MAP" and task["state"] == "SUCCEEDED":
            for attempt in injection.api.live_attempts(injection.job_id, task["id"]):
                if attempt["id"] == task["successfulAttempt"]:
                    outputs.setdefault(host_of(attempt["nodeHttpAddress"]), []).append(str(attempt["id"]))
    return outputs


def choose_slow_host(injection: Injection, outputs: dict[str, list[str]]) -> Host:
    """The host with most map outputs that runs neither the AM nor a reducer: only its serving may suffer."""
    busy = {host_of(attempt["nodeHttpAddress"]) for attempt in injection.running("REDUCE")} | {injection.am_host()}
    candidates = [host for host in injection.cluster.settings.hosts if host.name in outputs and host.name not in busy]
    if not candidates:
        raise JobError(
            f"{injection.job_id}: every host with map outputs runs a reducer or the AM; nothing to slow down"
        )
    return max(candidates, key=lambda host: len(outputs[host.name]))


def has_left_shuffle(injection: Injection) -> bool:
    """Whether no reducer fetches any more."""
    attempts = injection.running("REDUCE")
    return bool(attempts) and all(attempt.get("elapsedShuffleTime", 0) > 0 for attempt in attempts)


def slow_down_host(injection: Injection) -> None:
    """A NodeManager gets a few milliseconds now and then, more each time, while its map outputs are fetched."""
    injection.wait(lambda: all_maps_are_done(injection), "all maps were done")
    outputs = map_outputs(injection)
    # From here it is a race with the reducers' start-up: their first fetch comes two to three seconds after it.
    injection.wait(lambda: all_reducers_run(injection), "all reducers were started")
    host = choose_slow_host(injection, outputs)
    pid = nodemanager_pid(injection.cluster, host)
    reducers = injection.running("REDUCE")
    from_ms = now_ms()
    deadline = time.monotonic() + SLOW_AT_MOST_S
    shuffled = threading.Event()
    watcher = threading.Thread(target=_watch_shuffle, args=(injection, shuffled, deadline), daemon=True)
    watcher.start()
    run_s = RUN_S
    try:
        while not shuffled.is_set() and time.monotonic() < deadline:
            os.kill(pid, signal.SIGSTOP)
            shuffled.wait(PAUSE_S)
            os.kill(pid, signal.SIGCONT)
            time.sleep(run_s)
            run_s *= RUN_GROWTH  # on a busy machine the first moments are not enough for any answer
    finally:
        os.kill(pid, signal.SIGCONT)
    watcher.join()
    injection.truths.append(
        Truth(
            fault="slow_source_host",
            query="data-pull-straggler",
            job_id=injection.job_id,
            host=host.name,
            hosts=[host.name],
            from_ms=from_ms,
            to_ms=now_ms(),
            task_ids=sorted(task_of(attempt["id"]) for attempt in reducers),
            attempt_ids=sorted(outputs[host.name]),
            note=f"the NodeManager of {host.name} stood still for {PAUSE_S * 1000:.0f} ms, ran for"
            f" {RUN_S * 1000:.0f} ms, then {RUN_GROWTH} times as long, and so on; tasks are the reducers, attempts"
            " the maps whose outputs they fetched from there",
        )
    )


def _watch_shuffle(injection: Injection, shuffled: threading.Event, deadline: float) -> None:
    while time.monotonic() < deadline:
        if injection.job_ended.wait(1.0) or has_left_shuffle(injection):
            break
    shuffled.set()


def straggler_truth(cluster: Cluster, api: HadoopApi, job_id: str, fault: str) -> Truth:
    """The straggler's own note (tasks/emit.py, tasks/consume.py), with the attempt's times from the history."""
    query = {"mapper_straggler": "mapper-straggler-running", "reducer_straggler": "reducer-straggler-running"}[fault]
    path = cluster.settings.work_dir / "jobs" / f"{fault}.truth"
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise JobError(f"{job_id}: the straggler left no note: {error}") from error
    attempt_id = str(lines[-1]["attempt_id"])
    attempts = {attempt["id"]: attempt for attempt in api.finished_attempts(job_id)}
    attempt = attempts[attempt_id]
    notes = {
        "mapper_straggler": "one mapper sleeps for 120 s, the others for 11 s",
        "reducer_straggler": f"skewed keys: this reducer got {lines[-1].get('n_records')} records and"
        " needs the same time for each as the others",
    }
    host = host_of(attempt["nodeHttpAddress"])
    return Truth(
        fault=fault,
        query=query,
        job_id=job_id,
        host=host,
        hosts=[host],
        from_ms=int(attempt["startTime"]),
        to_ms=int(attempt["finishTime"]),
        task_ids=[task_of(attempt_id)],
        attempt_ids=[attempt_id],
        note=notes[fault],
    )


def late_reducers_truth(api: HadoopApi, job_id: str, min_bytes: int = MAX_QUEUED_BYTES) -> Truth:
    """From when at least `min_bytes` of map output were waiting until the first reducer started."""
    attempts = api.finished_attempts(job_id)
    maps = sorted((a for a in attempts if a["type"] == "MAP"), key=lambda a: int(a["finishTime"]))
    reducers = [a for a in attempts if a["type"] == "REDUCE"]
    queued, from_ms = 0, 0
    for attempt in maps:
        queued += materialized_bytes(api, job_id, str(attempt["id"]))
        if queued >= min_bytes:
            from_ms = int(attempt["finishTime"])
            break
    if not from_ms:
        raise JobError(f"{job_id}: only {queued} bytes of map output were queued, expected {min_bytes}")
    return Truth(
        fault="late_reducers",
        query="queued-data-high",
        job_id=job_id,
        host="",
        from_ms=from_ms,
        to_ms=min(int(a["startTime"]) for a in reducers),
        task_ids=sorted(task_of(str(a["id"])) for a in reducers),
        attempt_ids=sorted(str(a["id"]) for a in reducers),
        note=f"reducers start when all maps are done: {min_bytes} bytes and more of map output wait for them",
    )


def materialized_bytes(api: HadoopApi, job_id: str, attempt_id: str) -> int:
    """MAP_OUTPUT_MATERIALIZED_BYTES of a finished attempt."""
    base = f"/ws/v1/history/mapreduce/jobs/{job_id}/tasks/{task_of(attempt_id)}/attempts/{attempt_id}/counters"
    answer = api.history(base)
    groups = answer["jobTaskAttemptCounters"]["taskAttemptCounterGroup"] if isinstance(answer, dict) else []
    for group in groups:
        for counter in group["counter"]:
            if counter["name"] == "MAP_OUTPUT_MATERIALIZED_BYTES":
                return int(counter["value"])
    raise JobError(f"{attempt_id}: the history has no counter MAP_OUTPUT_MATERIALIZED_BYTES")


INJECTIONS: dict[str, Callable[[Injection], None]] = {
    "cpu_hungry_node": starve_processors,
    "slow_source_host": slow_down_host,
}
