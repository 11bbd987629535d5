"""Faults of daemons, each injected for the time of a block and mended at its end."""

from __future__ import annotations

import http.client
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.minicluster.daemons import hdfs_files, namenode_faults
from deploy.minicluster.daemons.cluster import DaemonCluster
from deploy.minicluster.daemons.configuration import data_dirs, local_dirs
from deploy.minicluster.daemons.hdfs_files import write_through
from deploy.minicluster.errors import MiniClusterError
from deploy.minicluster.settings import Host
from deploy.minicluster.workload.faults import Truth

PAUSED_S, RUNS_S = 0.8, 0.1
"""Of a DataNode that is slow: longer than configuration.SLOW_IO_MS and shorter than what JVMs report as a pause."""
SLOW_FILE_BYTES = 20_000_000
"""Several pauses long: a packet waits when buffers of 64 KiB are full."""
MASTER = "master"
SCRIPT, SCRIPT_STATUS = "SCRIPT", 3
"""The type of an application whose master is a command of the shell, and how that ends."""


@dataclass(frozen=True)
class DaemonFault:
    """What is done to which host, and what must be told of it."""

    name: str
    host: str
    told_by: Mapping[str, str]
    """Query -> host that its alert names first: of what the NameNode and the ResourceManager tell, theirs; "" where it
    names none."""
    injected: Callable[[DaemonCluster, Host], AbstractContextManager[str | None]]
    """Gives the application that it hits, where it hits one."""
    note: str
    afterwards: frozenset[str] = frozenset()
    """Queries among them that can tell only when it is over."""

    def truths(self, from_ms: int, to_ms: int, application_id: str | None = None) -> list[Truth]:
        """As the workload's, one for each query; both ends inclusive. `application_id`: what `injected` gave."""
        return [
            Truth(
                self.name, query, "", host, from_ms, to_ms, self.note,
                hosts=[host] if host else [], application_id=application_id or "",
            )
            for query, host in self.told_by.items()
        ]  # fmt: skip


@contextmanager
def replaced_by_files(folders: tuple[Path, ...]) -> Iterator[None]:
    """In place of each folder there is a file, for root too."""
    for folder in folders:
        folder.rename(_aside(folder))
        folder.touch()
    try:
        yield
    finally:
        for folder in folders:
            folder.unlink()
            _aside(folder).rename(folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.aside")


def a_bad_directory(cluster: DaemonCluster, host: Host) -> AbstractContextManager[None]:
    """One of the NodeManager's two."""
    return replaced_by_files(local_dirs(cluster.settings, host)[1:])


def only_bad_directories(cluster: DaemonCluster, host: Host) -> AbstractContextManager[None]:
    """Both of them: the node is unhealthy."""
    return replaced_by_files(local_dirs(cluster.settings, host))


@contextmanager
def slow_datanode(cluster: DaemonCluster, host: Host) -> Iterator[None]:
    """Its process stands still most of the time, while others pass it what is written through them."""
    over = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except (MiniClusterError, OSError, http.client.HTTPException) as error:
            failures.append(error)

    def pause() -> None:
        while not over.is_set():
            cluster.signal_datanode(host, signal.SIGSTOP)
            over.wait(PAUSED_S)
            cluster.signal_datanode(host, signal.SIGCONT)
            over.wait(RUNS_S)

    def write() -> None:
        others = [other for other in cluster.settings.hosts if other != host]
        number = 0
        while not over.is_set():
            # The same few again and again: what they were is deleted, and the DataNodes stay as empty as they were.
            write_through(cluster, others[number % 2], f"/slow/{number % 2}", SLOW_FILE_BYTES)
            number += 1

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in (pause, write)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(hdfs_files.WRITE_TIMEOUT_S)
    hdfs_files.delete(cluster, "/slow")
    if failures:
        raise failures[0]


@contextmanager
def failed_volume(cluster: DaemonCluster, host: Host) -> Iterator[None]:
    """A volume of the DataNode is gone, which it finds when it writes there; it looks again when it starts again."""
    with replaced_by_files(data_dirs(cluster.settings, host)[1:]):
        for number in range(4):  # it takes its volumes in turn
            write_through(cluster, host, f"/volume/{number}", 1_000)
        yield


@contextmanager
def killed_datanode(cluster: DaemonCluster, host: Host) -> Iterator[None]:
    """Until it is started again; what has a replica on every host cannot be copied meanwhile."""
    with namenode_faults.wide_file(cluster, host):
        cluster.kill_datanode(host)
        yield
        cluster.start_datanode(host)


@contextmanager
def safe_mode(cluster: DaemonCluster, _: Host) -> Iterator[None]:
    """As an operator enters it, to make a checkpoint."""
    cluster.administer_hdfs("-safemode", "enter")
    yield
    cluster.administer_hdfs("-saveNamespace")
    cluster.administer_hdfs("-safemode", "leave")


@contextmanager
def failing_application(cluster: DaemonCluster, _: Host) -> Iterator[str]:
    """No MapReduce job: a master that ends before it has said a word to the ResourceManager."""
    yield cluster.api.submit_application("nightly load", SCRIPT, f"exit {SCRIPT_STATUS}")


@contextmanager
def stopped_nodemanager(cluster: DaemonCluster, host: Host) -> Iterator[None]:
    """Its process stands still until the end of the block."""
    cluster.signal_nodemanager(host, signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.signal_nodemanager(host, signal.SIGCONT)


ROUNDS = (
    (
        DaemonFault(
            "bad_directory", "node1",
            {"nodemanager-bad-directory": "node1", "nodemanager-directory-failed": "node1"},
            a_bad_directory, "in place of one of the NodeManager's two directories for containers there is a file",
        ),
        DaemonFault(
            "name_directory_hangs", MASTER,
            {"hdfs-name-directory-failed": MASTER, "namenode-lock-held": MASTER, "rpc-slow": MASTER},
            namenode_faults.hanging_name_directory,
            "one of the NameNode's two directories hangs while its edits are rolled, and then fails",
        ),
    ),
    (
        DaemonFault(
            "unhealthy_node", "node2", {"node-unhealthy": "node2", "nodemanagers-lost": MASTER},
            only_bad_directories, "in place of both directories of the NodeManager for containers there are files",
        ),
        DaemonFault(
            "missing_block", "node2", {"hdfs-missing-blocks": MASTER},
            namenode_faults.missing_block, "the only replica of a file is gone from the disk, and is read",
        ),
        DaemonFault(
            "full_datanode", "node1", {"datanode-capacity": "node1", "hdfs-capacity": MASTER},
            namenode_faults.full_datanode, f"a file of {namenode_faults.FULL_BYTES >> 20} MiB on one DataNode",
        ),
        DaemonFault(
            "unknown_token", MASTER, {"credentials-failed": MASTER},
            namenode_faults.unknown_token, "a client comes with a delegation token that the NameNode does not know",
        ),
    ),
    (
        DaemonFault(
            "failing_application", MASTER, {"application-failed": "", "master-failed": ""},
            failing_application, f"an application of type {SCRIPT} whose master ends with status {SCRIPT_STATUS}",
        ),
        DaemonFault(
            "slow_datanode", "node3", {"datanode-slow-peer": "node3"},
            slow_datanode, f"the DataNode stands still for {PAUSED_S} s, runs for {RUNS_S} s, and so on",
        ),
    ),
    (
        DaemonFault(
            "failed_volume", "node3", {"datanode-disk-failed": "node3", "hdfs-volume-failed": "node3"},
            failed_volume, "in place of one of the DataNode's two volumes there is a file",
        ),
    ),
    (
        DaemonFault(
            "datanode_lost", "node3",
            {
                "datanode-lost": "node3", "daemon-unreachable": "node3", "hdfs-datanodes-dead": MASTER,
                "hdfs-under-replicated": MASTER,
            },
            killed_datanode, "kill -9 to the DataNode",
        ),
    ),
    (
        DaemonFault(
            "busy_user", MASTER,
            {"hdfs-user-busy": MASTER, "hdfs-checkpoint-transactions": MASTER, "hdfs-checkpoint-late": MASTER},
            namenode_faults.busy_user,
            f"one user makes {namenode_faults.N_FOLDERS} folders, and there is no checkpoint",
        ),
        DaemonFault(
            "nodemanager_stopped", "node2",
            {
                "node-lost": "node2", "daemon-unreachable": "node2", "nodemanagers-lost": MASTER,
                "daemon-paused": "node2", "gc-pause": "node2",
            },
            stopped_nodemanager, "SIGSTOP to the NodeManager",
            afterwards=frozenset({"daemon-paused", "gc-pause"}),
        ),
    ),
    (
        DaemonFault(
            "safe_mode", MASTER, {"hdfs-safe-mode": MASTER, "hdfs-safe-mode-stays": MASTER},
            safe_mode, "hdfs dfsadmin -safemode enter, -saveNamespace, -safemode leave",
        ),
    ),
)  # fmt: skip
"""Those of one round are injected at once, since what tells of one tells of no other; round after round."""
FAULTS = tuple(fault for faults in ROUNDS for fault in faults)
