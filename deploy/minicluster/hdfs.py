"""HDFS alone: a NameNode that can be killed and started again, and a DataNode."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from deploy.minicluster.cluster import DATANODE, NAMENODE, START_TIMEOUT_S, Cluster, lock_work_dir, prepare_work_dir
from deploy.minicluster.errors import StartError
from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.processes import ports
from deploy.minicluster.processes.guard import descendants, signal_all

SHELL = "org.apache.hadoop.fs.FsShell"
SHELL_HEAP_MIB = 128


class Hdfs(Cluster):
    """The mini cluster without the rest of it."""

    @property
    def url(self) -> str:
        """Of the file system."""
        return f"hdfs://{self.settings.master_address}:{self.ports['namenode']}"

    def kill_namenode(self) -> None:
        """`kill -9`; it is gone afterwards."""
        process = self.master["namenode"]
        signal_all(descendants(process.pid), signal.SIGKILL)
        if process.wait(START_TIMEOUT_S) is None:
            raise process.failure("still there after kill -9")

    def start_namenode(self) -> None:
        """Start it (again), with what it has on disk; raises StartError when it does not leave its safe mode."""
        self.master["namenode"] = self._daemon("namenode", NAMENODE, self.settings.memory.daemon_heap)
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        """Raises StartError when one of the two ends or time is up."""
        self._wait(self._hdfs_is_healthy, "healthy (a live DataNode, no safe mode)", "namenode", "datanode")

    def copy_out(self, path: str, folder: Path) -> None:
        """A file or folder of the file system to a new place on this machine, by Hadoop's own shell."""
        console = hadoop_config.class_path(self.settings.work_dir, "console")
        command = [*self.java_command(SHELL_HEAP_MIB, console, SHELL), "-get", f"{self.url}{path}", str(folder)]
        done = subprocess.run(  # noqa: S603 - our own arguments
            command,
            cwd=self.settings.work_dir,
            env=self.environment,
            timeout=START_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise StartError(f"{path} cannot be copied out of HDFS: {done.stderr[-400:]}")

    def _start(self) -> None:
        self._lock = lock_work_dir(self.settings.work_dir)
        prepare_work_dir(self.settings)
        preferred = {name: port for name, port in self.settings.ports.items() if name != "shuffle"}
        self.ports = ports.choose(preferred | self.settings.shuffle_ports, [self.settings.master_address])
        hadoop_config.write_all(self.settings, self.ports)
        self._format_namenode()
        heap = self.settings.memory.daemon_heap
        self.master["namenode"] = self._daemon("namenode", NAMENODE, heap)
        self.master["datanode"] = self._daemon("datanode", DATANODE, heap)
        self.wait_until_healthy()


__all__ = ["Hdfs"]
