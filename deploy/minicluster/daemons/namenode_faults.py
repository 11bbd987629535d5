"""Faults that the NameNode tells of: blocks, space, its directories and its lock, users, tokens."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.minicluster.daemons import hdfs_files
from deploy.minicluster.daemons.cluster import DaemonCluster
from deploy.minicluster.daemons.configuration import name_dirs
from deploy.minicluster.errors import MiniClusterError, StartError
from deploy.minicluster.settings import Host

MISSING_BYTES = 54_321
"""No other block has this size."""
FULL_BYTES = 400_000_000
WIDE_BYTES = 30_000_000
"""In blocks of 1 MiB."""
N_CLIENTS, N_CALLS_EACH = 8, 250
N_FOLDERS = N_CLIENTS * N_CALLS_EACH
BUSY_USER = "busy"
HELD_S = 7.0
"""Longer than configuration.LOCK_MS, and shorter than DataNodes may be silent (configuration.STALE_MS)."""
ROLLS = b"Starting log segment at"
ROLL_WITHIN_S = 60.0


@contextlib.contextmanager
def missing_block(cluster: DaemonCluster, host: Host) -> Iterator[None]:
    """A file of one replica whose block is gone from the disk, which its DataNode finds when it is read."""
    path = "/missing/one"
    with hdfs_files.written(cluster, host, path, MISSING_BYTES, replication=1):
        for file in hdfs_files.replica_files(cluster, host, MISSING_BYTES):
            file.unlink()
        if hdfs_files.read_through(cluster, host, path) == http.client.OK:
            raise MiniClusterError(f"{path} could be read although its block is gone")
        yield


def full_datanode(cluster: DaemonCluster, host: Host) -> contextlib.AbstractContextManager[None]:
    """A large file of one replica."""
    return hdfs_files.written(cluster, host, "/full/large", FULL_BYTES, replication=1)


def wide_file(cluster: DaemonCluster, host: Host) -> contextlib.AbstractContextManager[None]:
    """Blocks with a replica on every host: without one of the hosts there is no place for the third."""
    return hdfs_files.written(cluster, host, "/wide/file", WIDE_BYTES, replication=3, block_mib=1)


@contextlib.contextmanager
def busy_user(cluster: DaemonCluster, _: Host) -> Iterator[None]:
    """Thousands of operations of one user at once, each a transaction; what is left of them is one folder."""
    address, port = cluster.settings.master_address, cluster.ports["namenode_http"]

    def call(number: int) -> None:
        connection = http.client.HTTPConnection(address, port, timeout=hdfs_files.WRITE_TIMEOUT_S)
        try:
            for each in range(N_CALLS_EACH):
                target = f"/webhdfs/v1/busy/{number}/{each}?op=MKDIRS&user.name={BUSY_USER}"
                connection.request("PUT", target)
                answer = connection.getresponse()
                told = answer.read()
                if answer.status != http.client.OK:
                    raise MiniClusterError(f"the NameNode made no folder: HTTP {answer.status}: {told[:300]!r}")
        finally:
            connection.close()

    with ThreadPoolExecutor(N_CLIENTS) as pool:
        list(pool.map(call, range(N_CLIENTS)))
    hdfs_files.delete(cluster, "/busy")
    yield


@contextlib.contextmanager
def hanging_name_directory(cluster: DaemonCluster, _: Host) -> Iterator[None]:
    """A directory whose disk hangs while the NameNode holds its lock for it, and then fails.

    In place of a file that it writes at each roll of its edits there is a FIFO: nothing can be written before somebody
    reads, and nothing can be synced.
    """
    fifo = name_dirs(cluster.settings)[1] / "current" / "seen_txid.tmp"
    os.mkfifo(fifo)
    log = cluster.log_path("namenode-master")
    offset = log.stat().st_size
    failures: list[StartError] = []

    def roll() -> None:
        try:
            cluster.administer_hdfs("-rollEdits")
        except StartError as error:
            failures.append(error)

    rolling = threading.Thread(target=roll, daemon=True)
    rolling.start()
    try:
        _wait_until_it_rolls(log, offset, rolling)
        time.sleep(HELD_S)
    finally:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            rolling.join(ROLL_WITHIN_S)
        finally:
            os.close(reader)
            fifo.unlink(missing_ok=True)
    if failures:
        raise failures[0]
    yield
    cluster.administer_hdfs("-rollEdits")  # it takes the directory up again (dfs.namenode.name.dir.restore)


def _wait_until_it_rolls(log: Path, offset: int, rolling: threading.Thread) -> None:
    """The NameNode says so, with its lock held, just before it opens the FIFO."""
    deadline_s = time.monotonic() + ROLL_WITHIN_S
    while True:
        with log.open("rb") as stream:
            stream.seek(offset)
            if ROLLS in stream.read():
                return
        if time.monotonic() > deadline_s or not rolling.is_alive():
            raise MiniClusterError("the NameNode did not come to write its second name directory")
        time.sleep(0.1)


@contextlib.contextmanager
def unknown_token(cluster: DaemonCluster, _: Host) -> Iterator[None]:
    """A client comes with a token that the NameNode does not know, as after its time is over."""
    path = cluster.settings.work_dir / "tmp" / "unknown.token"
    service = f"{cluster.settings.master_address}:{cluster.ports['namenode']}"
    _write_token(path, service)
    try:
        cluster.administer_hdfs("-report", environment={"HADOOP_TOKEN_FILE_LOCATION": str(path)})
    except StartError:
        yield
    else:
        raise MiniClusterError("the NameNode took a token that it has never given")


def _write_token(path: Path, service: str) -> None:
    """A file of credentials as Hadoop writes it, with one delegation token of HDFS; numbers below 112 are one byte."""

    def text(value: str | bytes) -> bytes:
        content = value.encode() if isinstance(value, str) else value
        return bytes([len(content)]) + content

    version, nothing = b"\0", b"\0"
    issued, expires, sequence, key = (bytes([number]) for number in (1, 2, 77, 3))
    identifier = version + text("alice") + text("alice") + nothing + issued + expires + sequence + key
    token = text(identifier) + text(bytes(20)) + text("HDFS_DELEGATION_TOKEN") + text(service)
    path.write_bytes(b"HDTS" + version + b"\1" + text(service) + token + nothing)
