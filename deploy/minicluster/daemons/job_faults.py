"""Faults of containers, masters, queues and nodes that hit a job; each writes down what was done (see faults.py)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.minicluster.cluster import START_TIMEOUT_S
from deploy.minicluster.daemons.configuration import READ_BYTES_PER_S
from deploy.minicluster.errors import JobError
from deploy.minicluster.hadoop.hadoop_api import application_of
from deploy.minicluster.processes.process_tree import scan, tree_pids
from deploy.minicluster.workload.faults import (
    Injection,
    Truth,
    all_maps_are_done,
    choose_slow_host,
    host_of,
    map_outputs,
    nodemanager_pid,
    now_ms,
)
from deploy.minicluster.workload.jobs import BAD_HOST, LARGE_BYTES, MAX_FAILURES_PER_HOST

STARVED_S = 115.0
"""Longer than clustercep is told to wait (watching.MIN_WAIT_S)."""
LOST_S = 35.0
TOLD_S = 5.0
"""Until the master's log says what its page says."""
MASTER_HOST = "master"
"""The ResourceManager's, which tells of its nodes."""
MASTER = "org.apache.hadoop.mapreduce.v2.app.MRAppMaster"


def exceed_memory(injection: Injection) -> None:
    """The job does it by itself: what its first failed attempt tells is written down."""
    found: list[dict[str, Any]] = []

    def has_failed() -> bool:
        found[:] = _failed_attempts(injection)
        return bool(found)

    injection.wait(has_failed, "an attempt had failed")
    host = host_of(found[0]["nodeHttpAddress"])
    injection.truths.append(
        Truth(
            fault="container_memory",
            query="container-memory",
            job_id=injection.job_id,
            host=host,
            hosts=[host],
            from_ms=int(found[0]["startTime"]),
            to_ms=now_ms(),
            note="the first attempt of one map takes 600 MiB, its container has 512",
        )
    )


def _failed_attempts(injection: Injection) -> list[dict[str, Any]]:
    tasks = injection.api.live_tasks(injection.job_id)
    attempts = (a for task in tasks for a in injection.api.live_attempts(injection.job_id, task["id"]))
    return [attempt for attempt in attempts if attempt["state"] == "FAILED"]


def kill_master(injection: Injection) -> None:
    """SIGKILL to the job's first ApplicationMaster when its maps run."""
    injection.wait(lambda: bool(injection.running("MAP")), "a map was running")
    host = injection.am_host()
    pid = _master_pid(injection, host)
    from_ms = now_ms()
    os.kill(pid, signal.SIGKILL)
    path = f"/ws/v1/cluster/apps/{application_of(injection.job_id)}/appattempts"
    injection.wait(lambda: _n_attempts(injection.api.rm(path)) > 1, "a second master was there")
    injection.truths.append(
        Truth(
            fault="master_killed",
            query="master-failed",
            job_id=injection.job_id,
            host="",  # of its node, which is not to blame, the alert says nothing
            from_ms=from_ms,
            to_ms=now_ms(),
            note=f"SIGKILL to the ApplicationMaster on {host} while maps ran; a second one took the job over",
        )
    )


def _n_attempts(answer: Any) -> int:
    return len(answer["appAttempts"]["appAttempt"]) if isinstance(answer, dict) else 0


def _master_pid(injection: Injection, host: str) -> int:
    """The JVM: the shells around it have the same words in their command lines."""
    (root,) = (process.pid for each, process in injection.cluster.nodes.items() if each.name == host)
    application = application_of(injection.job_id).encode()
    for pid in tree_pids(scan(), root):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        if MASTER.encode() in words and any(application in word for word in words):
            return pid
    raise JobError(f"{injection.job_id}: no process of its ApplicationMaster was found on {host}")


def starve_queue(injection: Injection) -> None:
    """Its queue has room for the master alone: after a while somebody gives up."""
    injection.wait(lambda: _state(injection) == "RUNNING", "its master ran")
    from_ms = now_ms()
    if injection.job_ended.wait(STARVED_S):
        raise JobError(f"{injection.job_id} ended in a queue that has no room for its maps")
    starved = Truth(
        fault="queue_starved",
        query="containers-pending",
        job_id=injection.job_id,
        host="",
        from_ms=from_ms,
        to_ms=now_ms(),
        note=f"its queue has room for one container, which its master has: no map for {STARVED_S:.0f} s",
    )
    injection.truths += [
        starved,
        replace(starved, query="queue-starved", job_id="", host=MASTER_HOST, hosts=[MASTER_HOST]),
    ]
    injection.kill()


def _state(injection: Injection) -> str | None:
    return injection.api.application(injection.job_id).get("state")


def wait_for_master(injection: Injection) -> None:
    """The queue's one container is another job's: what the wait was is written down."""
    _note_the_way_to_running(injection, "master_waits", "job-waits", "the only container of its queue was taken")


def wait_for_files(injection: Injection) -> None:
    """The job ships a large file, which DataNodes serve slowly: until its master has it nothing runs."""
    note = f"a file of {LARGE_BYTES >> 20} MiB came to its nodes at {READ_BYTES_PER_S >> 20} MiB/s"
    _note_the_way_to_running(injection, "slow_localisation", "localisation-slow", note)


def _note_the_way_to_running(injection: Injection, fault: str, query: str, note: str) -> None:
    from_ms = now_ms()
    injection.wait(lambda: _state(injection) == "ACCEPTED", "it was accepted")
    injection.wait(lambda: _state(injection) == "RUNNING", "its master ran")
    injection.truths.append(Truth(fault, query, injection.job_id, "", from_ms, now_ms(), note))


def fail_on_host(injection: Injection) -> None:
    """Its maps fail on one host by themselves: when as many have as its master bears is written down."""
    from_ms = now_ms()

    def has_failed_enough() -> bool:
        hosts = [host_of(attempt["nodeHttpAddress"]) for attempt in _failed_attempts(injection)]
        return hosts.count(BAD_HOST) >= MAX_FAILURES_PER_HOST

    injection.wait(has_failed_enough, f"{MAX_FAILURES_PER_HOST} attempts had failed on {BAD_HOST}")
    injection.job_ended.wait(TOLD_S)
    injection.truths.append(
        Truth(
            fault="tasks_fail_on_host",
            query="host-blacklisted",
            job_id=injection.job_id,
            host=BAD_HOST,
            hosts=[BAD_HOST],
            from_ms=from_ms,
            to_ms=now_ms(),
            note=f"every attempt on {BAD_HOST} fails; its master bears {MAX_FAILURES_PER_HOST} there",
        )
    )


def lose_map_outputs(injection: Injection) -> None:
    """`kill -9` to a NodeManager with map outputs, and so to its shuffle and containers, before reducers fetch them."""
    injection.wait(lambda: all_maps_are_done(injection), "all maps were done")
    cluster = injection.cluster
    host = choose_slow_host(injection, map_outputs(injection))
    from_ms = now_ms()
    os.kill(nodemanager_pid(cluster, host), signal.SIGKILL)
    process = cluster.nodes.pop(host)
    if process.wait(START_TIMEOUT_S) is None:
        raise process.failure("still there after kill -9")
    # The job runs the lost maps again when the ResourceManager has given the node up.
    injection.job_ended.wait(LOST_S)
    lost = Truth(
        fault="map_outputs_lost",
        query="node-lost",
        job_id="",
        host=host.name,
        hosts=[host.name],
        from_ms=from_ms,
        to_ms=now_ms(),
        note=f"kill -9 to the NodeManager of {host.name}, which had map outputs that reducers were about to fetch",
    )
    injection.truths += [
        lost,
        replace(lost, query="daemon-unreachable"),
        replace(lost, query="nodemanagers-lost", host=MASTER_HOST, hosts=[MASTER_HOST]),
        replace(lost, query="fetch-failures-host", job_id=injection.job_id),
    ]


INJECTIONS: dict[str, Callable[[Injection], None]] = {
    "container_memory": exceed_memory,
    "master_killed": kill_master,
    "queue_starved": starve_queue,
    "master_waits": wait_for_master,
    "map_outputs_lost": lose_map_outputs,
    "slow_localisation": wait_for_files,
    "tasks_fail_on_host": fail_on_host,
}
