"""events.csv, and that the collectors' code and the table say the same."""

from __future__ import annotations

import csv
from pathlib import Path

from collectors import schema
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from collectors.sources import SPECS
from engine.events import HEADER, AttributeType, EventBatch
from tests.collectors import histories, rest_server, rrds
from tests.collectors.history.test_job_history import collect as collect_history
from tests.collectors.logs.test_container_log import collect as collect_log
from tests.collectors.reducer_logs import hadoop2_log, write_log
from tests.collectors.rest import timeline_server

JMX_TYPES = {
    "DaemonSample", "DaemonUnreachable", "RpcSample", "NameNodeSample", "DataNodeSample", "ResourceManagerSample",
    "QueueSample", "NodeManagerSample",
}  # fmt: skip
DAEMON_TYPES = {
    "DataNodeLost", "VolumeFailed", "SlowIo", "SafeMode", "LockHeld", "JournalSlow", "JvmPause", "DirectoryFailed",
    "ContainerFailed", "MasterFailed", "ContainerLocalized", "LocalizerFailed", "CredentialFailed", "ClientTrace",
}  # fmt: skip
SPARK_TYPES = {
    "SparkApplicationStart", "SparkApplicationEnd", "SparkJobStart", "SparkJobEnd", "SparkStageStart", "SparkStageEnd",
    "SparkTaskEnd", "SparkFetchFailed", "SparkExecutorAdded", "SparkExecutorRemoved",
}  # fmt: skip
CLIENT_TYPES = {"FetchFailed", "HostBlacklisted", "Speculated", "ReducerSilent"}
CONSOLE_TYPES = {
    "ClientJobStart", "ClientJobProgress", "ClientAttemptEnd", "ClientJobEnd", "ClientJobCounters", "ClientRunEnd",
    "ClientLaunchFailed",
}  # fmt: skip
TYPES = {
    "JobStart", "JobEnd", "MapStart", "MapEnd", "ReducerStart", "ReducerEnd", "Mapper", "Reducer", "TaskSample",
    "DataPull", "DataIO", "AppWaiting", "ApplicationEnd", "Metric", "LoadStd", "Balance", "Imbalance",
    "NodeLost", "NodeUnhealthy", "ContainerKilled", "PipelineLost", "ConnectRetry",
    "AttemptCounters", "JobCounters", "JobSettings", "HdfsOperations",
} | JMX_TYPES | DAEMON_TYPES | CLIENT_TYPES | CONSOLE_TYPES | SPARK_TYPES  # fmt: skip


def emitted(tmp_path: Path) -> list[EventBatch]:
    """Batches of every collector."""
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "job_1700000000000_0007.jhist").write_bytes(histories.whole_history())
    history = collect_history(tmp_path / "history").finished[0].events
    write_log(tmp_path / "logs", hadoop2_log())
    logs = collect_log(tmp_path / "logs").events
    for host in range(6):  # half of them higher: all are one standard deviation from the mean
        rrds.write_rrd(
            tmp_path / "rrd" / "c" / f"h{host}" / "cpu_user.rrd", [share * (host % 2) for share in (10.0, 90.0, 10.0)]
        )
    metrics = GangliaRrdCollector(GangliaRrdOptions(tmp_path / "rrd")).poll(rrds.T0_MS + 60_000)
    load = LoadDeriver().derive(metrics.events, metrics.watermark_ms)
    script = rest_server.running_job()
    waiting = rest_server.app(
        "ACCEPTED", id="application_1700000000000_0008", diagnostics="Queue's AM limit exceeded.",
        **rest_server.held(0, ("*", 1)),
    )  # fmt: skip
    script.documents[rest_server.OPEN]["apps"]["app"].append(waiting)
    rest = YarnRestCollector(YarnRestOptions(), script).poll(rest_server.NOW_MS).events
    timeline = timeline_server.collector(timeline_server.Timeline()).poll(timeline_server.AFTER_MS).events
    return [history, logs, metrics.events, load, rest, timeline]


def test_table_and_emitted_columns_agree(tmp_path: Path) -> None:
    declared = schema.load_event_types().types
    seen: dict[str, set[str]] = {}
    for batch in emitted(tmp_path):
        for row in batch.rows():
            seen.setdefault(row["type"], set()).update(set(row) - set(HEADER.names))
    for event_type, attributes in seen.items():
        assert attributes <= set(declared[event_type]), event_type
    not_here = {"NodeLost", "NodeUnhealthy", "ContainerKilled", "PipelineLost", "ConnectRetry"} | JMX_TYPES
    not_here |= DAEMON_TYPES | CLIENT_TYPES | CONSOLE_TYPES | SPARK_TYPES | {"HdfsOperations"}
    not_here |= {"AttemptCounters", "JobCounters", "JobSettings"}  # read in bulk alone
    assert set(seen) >= TYPES - not_here - {"Imbalance"}
    for event_type, attributes in seen.items():
        lacking = set(declared[event_type]) - attributes
        # What these inputs leave empty: no rack in a log or at a history's start, no counters of running attempts.
        assert lacking <= {"rack", "cpu_ms"}, (event_type, lacking)


def test_every_type_of_the_design_is_there() -> None:
    assert set(schema.load_event_types().types) == TYPES


def test_table_is_well_formed() -> None:
    with schema.EVENTS_CSV.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["type", "attribute", "kind", "unit", "sources", "source_field", "meaning"]
    assert all(len(row) == 7 for row in rows)
    assert len({(row[0], row[1]) for row in rows}) == len(rows)
    sources = {spec.name for spec in SPECS}
    for row in schema.event_table():
        assert row.sources <= sources
        assert row.source_field
        assert row.meaning
        assert (row.attribute[-3:] != "_ms") or row.unit == "ms"
        assert (row.attribute[-6:] != "_bytes") or row.unit == "bytes"
        assert row.kind is not AttributeType.STRING or not row.unit


def test_complete_from() -> None:
    jobs = {"JobStart", "JobEnd", "MapStart", "MapEnd", "ReducerStart", "ReducerEnd", "Mapper", "Reducer"}
    assert schema.complete_from("job_history") == jobs
    assert schema.complete_from("rumen_trace") == jobs
    assert schema.complete_from("yarn_rest") == jobs | {"TaskSample", "AppWaiting"}
    assert schema.complete_from("yarn_timeline") == {"ApplicationEnd"}
    assert schema.complete_from("container_log") == {"DataPull", "PipelineLost", "ConnectRetry"} | CLIENT_TYPES
    assert schema.complete_from("ganglia_rrd") == {"Metric", "LoadStd", "Balance", "Imbalance"}
    assert schema.complete_from("jmx") == JMX_TYPES | {"Metric", "LoadStd", "Balance", "Imbalance"}
    assert schema.complete_from("gmond_udp") == schema.complete_from("gmond") == schema.complete_from("prometheus")
    assert schema.complete_from("prometheus") == {"Metric", "LoadStd", "Balance", "Imbalance", "DaemonUnreachable"}
    assert schema.complete_from("spark_events") == SPARK_TYPES
    assert schema.complete_from("nobody") == frozenset()
