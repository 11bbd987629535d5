"""What this cluster's daemons are told beside what every mini cluster is: hosts of their own, short time-outs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.settings import Host, Settings
from deploy.minicluster.workload.jobs import NARROW_QUEUE

NARROW_PERCENT = 12
NODE_EXPIRY_MS = 20_000
DATANODE_RECHECK_MS = 3_000
"""A DataNode is dead after twice this and ten heartbeats of a second: 16 s."""
STALE_MS = 12_000
SLOW_IO_MS = 500
SOCKET_BYTES = 65_536
"""Of DataNodes: what a peer does not take is felt at once, not after megabytes."""
CHECK_MS = 2_000
BLOCK_BYTES = 16 << 20
VOLUME_BYTES = 1 << 30
"""Of each volume of a DataNode: the rest of the disk is reserved for others."""
READ_BYTES_PER_S = 3 << 20
"""Of each DataNode, so that a large file takes a while to come."""
LOCK_MS = 2_000
AUDIT_LOG4J = """\
log4j.logger.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=INFO,AUDIT
log4j.additivity.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=false
log4j.appender.AUDIT=org.apache.log4j.FileAppender
log4j.appender.AUDIT.File=${hadoop.log.dir}/audit/hdfs-audit-master.log
log4j.appender.AUDIT.layout=org.apache.log4j.PatternLayout
log4j.appender.AUDIT.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


def local_dirs(settings: Settings, host: Host) -> tuple[Path, Path]:
    """Where the NodeManager keeps what containers need."""
    folder = settings.work_dir / "nodes" / host.name
    return folder / "local", folder / "local2"


def data_dirs(settings: Settings, host: Host) -> tuple[Path, Path]:
    """The DataNode's volumes."""
    folder = settings.work_dir / "hdfs" / host.name
    return folder / "data", folder / "data2"


def name_dirs(settings: Settings) -> tuple[Path, Path]:
    """Where the NameNode keeps its name space."""
    return settings.work_dir / "hdfs" / "name", settings.work_dir / "hdfs" / "name2"


def audit_dir(settings: Settings) -> Path:
    """Where the NameNode writes its audit log."""
    return settings.work_dir / "logs" / "audit"


def timeline_dir(settings: Settings) -> Path:
    """Where the timeline server keeps what is published."""
    return settings.work_dir / "timeline"


def write_all(settings: Settings, ports: Mapping[str, int]) -> None:
    """As hadoop_config.write_all."""

    def more(node: Host | None) -> dict[str, dict[str, object]]:
        return {
            "hdfs-site.xml": _hdfs(settings, ports, node),
            "yarn-site.xml": _yarn(settings, node) | _timeline(settings, ports),
            "mapred-site.xml": {"mapreduce.client.submit.file.replication": 2},
            "capacity-scheduler.xml": _queues(),
        }

    hadoop_config.write_all(settings, ports, more)
    with (settings.work_dir / "conf" / "daemon" / "log4j.properties").open("a", encoding="utf-8") as log4j:
        log4j.write(AUDIT_LOG4J)


def _hdfs(settings: Settings, ports: Mapping[str, int], node: Host | None) -> dict[str, object]:
    told: dict[str, object] = {
        "dfs.replication": 2,
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": DATANODE_RECHECK_MS,
        "dfs.namenode.stale.datanode.interval": STALE_MS,
        "dfs.namenode.redundancy.interval.seconds": 1,
        "dfs.datanode.slow.io.warning.threshold.ms": SLOW_IO_MS,
        "dfs.datanode.transfer.socket.send.buffer.size": SOCKET_BYTES,
        "dfs.datanode.transfer.socket.recv.buffer.size": SOCKET_BYTES,
        "dfs.datanode.failed.volumes.tolerated": 1,
        "dfs.datanode.disk.check.min.gap": "0s",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        "dfs.blocksize": BLOCK_BYTES,
        "dfs.namenode.name.dir": ",".join(map(str, name_dirs(settings))),
        "dfs.namenode.name.dir.restore": True,
        "dfs.namenode.write-lock-reporting-threshold-ms": LOCK_MS,
    }
    if node is not None:
        disk = shutil.disk_usage(settings.work_dir)
        told |= {
            "dfs.datanode.du.reserved": max(0, disk.used + disk.free - VOLUME_BYTES),
            "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space": 0,
            "dfs.datanode.data.read.bandwidthPerSec": READ_BYTES_PER_S,
            # Through the relay of its host, so that the NameNode sees it come from there.
            "dfs.namenode.rpc-address": f"{node.name}:{ports['namenode']}",
            "dfs.datanode.data.dir": ",".join(map(str, data_dirs(settings, node))),
            "dfs.datanode.address": f"{node.name}:{ports['datanode']}",
            "dfs.datanode.http.address": f"{node.name}:{ports['datanode_http']}",
            "dfs.datanode.ipc.address": f"{node.name}:{ports['datanode_ipc']}",
            "dfs.datanode.hostname": node.name,
        }
    return told


def _yarn(settings: Settings, node: Host | None) -> dict[str, object]:
    told: dict[str, object] = {
        "yarn.nm.liveness-monitor.expiry-interval-ms": NODE_EXPIRY_MS,
        "yarn.nodemanager.pmem-check-enabled": True,
        # Else that is left to cgroups, whether there are any or not.
        "yarn.nodemanager.resource.memory.enforced": False,
        "yarn.nodemanager.resource-monitor.interval-ms": 1_000,
        "yarn.nodemanager.container-monitor.interval-ms": 1_000,
        "yarn.nodemanager.disk-health-checker.interval-ms": CHECK_MS,
    }
    if node is not None:
        told["yarn.nodemanager.local-dirs"] = ",".join(map(str, local_dirs(settings, node)))
    return told


def _timeline(settings: Settings, ports: Mapping[str, int]) -> dict[str, object]:
    folder = timeline_dir(settings)
    return {
        "yarn.timeline-service.enabled": True,
        "yarn.timeline-service.version": "1.0",
        "yarn.timeline-service.hostname": "master",
        "yarn.timeline-service.address": f"master:{ports['timeline']}",
        "yarn.timeline-service.webapp.address": f"master:{ports['timeline_http']}",
        "yarn.timeline-service.generic-application-history.enabled": True,
        "yarn.system-metrics-publisher.enabled": True,
        "yarn.resourcemanager.system-metrics-publisher.enabled": True,
        "yarn.timeline-service.leveldb-timeline-store.path": folder,
        "yarn.timeline-service.leveldb-state-store.path": folder,
        "yarn.timeline-service.client.max-retries": 3,
    }


def _queues() -> dict[str, object]:
    root = "yarn.scheduler.capacity.root"
    return {
        f"{root}.queues": f"default,{NARROW_QUEUE}",
        f"{root}.default.capacity": 100 - NARROW_PERCENT,
        f"{root}.default.user-limit-factor": 2,
        f"{root}.{NARROW_QUEUE}.capacity": NARROW_PERCENT,
        f"{root}.{NARROW_QUEUE}.maximum-capacity": NARROW_PERCENT,
        f"{root}.{NARROW_QUEUE}.maximum-am-resource-percent": 1,
    }
