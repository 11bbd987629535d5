"""Renders Hadoop's configuration files from plain dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from deploy.minicluster.settings import Host, Settings

ADD_OPENS = (
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/sun.nio.ch",
)

LOG4J = """\
log4j.rootLogger=INFO,FILE
log4j.appender.FILE=org.apache.log4j.FileAppender
log4j.appender.FILE.File=${minicluster.log}
log4j.appender.FILE.layout=org.apache.log4j.PatternLayout
log4j.appender.FILE.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""

CLIENT_LOG4J = """\
log4j.rootLogger=INFO,CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.target=System.err
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""

CAPACITY_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
    "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
    # One container a heartbeat: a job's tasks spread over the nodes and do not start all at once.
    "yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled": "false",
}


def render_xml(properties: Mapping[str, object]) -> str:
    """A Hadoop configuration file; names and values are escaped, order is kept."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<configuration>"]
    for name, value in properties.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        lines.append(f"  <property><name>{escape(name)}</name><value>{escape(text)}</value></property>")
    lines.append("</configuration>")
    return "\n".join(lines) + "\n"


def render_hosts(settings: Settings) -> str:
    """The JVMs' hosts file. The master's address also answers to localhost."""
    lines = [f"{settings.master_address} master localhost"]
    lines += [f"{host.address} {host.name}" for host in settings.hosts]
    return "\n".join(lines) + "\n"


def jvm_options(settings: Settings, heap_mib: int) -> list[str]:
    """Options of every JVM: a small heap, cheap start, names from the hosts file, UTC."""
    return [
        f"-Xmx{heap_mib}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djdk.net.hosts.file={settings.work_dir / 'conf' / 'hosts'}",
        "-Duser.timezone=UTC",
        "-Duser.name=hadoop",
        f"-Duser.home={settings.work_dir / 'home'}",
        f"-Djava.io.tmpdir={settings.work_dir / 'tmp'}",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in ADD_OPENS),
    ]


def core_site(settings: Settings, ports: Mapping[str, int]) -> dict[str, object]:
    """File system, temporary folder and the identity of unauthenticated HTTP users."""
    return {
        "fs.defaultFS": f"hdfs://master:{ports['namenode']}",
        "hadoop.tmp.dir": settings.work_dir / "tmp",
        "hadoop.http.staticuser.user": "hadoop",
        "hadoop.proxyuser.hadoop.hosts": "*",
        "hadoop.proxyuser.hadoop.groups": "*",
        "ipc.client.connect.max.retries.on.timeouts": 5,
    }


def hdfs_site(settings: Settings, ports: Mapping[str, int]) -> dict[str, object]:
    """One NameNode, one DataNode, one replica."""
    data = settings.work_dir / "hdfs"
    return {
        "dfs.replication": 1,
        "dfs.namenode.name.dir": data / "name",
        "dfs.datanode.data.dir": data / "data",
        "dfs.namenode.rpc-address": f"master:{ports['namenode']}",
        "dfs.namenode.http-address": f"master:{ports['namenode_http']}",
        "dfs.datanode.address": f"master:{ports['datanode']}",
        "dfs.datanode.http.address": f"master:{ports['datanode_http']}",
        "dfs.datanode.ipc.address": f"master:{ports['datanode_ipc']}",
        "dfs.datanode.hostname": "master",
        "dfs.namenode.secondary.http-address": "master:0",
        "dfs.namenode.datanode.registration.ip-hostname-check": False,
        "dfs.namenode.safemode.extension": 0,
        "dfs.permissions.enabled": False,
    }


def yarn_site(settings: Settings, ports: Mapping[str, int], node: Host | None) -> dict[str, object]:
    """ResourceManager's addresses and, for `node`, its NodeManager's."""
    memory = settings.memory
    properties: dict[str, object] = {
        "yarn.resourcemanager.hostname": "master",
        "yarn.resourcemanager.address": f"master:{ports['resourcemanager']}",
        "yarn.resourcemanager.scheduler.address": f"master:{ports['resourcemanager_scheduler']}",
        "yarn.resourcemanager.resource-tracker.address": f"master:{ports['resourcemanager_tracker']}",
        "yarn.resourcemanager.admin.address": f"master:{ports['resourcemanager_admin']}",
        "yarn.resourcemanager.webapp.address": f"master:{ports['resourcemanager_http']}",
        # Said outright, since every host takes a loopback address for its own when it looks for the proxy.
        "yarn.web-proxy.address": f"master:{ports['resourcemanager_http']}",
        "yarn.resourcemanager.scheduler.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
        ),
        "yarn.node-attribute.fs-store.root-dir": (settings.work_dir / "node-attributes").as_uri(),
        "yarn.node-labels.fs-store.root-dir": (settings.work_dir / "node-labels").as_uri(),
        "yarn.scheduler.minimum-allocation-mb": 128,
        "yarn.scheduler.maximum-allocation-mb": memory.node,
        "yarn.application.classpath": f"{settings.work_dir}/conf/client,{settings.work_dir}/lib/*",
        "yarn.nodemanager.aux-services": "mapreduce_shuffle",
        "yarn.nodemanager.aux-services.mapreduce_shuffle.class": "org.apache.hadoop.mapred.ShuffleHandler",
        "yarn.nodemanager.resource.memory-mb": memory.node,
        "yarn.nodemanager.resource.cpu-vcores": 8,
        "yarn.nodemanager.vmem-check-enabled": False,
        "yarn.nodemanager.pmem-check-enabled": False,
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,HADOOP_USER_NAME,LANG,TZ,PATH",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
        "yarn.nodemanager.log.retain-seconds": 86400,
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": 1000,
    }
    if node is not None:
        folder = settings.work_dir / "nodes" / node.name
        properties |= {
            "yarn.nodemanager.hostname": node.name,
            "yarn.nodemanager.address": f"{node.name}:{ports['nodemanager']}",
            "yarn.nodemanager.localizer.address": f"{node.name}:{ports['nodemanager_localizer']}",
            "yarn.nodemanager.webapp.address": f"{node.name}:{ports['nodemanager_http']}",
            "yarn.nodemanager.local-dirs": folder / "local",
            "yarn.nodemanager.log-dirs": folder / "userlogs",
        }
    return properties


def mapred_site(settings: Settings, ports: Mapping[str, int], node: Host | None) -> dict[str, object]:
    """Small containers, no speculation, histories as JSON."""
    memory = settings.memory
    shuffle = {} if node is None else {"mapreduce.shuffle.port": ports[f"shuffle_{node.name}"]}
    return {
        **shuffle,
        "mapreduce.framework.name": "yarn",
        "mapreduce.jobhistory.address": f"master:{ports['jobhistory']}",
        "mapreduce.jobhistory.webapp.address": f"master:{ports['jobhistory_http']}",
        "mapreduce.jobhistory.admin.address": f"master:{ports['jobhistory_admin']}",
        "mapreduce.jobhistory.intermediate-done-dir": "/mr-history/done_intermediate",
        "mapreduce.jobhistory.done-dir": "/mr-history/done",
        "mapreduce.jobhistory.move.interval-ms": 5000,
        "mapreduce.jobhistory.jhist.format": "json",
        "mapreduce.application.classpath": f"{settings.work_dir}/conf/client,{settings.work_dir}/lib/*",
        "yarn.app.mapreduce.am.resource.mb": memory.container,
        "yarn.app.mapreduce.am.command-opts": " ".join(jvm_options(settings, memory.am_heap)),
        "yarn.app.mapreduce.am.staging-dir": "/tmp/hadoop-yarn/staging",  # noqa: S108 - a folder in HDFS
        "mapreduce.map.memory.mb": memory.container,
        "mapreduce.reduce.memory.mb": memory.container,
        "mapred.child.java.opts": " ".join(jvm_options(settings, memory.task_heap)),
        "mapreduce.task.io.sort.mb": 24,
        "mapreduce.map.speculative": False,
        "mapreduce.reduce.speculative": False,
        "mapreduce.job.running.map.limit": 6,
        # Without the class path (ten kilobytes a container) and the kernel of the machine.
        "mapreduce.jvm.system-properties-to-log": "os.name,java.version,java.vm.name,java.io.tmpdir,user.dir,user.name",
        "mapreduce.job.ubertask.enable": False,
    }


More = Callable[[Host | None], Mapping[str, Mapping[str, object]]]
"""Node, or None for the rest -> file -> properties that are added to it or go before those that it has."""


def write_all(settings: Settings, ports: Mapping[str, int], more: More = lambda _: {}) -> None:
    """Write conf/client, used by the daemons of the master, clients and containers, and conf/NODE for every node."""
    conf = settings.work_dir / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "hosts").write_text(render_hosts(settings), encoding="utf-8")
    for node in (None, *settings.hosts):
        folder = conf / ("client" if node is None else node.name)
        folder.mkdir(exist_ok=True)
        files: dict[str, Mapping[str, object]] = {
            "core-site.xml": core_site(settings, ports),
            "hdfs-site.xml": hdfs_site(settings, ports),
            "yarn-site.xml": yarn_site(settings, ports, node),
            "mapred-site.xml": mapred_site(settings, ports, node),
            "capacity-scheduler.xml": CAPACITY_SCHEDULER,
        }
        added = more(node)
        for name, properties in files.items():
            (folder / name).write_text(render_xml({**properties, **added.get(name, {})}), encoding="utf-8")
    for name, content in (("daemon", LOG4J), ("console", CLIENT_LOG4J)):
        # A folder of its own: conf/client is on the class path of containers, which bring their own.
        (conf / name).mkdir(exist_ok=True)
        (conf / name / "log4j.properties").write_text(content, encoding="utf-8")
    for name in ("hdfs", "datanode"):
        # Hadoop's jars leave the pages of HDFS to its distribution; its servlets only need the folders to exist.
        (conf / "daemon" / "webapps" / name).mkdir(parents=True, exist_ok=True)


def class_path(work_dir: Path, log4j: str, node: Host | None = None) -> str:
    """Class path of a daemon (`log4j` "daemon") or of a client ("console")."""
    conf = work_dir / "conf"
    return f"{conf / log4j}:{conf / ('client' if node is None else node.name)}:{work_dir}/lib/*"
