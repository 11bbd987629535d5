"""The jobs on Spark as deploy/spark tells: on the mini cluster's YARN, histories and event store on its HDFS."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.minicluster import settings as cluster_settings
from deploy.minicluster.cluster import Cluster
from deploy.minicluster.hadoop import hadoop_config
from deploy.minicluster.hadoop.hadoop_api import HadoopApi
from deploy.minicluster.processes import processes
from deploy.minicluster.recording import packing
from deploy.spark import pack
from tests.conftest import RECORDING
from tests.live.process import ROOT

WORK_DIR = Path("/tmp/clustercep-yarn")
STRAGGLERS = ["attempt_1795178134302_0005_m_000000_0", "attempt_1795178134302_0006_r_000002_0"]
"""The two that the recording's faults made."""

COPIED_WITHIN_S = 180.0
JOB_WITHIN_S = 420.0
N_NODES = 3
SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "384m",
    "spark.yarn.am.memory": "384m",
    "spark.yarn.am.memoryOverhead": "384m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Containers of this size fit nodes of 1,536 MiB, one executor each."""


@dataclass(frozen=True)
class Yarn:
    """A running cluster and how jobs reach it."""

    cluster: Cluster
    properties: Path
    n_maps: dict[str, int]
    """Finished ones of each recorded job, as the names of the histories say."""

    def run(self, name: str, command: list[str], timeout_s: float) -> str:
        """What a command printed. Raises AssertionError when it fails or takes too long."""
        out = WORK_DIR / "logs" / f"{name}.out"
        environment = self.cluster.environment | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"  # as an activated environment
        for kept in ("XDG_CACHE_HOME", "CLUSTERCEP_CACHE"):
            if kept in os.environ:
                environment[kept] = os.environ[kept]
        process = processes.start(name, command, out, environment, cwd=ROOT)
        status = process.wait(timeout_s)
        processes.stop_all([process])
        assert status == 0, f"{name}: status {status}: {processes.tail(out, 60)}"
        return out.read_text(encoding="utf-8")

    def hdfs(self, *words: str) -> str:
        """Hadoop's own `hdfs dfs`."""
        class_path = hadoop_config.class_path(WORK_DIR, "console")
        command = [*self.cluster.java_command(256, class_path, "org.apache.hadoop.fs.FsShell"), *words]
        return self.run(f"hdfs{words[0]}", command, COPIED_WITHIN_S)

    def submit(self, *words: str) -> str:
        """A job by spark-submit, as deploy/spark/README.md tells."""
        python = Path(sys.executable)
        command = [str(python.with_name("spark-submit")), "--properties-file", str(self.properties)]
        command += ["--conf", f"spark.pyspark.driver.python={python}"]
        return self.run(words[0], [*command, str(ROOT / "deploy" / "spark" / "job.py"), *words], JOB_WITHIN_S)


def spark_properties() -> dict[str, str]:
    """Those of deploy/spark/yarn.conf, small, with the names that are known inside the cluster alone."""
    lines = (ROOT / "deploy" / "spark" / "yarn.conf").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    names = f"-Djdk.net.hosts.file={WORK_DIR}/conf/hosts -Djava.net.preferIPv4Stack=true -XX:+UseSerialGC"
    options = {f"spark.{part}.extraJavaOptions": names for part in ("driver", "executor", "yarn.am")}
    return {name: value.strip() for name, value in pairs} | SMALL | options


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """The cluster with archives and recorded histories in HDFS."""
    folder = tmp_path_factory.mktemp("yarn")
    packing.unpack(RECORDING, folder / "unpacked")
    (folder / "packed").mkdir()
    packed = list(pack.pack(folder / "packed", with_spark=True, level=1))
    properties = folder / "spark.conf"
    properties.write_text("".join(f"{name} {value}\n" for name, value in spark_properties().items()), encoding="utf-8")
    settings = dataclasses.replace(
        cluster_settings.load(), nodes=N_NODES, work_dir=WORK_DIR, library_dir=ROOT / "build" / "hadoop" / "lib"
    )
    with Cluster(settings) as cluster:
        found = Yarn(cluster, properties, {
            path.name.partition("-")[0]: int(path.name.rsplit("-", 5)[1])
            for path in (folder / "unpacked" / "history").glob("*.jhist")
        })  # fmt: skip
        found.hdfs("-mkdir", "-p", "/clustercep", "/mr-history/recorded")
        found.hdfs("-put", *map(str, packed), "/clustercep/")
        # The folder as a whole: the shell would read the names of the files as patterns.
        found.hdfs("-put", str(folder / "unpacked" / "history"), "/mr-history/recorded/")
        yield found


def test_from_histories_to_the_worst_stragglers(yarn: Yarn) -> None:
    store = ("--store", "hdfs:///clustercep/events")
    assert '"Mapper"' in yarn.submit("ingest", *store, "--format", "json", "hdfs:///mr-history/recorded")
    assert yarn.hdfs("-ls", "/clustercep/events/_commits").count(".json") >= 2
    printed = yarn.submit("report", *store, "--format", "json", "--out", "hdfs:///clustercep/reports", "stragglers")
    summary = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert [row["attempt_id"] for row in summary["figures"]["worst_attempts"]] == STRAGGLERS
    assert "latest.json" in yarn.hdfs("-ls", "/clustercep/reports/stragglers")
    printed = yarn.submit("query", *store, "--format", "jsonl", "mapper-lifetimes")
    rows = [json.loads(line)["values"] for line in printed.splitlines() if line.startswith('{"bindings"')]
    assert {row["job_id"]: row["n_mappers"] for row in rows} == {
        job_id: n_maps for job_id, n_maps in yarn.n_maps.items() if n_maps
    }
    assert len(rows) == len({row["job_id"] for row in rows}) > 0
    api = HadoopApi("127.0.0.1", yarn.cluster.ports)
    applications = api.rm("/ws/v1/cluster/apps")["apps"]["app"]
    assert [(app["applicationType"], app["finalStatus"]) for app in applications] == [("SPARK", "SUCCEEDED")] * 3
