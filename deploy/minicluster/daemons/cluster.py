"""NameNode, ResourceManager, JobHistoryServer and timeline server on the master; a DataNode and a NodeManager on each
host."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from deploy.minicluster.cluster import (
    DATANODE,
    JOBHISTORYSERVER,
    NAMENODE,
    NODEMANAGER,
    RESOURCEMANAGER,
    START_TIMEOUT_S,
    Cluster,
)
from deploy.minicluster.daemons import configuration
from deploy.minicluster.daemons.relay import Relay
from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.hadoop.hadoop_api import HadoopApi
from deploy.minicluster.hadoop.http_client import get_json
from deploy.minicluster.processes import processes
from deploy.minicluster.processes.processes import Process
from deploy.minicluster.settings import Host, Settings
from deploy.minicluster.workload.faults import nodemanager_pid, pid_below

TIMELINESERVER = "org.apache.hadoop.yarn.server.applicationhistoryservice.ApplicationHistoryServer"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
ADMIN_HEAP_MIB = 96
SETTINGS = Path(__file__).with_name("daemons.yaml")


class DaemonCluster(Cluster):
    """A mini cluster without Ganglia, whose hosts have DataNodes too."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.datanodes: dict[Host, Process] = {}
        self._relays: list[Relay] = []

    @property
    def processes(self) -> list[Process]:
        """Every daemon that should run."""
        return [*super().processes, *self.datanodes.values()]

    @property
    def api(self) -> HadoopApi:
        """Calls to its daemons."""
        addresses = {host.name: host.address for host in self.settings.hosts}
        return HadoopApi(self.settings.master_address, self.ports, addresses)

    def host(self, name: str) -> Host:
        """By its name; raises KeyError."""
        return {host.name: host for host in (self.settings.master, *self.settings.hosts)}[name]

    def stop(self) -> None:
        """End everything; may be called again."""
        super().stop()
        self.datanodes.clear()
        for relay in self._relays:
            relay.close()
        self._relays.clear()

    # ---- what faults need --------------------------------------------------------------------------------------

    def signal_datanode(self, host: Host, number: signal.Signals) -> None:
        """To its JVM."""
        os.kill(pid_below(self.datanodes[host].pid, DATANODE, host), number)

    def signal_nodemanager(self, host: Host, number: signal.Signals) -> None:
        """To its JVM."""
        os.kill(nodemanager_pid(self, host), number)

    def kill_datanode(self, host: Host) -> None:
        """`kill -9`; it is gone afterwards."""
        self.signal_datanode(host, signal.SIGKILL)
        process = self.datanodes.pop(host)
        if process.wait(START_TIMEOUT_S) is None:
            raise process.failure("still there after kill -9")

    def start_datanode(self, host: Host) -> None:
        """Start it, with what is in its folders."""
        heap = self.settings.memory.daemon_heap
        self.datanodes[host] = self._daemon(f"datanode-{host.name}", DATANODE, heap, host)

    def administer_hdfs(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """`hdfs dfsadmin`, with more in its environment; raises StartError when it fails."""
        work = self.settings.work_dir
        class_path = hadoop_config.class_path(work, "console")
        command = [*self.java_command(ADMIN_HEAP_MIB, class_path, ADMIN), *words]
        log = work / "logs" / "dfsadmin.out"
        given = self.environment | dict(environment or {})
        process = processes.start(f"dfsadmin {' '.join(words)}", command, log, given, cwd=work)
        status = process.wait(START_TIMEOUT_S)
        processes.stop_all([process])
        if status != 0:
            raise process.failure(f"ended with status {status}")

    def wait_until_whole(self) -> None:
        """Every DataNode and NodeManager that has been started is in use."""
        self._wait(self._all_datanodes_live, f"{len(self.datanodes)} live DataNodes", "namenode")
        self._wait(self._yarn_is_healthy, f"{len(self.nodes)} active NodeManagers", "resourcemanager")

    # ---- its start ---------------------------------------------------------------------------------------------

    def _configure(self) -> None:
        configuration.write_all(self.settings, self.ports)
        for host in self.settings.hosts:
            for folder in (
                *configuration.local_dirs(self.settings, host),
                *configuration.data_dirs(self.settings, host),
            ):
                folder.mkdir(parents=True)

    def _start(self) -> None:
        self._prepare()
        settings, heap = self.settings, self.settings.memory.daemon_heap
        self._format_namenode()
        target = (settings.master_address, self.ports["namenode"])
        self._relays = [Relay(host.address, target) for host in settings.hosts]
        # Logs are named with their hosts: that is how the daemons are known.
        self.master["namenode"] = self._daemon("namenode-master", NAMENODE, heap)
        resources = settings.memory.resourcemanager_heap
        # Before the ResourceManager, which publishes to it from its start on.
        self.master["timeline"] = self._daemon("timelineserver-master", TIMELINESERVER, resources)
        self._wait(self._timeline_is_healthy, "answering", "timeline")
        self.master["resourcemanager"] = self._daemon("resourcemanager-master", RESOURCEMANAGER, resources)
        for host in settings.hosts:
            self.start_datanode(host)
        self._wait(self._all_datanodes_live, f"{len(self.datanodes)} live DataNodes, no safe mode", "namenode")
        self.master["jobhistory"] = self._daemon("jobhistory-master", JOBHISTORYSERVER, heap)
        for host in settings.hosts:
            self.nodes[host] = self._daemon(f"nodemanager-{host.name}", NODEMANAGER, heap, host)
        self.wait_until_whole()
        self._wait(self._jobhistory_is_healthy, "answering", "jobhistory")

    def _all_datanodes_live(self) -> bool:
        return self._hdfs_is_healthy(len(self.datanodes))

    def _timeline_is_healthy(self) -> bool:
        path = "/ws/v1/applicationhistory/about"
        return get_json(self.settings.master_address, self.ports["timeline_http"], path) is not None
