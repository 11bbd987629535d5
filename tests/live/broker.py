"""One Kafka broker on loopback that is its own controller: a plain listener, and one that asks for a password."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.minicluster.cluster import find_java
from deploy.minicluster.processes import ports, processes
from deploy.minicluster.processes.processes import Process
from tests.live.process import ROOT

LIBRARY = ROOT / "build" / "kafka" / "lib"
SOURCE_JARS = ("spark-sql-kafka-0-10_", "spark-token-provider-kafka-0-10_", "kafka-clients-", "commons-pool2-")
"""What Spark needs of them to read from Kafka."""

HOST = "127.0.0.1"
USER, PASSWORD = "stream", "not-to-be-told"  # of this broker alone
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
STARTED_WITHIN_S = 180.0


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    plain: str
    sasl: str
    process: Process


def source_jars() -> str:
    """For spark.jars."""
    found = [next(iter(LIBRARY.glob(f"{name}*.jar")), None) for name in SOURCE_JARS]
    assert None not in found, f"no Kafka in {LIBRARY}; run deploy/kafka/install.sh"
    return ",".join(map(str, found))


def client_properties(password: str = PASSWORD) -> str:
    """The file by which a client is let in, as Kafka's own tools take it."""
    login = f'{LOGIN} username="{USER}" password="{password}";'
    return f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker that keeps its data in `folder`, for the time of the block."""
    chosen = ports.choose({"plain": 19092, "sasl": 19192, "controller": 19292}, [HOST])
    config, log = folder / "server.properties", folder / "broker.log"
    config.write_text(_properties(folder, chosen), encoding="utf-8")
    environment = dict(os.environ)
    java = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBRARY}/*"]
    formatted = processes.start(
        "format", [*java, "kafka.tools.StorageTool", "format", "-t", "clustercepTestBroker00", "-c", str(config)],
        log, environment, cwd=folder,
    )  # fmt: skip
    assert formatted.wait(STARTED_WITHIN_S) == 0, processes.tail(log)
    broker = processes.start("Kafka", [*java, "kafka.Kafka", str(config)], log, environment, cwd=folder)
    try:
        processes.wait_until(lambda: _answers(chosen["sasl"]), "listening", STARTED_WITHIN_S, [broker])
        yield Broker(f"{HOST}:{chosen['plain']}", f"{HOST}:{chosen['sasl']}", broker)
    finally:
        processes.stop_all([formatted, broker])


def _properties(folder: Path, chosen: dict[str, int]) -> str:
    listeners = {"PLAIN": chosen["plain"], "SASL": chosen["sasl"], "CONTROLLER": chosen["controller"]}
    shown = ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{chosen['controller']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listeners": shown,
        "advertised.listeners": shown.rpartition(",")[0],
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{LOGIN} user_{USER}="{PASSWORD}";',
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "log.dirs": str(folder / "data"),
    }
    return "".join(f"{name}={value}\n" for name, value in given.items())


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
