"""Starts the daemons in order, waits until each is healthy, and ends them all."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from deploy.minicluster import watch_config
from deploy.minicluster.errors import StartError
from deploy.minicluster.ganglia import ganglia
from deploy.minicluster.ganglia.host_metrics import Sampler
from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.hadoop.hadoop_api import HadoopApi
from deploy.minicluster.hadoop.history_mirror import HistoryMirror
from deploy.minicluster.hadoop.http_client import get_json
from deploy.minicluster.processes import ports, processes
from deploy.minicluster.processes.periodic import Periodic
from deploy.minicluster.processes.processes import Process
from deploy.minicluster.settings import Host, Settings

MARKER = "this-folder-is-emptied-by-minicluster"
START_TIMEOUT_S = 180.0
MIRROR_INTERVAL_S = 3.0

NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
RESOURCEMANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODEMANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
JOBHISTORYSERVER = "org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer"


def find_java() -> Path:
    """The java program. Raises StartError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise StartError("java was not found; install a Java 17 runtime: apt-get install openjdk-17-jre-headless")
    return Path(found).resolve()


def prepare_work_dir(settings: Settings) -> None:
    """Empty the working folder and lay it out. Refuses a folder that something else has made."""
    work = settings.work_dir
    if work.exists() and any(work.iterdir()) and not (work / MARKER).exists():
        raise StartError(f"work_dir {work} is not empty and was not made by the mini cluster; choose another one")
    library = settings.library_dir.resolve()
    if not list(library.glob("hadoop-common-*.jar")):
        raise StartError(f"no Hadoop jars in {library}; run deploy/minicluster/install.sh")
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("bin", "conf", "history", "home", "jobs", "lib", "logs", "rrds", "tasks", "tmp"):
        (work / folder).mkdir(parents=True)
    (work / MARKER).touch()
    # Everything that ends up in logs and job configurations gets a neutral path: jars too, as Hadoop resolves links.
    for jar in library.glob("*.jar"):
        link_or_copy(jar, work / "lib" / jar.name)
    (work / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    for script in (Path(__file__).parent / "workload" / "tasks").glob("*.py"):
        shutil.copy(script, work / "tasks")


def lock_work_dir(work: Path) -> IO[str]:
    """Hold the folder for this run. The lock ends with the process, however it ends."""
    work.parent.mkdir(parents=True, exist_ok=True)
    lock = work.with_name(f"{work.name}.lock").open("a", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StartError(f"another mini cluster is running in {work}; stop it or choose another work_dir") from error
    return lock


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the file system allows it, else a copy."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


class Cluster:
    """A running cluster; a context manager that starts it and always ends it."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is started or written yet."""
        self.settings = settings
        self.ports: dict[str, int] = {}
        self.master: dict[str, Process] = {}
        self.nodes: dict[Host, Process] = {}
        self.java = find_java()
        self._sampler: Sampler | None = None
        self._mirror: Periodic | None = None
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Environment of every process of the cluster."""
        home = self.java.parent.parent
        return processes.base_environment(self.settings.work_dir, str(home))

    @property
    def processes(self) -> list[Process]:
        """Every daemon that has been started."""
        return [*self.master.values(), *self.nodes.values()]

    @property
    def api(self) -> HadoopApi:
        """Calls to its daemons, once it has been started."""
        return HadoopApi(self.settings.master_address, self.ports)

    def log_path(self, name: str) -> Path:
        """Where the daemon `name` logs."""
        return self.settings.work_dir / "logs" / f"{name}.log"

    def stop(self) -> None:
        """End everything; may be called again."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None
        if self._mirror is not None:
            self._mirror.stop()
            self._mirror = None
        processes.stop_all(self.processes)
        self.master.clear()
        self.nodes.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check_running(self) -> None:
        """Raise StartError when a daemon has ended."""
        for process in self.processes:
            if not process.is_running():
                raise process.failure(f"ended with status {process.guard.returncode} while the cluster was in use")

    def _start(self) -> None:
        settings = self.settings
        for program in ganglia.PROGRAMS:
            ganglia.find_program(program)
        self._prepare()
        self._start_ganglia()
        self._start_hdfs()
        self._start_yarn()
        self._start_sampler()
        self._start_mirror()
        watch_config.write(settings, self.ports)

    def _prepare(self) -> None:
        """The working folder with its configuration, at ports that are free."""
        settings = self.settings
        self._lock = lock_work_dir(settings.work_dir)
        prepare_work_dir(settings)
        preferred = {name: port for name, port in settings.ports.items() if name != "shuffle"}
        addresses = [settings.master_address, *(host.address for host in settings.hosts)]
        self.ports = ports.choose(preferred | settings.shuffle_ports, addresses)
        self._configure()
        with (settings.work_dir / "conf" / "hosts").open("a", encoding="utf-8") as hosts:
            # Needed only where a process tree cannot have a host name of its own.
            hosts.write(f"{settings.master_address} {socket.gethostname()}\n")

    def _configure(self) -> None:
        hadoop_config.write_all(self.settings, self.ports)

    def java_command(self, heap_mib: int, class_path: str, main_class: str, *options: str) -> list[str]:
        """A JVM with the cluster's options."""
        options_all = [*hadoop_config.jvm_options(self.settings, heap_mib), *options]
        return [str(self.java), *options_all, "-cp", class_path, main_class]

    def _daemon(self, name: str, main_class: str, heap_mib: int, node: Host | None = None) -> Process:
        work = self.settings.work_dir
        log = self.log_path(name)
        command = self.java_command(
            heap_mib,
            hadoop_config.class_path(work, "daemon", node),
            main_class,
            f"-Dminicluster.log={log}",
            f"-Dhadoop.log.dir={work / 'logs'}",
            f"-Dyarn.log.dir={work / 'logs'}",
        )
        environment = self.environment
        if node is not None:
            environment["HADOOP_CONF_DIR"] = str(work / "conf" / node.name)
        return processes.start(
            name,
            command,
            work / "logs" / f"{name}.out",
            environment,
            cwd=work,
            hostname=node.name if node else "master",
            more_logs=(log,),
        )

    def _format_namenode(self) -> None:
        work = self.settings.work_dir
        out = work / "logs" / "namenode-format.out"
        class_path = hadoop_config.class_path(work, "console")
        command = [*self.java_command(128, class_path, NAMENODE), "-format", "-nonInteractive"]
        process = processes.start("namenode -format", command, out, self.environment, cwd=work)
        status = process.wait(START_TIMEOUT_S)
        if status != 0:
            processes.stop_all([process])
            raise process.failure("did not end in time" if status is None else f"ended with status {status}")

    def _start_hdfs(self) -> None:
        heap = self.settings.memory.daemon_heap
        self._format_namenode()
        self.master["namenode"] = self._daemon("namenode", NAMENODE, heap)
        self.master["datanode"] = self._daemon("datanode", DATANODE, heap)
        self.master["resourcemanager"] = self._daemon(
            "resourcemanager", RESOURCEMANAGER, self.settings.memory.resourcemanager_heap
        )
        self._wait(self._hdfs_is_healthy, "healthy (a live DataNode, no safe mode)", "namenode", "datanode")

    def _start_yarn(self) -> None:
        heap = self.settings.memory.daemon_heap
        self.master["jobhistory"] = self._daemon("jobhistory", JOBHISTORYSERVER, heap)
        for host in self.settings.hosts:
            self.nodes[host] = self._daemon(f"nodemanager-{host.name}", NODEMANAGER, heap, host)
        self._wait(self._yarn_is_healthy, f"healthy ({len(self.nodes)} active nodes)", "resourcemanager")
        self._wait(self._jobhistory_is_healthy, "answering", "jobhistory")

    def _start_ganglia(self) -> None:
        settings, work = self.settings, self.settings.work_dir
        conf = work / "conf"
        files = {
            "gmond.conf": ganglia.gmond_config(settings, self.ports["gmond"]),
            "gmetric.conf": ganglia.gmetric_config(settings, self.ports["gmond"]),
            "gmetad.conf": ganglia.gmetad_config(settings, self.ports, work / "rrds"),
        }
        for name, content in files.items():
            (conf / name).write_text(content, encoding="utf-8")
        for name, option in (("gmond", "-f"), ("gmetad", "-d1")):
            command = [ganglia.find_program(name), "-c", str(conf / f"{name}.conf"), option]
            log = work / "logs" / f"{name}.log"
            self.master[name] = processes.start(name, command, log, self.environment, cwd=work)

    def _start_sampler(self) -> None:
        roots = {host: process.pid for host, process in self.nodes.items()}
        config = self.settings.work_dir / "conf" / "gmetric.conf"
        self._sampler = Sampler(self.settings, roots, config, self.environment)
        self._sampler.start()
        self._wait(self._ganglia_is_healthy, "showing cpu_user of every node", "gmetad", "gmond")

    def _start_mirror(self) -> None:
        mirror = HistoryMirror(self.api, self.settings.history_dir)
        self._mirror = Periodic(mirror.try_to_copy, MIRROR_INTERVAL_S, "history-mirror")
        self._mirror.start()

    def _wait(self, condition: Callable[[], bool], what: str, first: str, *others: str) -> None:
        watched = [self.master[name] for name in (first, *others)]
        watched += [process for process in self.processes if process not in watched]
        processes.wait_until(condition, what, START_TIMEOUT_S, watched)

    def _hdfs_is_healthy(self, n_datanodes: int = 1) -> bool:
        query = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        answer = get_json(self.settings.master_address, self.ports["namenode_http"], query)
        beans = answer.get("beans", []) if isinstance(answer, dict) else []
        return any(
            bean.get("NumLiveDataNodes", 0) - bean.get("NumStaleDataNodes", 0) >= n_datanodes
            and bean.get("FSState") == "Operational"
            for bean in beans
        )

    def _yarn_is_healthy(self) -> bool:
        answer = get_json(self.settings.master_address, self.ports["resourcemanager_http"], "/ws/v1/cluster/metrics")
        return isinstance(answer, dict) and answer["clusterMetrics"]["activeNodes"] == len(self.nodes)

    def _jobhistory_is_healthy(self) -> bool:
        path = "/ws/v1/history/info"
        return get_json(self.settings.master_address, self.ports["jobhistory_http"], path) is not None

    def _ganglia_is_healthy(self) -> bool:
        try:
            xml = ganglia.read_xml(self.settings.master_address, self.ports["gmetad"])
        except OSError:
            return False
        return ganglia.hosts_with_metric(xml, "cpu_user") == {host.name for host in self.settings.hosts}
