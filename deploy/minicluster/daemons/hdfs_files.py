"""Files of HDFS that faults need: written on a chosen host, read, deleted, by WebHDFS."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path

from deploy.minicluster.daemons.cluster import DaemonCluster
from deploy.minicluster.daemons.configuration import data_dirs
from deploy.minicluster.errors import MiniClusterError
from deploy.minicluster.hadoop.http_client import request
from deploy.minicluster.settings import Host

WRITE_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 5.0
"""Of a file that is not there any more: a client tries for longer, its DataNode knows at once."""


def write_through(
    cluster: DaemonCluster, host: Host, path: str, n_bytes: int, *, replication: int = 2, block_mib: int = 16
) -> None:
    """A file whose first replica is on `host`."""
    namenode = f"{host.name}:{cluster.ports['namenode']}"  # by the host's relay: so it is known for the writer
    query = (
        f"op=CREATE&user.name=hadoop&namenoderpcaddress={namenode}&overwrite=true"
        f"&replication={replication}&blocksize={block_mib << 20}"
    )
    connection = http.client.HTTPConnection(host.address, cluster.ports["datanode_http"], timeout=WRITE_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/octet-stream"}
        connection.request("PUT", f"/webhdfs/v1{path}?{query}", body=bytes(n_bytes), headers=headers)
        answer = connection.getresponse()
        told = answer.read(300)
    finally:
        connection.close()
    if answer.status != http.client.CREATED:
        raise MiniClusterError(f"the DataNode of {host.name} did not write {path}: HTTP {answer.status}: {told!r}")


def read_through(cluster: DaemonCluster, host: Host, path: str) -> int | None:
    """Read a file by the DataNode of `host`; the answer's status, None when it is still trying."""
    namenode = f"{host.name}:{cluster.ports['namenode']}"
    target = f"/webhdfs/v1{path}?op=OPEN&user.name=hadoop&namenoderpcaddress={namenode}"
    try:
        return request(host.address, cluster.ports["datanode_http"], target, timeout_s=READ_TIMEOUT_S).status
    except TimeoutError:
        return None


def delete(cluster: DaemonCluster, path: str) -> None:
    """A file or folder, with all that is in it."""
    target = f"/webhdfs/v1{path}?op=DELETE&user.name=hadoop&recursive=true"
    address, port = cluster.settings.master_address, cluster.ports["namenode_http"]
    answer = request(address, port, target, method="DELETE", timeout_s=WRITE_TIMEOUT_S)
    if answer.status != http.client.OK:
        raise MiniClusterError(f"the NameNode did not delete {path}: HTTP {answer.status}: {answer.body[:300]}")


@contextlib.contextmanager
def written(
    cluster: DaemonCluster, host: Host, path: str, n_bytes: int, *, replication: int, block_mib: int = 16
) -> Iterator[None]:
    """As write_through, for the time of the block."""
    write_through(cluster, host, path, n_bytes, replication=replication, block_mib=block_mib)
    yield
    delete(cluster, path)


def replica_files(cluster: DaemonCluster, host: Host, n_bytes: int) -> list[Path]:
    """The one block of this size on `host`, and its checksums."""
    blocks = [
        path
        for folder in data_dirs(cluster.settings, host)
        for path in folder.rglob("blk_*")
        if path.suffix != ".meta" and path.stat().st_size == n_bytes
    ]
    if len(blocks) != 1:
        raise MiniClusterError(f"expected one block of {n_bytes} bytes on {host.name}, found {len(blocks)}")
    return [blocks[0], *blocks[0].parent.glob(f"{blocks[0].name}_*.meta")]
