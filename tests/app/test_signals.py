"""Signals of daemons, from recorded answers with one thing wrong to the query that says so: by it, and by it alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from app.commands.query_tests import engine_rows
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.schema import event_table, load_event_types
from engine.events import EventBatch
from tests.collectors import reducer_logs as logs
from tests.collectors.jmx.daemons import T0, Daemon, cluster, collector_of

ROOT = Path(__file__).parents[2]
POLL_MS = 30_000
TYPES = {row.type for row in event_table() if "jmx" in row.sources and "ganglia_rrd" not in row.sources}
TEXTS = {
    path.stem: text
    for path in sorted((ROOT / "queries").glob("*.cep"))
    if TYPES & set(re.findall(r"\w+", (text := path.read_text(encoding="utf-8"))))
}

PARAMETERS = {
    "hdfs-under-replicated": {"min_period": 60_000},
    "hdfs-slow-nodes": {"min_sightings": 4},
    "queue-starved": {"min_period": 60_000},
}
"""Shorter than the polls go on."""

N = 2_000_000
SLOW = """[{"SlowNode": "node3:9866", "SlowPeerLatencyWithReportingNodes": [{"ReportingNode": "node1:9866",
    "ReportedLatency": 900.0, "MedianLatency": 2.0, "MadLatency": 0.1, "UpperLimitLatency": 6.0}]}]"""
SLOW_DISK = '[{"SlowDiskID": "node3:/data1", "Latencies": {"WRITE": 480.5}}]'
Wrong = Callable[[dict[str, Daemon]], None]


def found(wrong: Wrong | None) -> dict[str, str]:
    """Query -> host of its alert."""
    return {name: hosts[0] for name, hosts in alerts(wrong).items()}


def alerts(wrong: Wrong | None) -> dict[str, list[str]]:
    """Query -> host of each of its matches, over six polls before the first two of which all is well."""
    daemons = cluster()
    collector = collector_of(daemons)
    polled: list[EventBatch] = []
    for number in range(6):
        if number == 2 and wrong is not None:
            wrong(daemons)
        polled.append(collector.poll(T0 + number * POLL_MS).events)
    events, evaluate = EventBatch.concat(polled).sorted(), engine_rows(load_event_types())
    rows = {name: evaluate(name, TEXTS, PARAMETERS.get(name, {}), events) for name in TEXTS}
    return {name: [str(row.values["host"]) for row in got] for name, got in rows.items() if got}


def put(kind: str, bean: str, **values: object) -> Wrong:
    """These attributes of this bean are these."""
    return lambda daemons: daemons[kind].bean(bean).update(values)


def down(kind: str) -> Wrong:
    def refuse(daemons: dict[str, Daemon]) -> None:
        daemons[kind].failure = "connection refused"

    return refuse


def slow_calls(daemons: dict[str, Daemon]) -> None:
    bean = daemons["NameNode"].bean("RpcActivityForPort18020")
    bean.update(RpcQueueTimeAvgTime=3_000.0, RpcProcessingTimeNumOps=bean["RpcProcessingTimeNumOps"] + 1)


def slow_masters(daemons: dict[str, Daemon]) -> None:
    bean = daemons["ResourceManager"].bean("ClusterMetrics")
    bean.update(AMRegisterDelayAvgTime=60_000.0, AMRegisterDelayNumOps=bean["AMRegisterDelayNumOps"] + 1)


def test_masters_that_were_slow_are_told_once_when_no_others_follow() -> None:
    assert alerts(slow_masters) == {"masters-slow": ["rm1"]}


def test_slow_calls_are_told_once_when_no_others_follow() -> None:
    assert len(alerts(slow_calls)["rpc-slow"]) == 1


@pytest.mark.parametrize("why", ["NumDecomDeadDataNodes", "NumInMaintenanceDeadDataNodes"])
def test_datanodes_that_were_taken_out_of_use_are_not_missed(why: str) -> None:
    assert found(put("NameNode", "FSNamesystemState", NumDeadDataNodes=1, **{why: 1})) == {}


def test_a_recorded_cluster_that_is_well_calls_for_nothing() -> None:
    assert len(TEXTS) == 24
    assert found(None) == {}


@pytest.mark.parametrize(
    ("wrong", "query", "host"),
    [
        (put("NameNode", "FSNamesystem", MissingBlocks=1), "hdfs-missing-blocks", "nn1"),
        (put("NameNode", "FSNamesystem", CorruptBlocks=1), "hdfs-missing-blocks", "nn1"),
        (put("NameNode", "FSNamesystemState", NumStaleDataNodes=1), "hdfs-datanodes-dead", "nn1"),
        (put("NameNode", "FSNamesystemState", NumDeadDataNodes=1), "hdfs-datanodes-dead", "nn1"),
        (put("NameNode", "FSNamesystemState", LowRedundancyBlocks=1_000), "hdfs-under-replicated", "nn1"),
        (put("NameNode", "NameNodeStatus", SlowPeersReport=SLOW), "hdfs-slow-nodes", "nn1"),
        (put("NameNode", "NameNodeStatus", SlowDisksReport=SLOW_DISK), "hdfs-slow-nodes", "nn1"),
        (put("NameNode", "FSNamesystemState", FilesTotal=1_000_000), "hdfs-files-growing", "nn1"),
        (put("NameNode", "FSNamesystem", TransactionsSinceLastCheckpoint=N), "hdfs-checkpoint-transactions", "nn1"),
        (put("NameNode", "FSNamesystemState", CapacityRemaining=4_000_000), "hdfs-capacity", "nn1"),
        (put("NameNode", "NameNodeInfo", Safemode="Safe mode is ON."), "hdfs-safe-mode", "nn1"),
        (put("NameNode", "NameNodeInfo", NameDirStatuses='{"failed":{"/a":""}}'), "hdfs-name-directory-failed", "nn1"),
        (put("NameNode", "FSNamesystem", LastCheckpointTime=T0 - 7_200_000), "hdfs-checkpoint-late", "nn1"),
        (slow_calls, "rpc-slow", "nn1"),
        (put("NameNode", "JvmMetrics", GcNumWarnThresholdExceeded=6), "gc-pause", "nn1"),
        (put("NameNode", "UgiMetrics", LoginFailureNumOps=1), "login-failures", "nn1"),
        (put("DataNode", "JvmMetrics", MemHeapUsedM=118.0), "heap-high", "node1"),
        (put("ResourceManager", "ClusterMetrics", NumLostNMs=1, NumActiveNMs=1), "nodemanagers-lost", "rm1"),
        (put("NodeManager", "NodeManagerMetrics", BadLocalDirs=1), "nodemanager-bad-directory", "node1"),
        (put("DataNode", "FSDatasetState", Remaining=4_000_000), "datanode-capacity", "node1"),
        (put("ResourceManager", "QueueMetrics,q0=root,q1=default", PendingContainers=3), "queue-starved", "rm1"),
        (put("DataNode", "FSDatasetState", NumFailedVolumes=1), "hdfs-volume-failed", "node1"),
        (down("DataNode"), "daemon-unreachable", "node1"),
    ],
)  # fmt: skip
def test_one_thing_that_is_wrong_is_told_by_its_query_alone(wrong: Wrong, query: str, host: str) -> None:
    assert found(wrong) == {query: host}


def test_of_a_pair_the_active_one_tells() -> None:
    def standby(daemons: dict[str, Daemon]) -> None:
        put("NameNode", "FSNamesystem", MissingBlocks=1)(daemons)
        put("NameNode", "NameNodeStatus", State="standby")(daemons)

    assert "hdfs-missing-blocks" not in found(standby)


def test_a_pair_without_an_active_one_is_told() -> None:
    assert found(put("NameNode", "NameNodeStatus", State="standby")) == {"hdfs-no-active": "nn1"}


def test_a_standby_that_reads_no_edits_is_told() -> None:
    def behind(daemons: dict[str, Daemon]) -> None:
        put("NameNode", "FSNamesystem", MillisSinceLastLoadedEdits=600_000)(daemons)
        put("NameNode", "NameNodeStatus", State="standby")(daemons)

    assert found(behind) == {"hdfs-no-active": "nn1", "hdfs-standby-late": "nn1"}


SIGNALS = (ROOT / "docs" / "signals.md").read_text(encoding="utf-8")


def test_the_document_of_signals_has_a_row_for_each_and_names_what_exists() -> None:
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in SIGNALS.splitlines() if line[:3] != "| -"
    ]
    rows = [row for row in table if row[0].isdigit()]
    assert [int(row[0]) for row in rows] == list(range(1, 23))
    told_by: dict[str, set[str]] = {}
    for row in event_table():
        told_by.setdefault(row.type, set()).update(row.sources)
    runbook = (ROOT / "queries" / "RUNBOOK.md").read_text(encoding="utf-8")
    for number, _, named, events, queries, tests, _, _ in rows:
        sources = {*re.findall(r"`(\w+)`", named), *(["container_log"] if "container logs" in named else [])}
        types = set(re.findall(r"`(\w+)`", events))
        for event_type in types:
            assert told_by[event_type] & sources, (number, event_type)
        for query in re.findall(r"`([\w-]+)`", queries):
            text = (ROOT / "queries" / f"{query}.cep").read_text(encoding="utf-8")
            assert types & set(re.findall(r"\w+", text)), (number, query)
            assert (ROOT / "queries" / f"{query}.test.yaml").exists(), (number, query)
            assert f"\n## {query}\n" in runbook, (number, query)
        for test in re.findall(r"`([\w/.]+)`", tests):
            assert (ROOT / "tests" / test).exists(), (number, test)


def test_every_query_over_daemons_is_in_the_document() -> None:
    assert all(f"`{name}`" in SIGNALS for name in TEXTS)


def test_a_reducer_whose_log_just_stops_is_told_with_its_host_its_job_and_since_when(tmp_path: Path) -> None:
    text = logs.hadoop3_logs()["syslog.shuffle"]
    logs.write_log(tmp_path, text[: text.index("node2:13562 freed")])
    reader = ContainerLogCollector(ContainerLogOptions(tmp_path, abandon_ms=10_000))
    started_ms = logs.DAY_MS + 60_000
    polls = [reader.poll(started_ms + n * 4_000).events for n in range(8)]  # it is not older than the first of them
    texts = {"reducer-silent": (ROOT / "queries" / "reducer-silent.cep").read_text(encoding="utf-8")}
    evaluate = engine_rows(load_event_types())
    rows = evaluate("reducer-silent", texts, {"unended": 15_000}, EventBatch.concat(polls).sorted())
    (told,) = [row.values for row in rows]
    assert (told["host"], told["attempt_id"]) == ("node4", logs.REDUCER)
    assert told["job_id"] == "job_1700000000000_0007"
    assert (told["since_ms"], told["silent_ms"]) == (started_ms, 12_000)
