"""Lines on DataNodes that are given up, servers that do not answer, map output that cannot be fetched, hosts that get
no more tasks, and speculation, as Hadoop 2 and 3 write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.logs.client_faults import MAX_FAULTS, fault_of
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from tests.collectors import reducer_logs as logs
from tests.collectors.positions import saved

NOW = logs.DAY_MS + 60_000
BLOCK = "BP-1347369012-10.0.0.1-1444972147527:blk_1073742823_2011"
BAD_2 = f"Error Recovery for block {BLOCK} in pipeline 10.0.0.3:50010, 10.0.0.4:50010: bad datanode 10.0.0.3:50010"
NODE_3 = "DatanodeInfoWithStorage[{},DS-6f3a,DISK]"
BAD_3 = (
    f"Error Recovery for {BLOCK} in pipeline [{NODE_3.format('10.0.0.3:9866')}, {NODE_3.format('10.0.0.4:9866')}]: "
    f"datanode 1({NODE_3.format('10.0.0.4:9866')}) is bad."
)
EXCLUDED = {"block": None, "reason": "excluded"}
RETRY = "Retrying connect to server: rm.example/10.0.0.9:8030. Already tried 3 time(s); retry policy is RetryUpTo"
MAP = "attempt_1700000000000_0007_m_000012_0"
NO_FETCH = {"source_host": None, "map_attempt_id": MAP, "n_outputs": 1}
UNREACHABLE = "Failed to connect to node3:13562 with 4 map outputs"
GIVEN_UP = f"Too many fetch-failures for output of task attempt: {MAP} ... raising fetch failure to map"
SPECULATED = "DefaultSpeculator.addSpeculativeAttempt -- we are speculating task_1700000000000_0007_r_000003"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (BAD_2, ("PipelineLost", {"datanode": "10.0.0.3", "block": BLOCK, "reason": "bad"})),
        (BAD_3, ("PipelineLost", {"datanode": "10.0.0.4", "block": BLOCK, "reason": "bad"})),
        ("Excluding datanode 10.0.0.3:50010", ("PipelineLost", EXCLUDED | {"datanode": "10.0.0.3"})),
        (f"Excluding datanode {NODE_3.format('n3:9866')}", ("PipelineLost", EXCLUDED | {"datanode": "n3"})),
        (RETRY, ("ConnectRetry", {"server": "rm.example:8030", "n_tried": 3})),
        (RETRY.replace("rm.example", ""), ("ConnectRetry", {"server": "10.0.0.9:8030", "n_tried": 3})),
        (UNREACHABLE, ("FetchFailed", NO_FETCH | {"stage": "connect", "source_host": "node3", "map_attempt_id": None,
                                                 "n_outputs": 4})),
        (UNREACHABLE.replace(":13562", ""), ("FetchFailed", {"stage": "connect", "source_host": "node3",
                                                            "map_attempt_id": None, "n_outputs": 4})),
        (f"Reporting fetch failure for {MAP} to MRAppMaster.", ("FetchFailed", NO_FETCH | {"stage": "reported"})),
        (GIVEN_UP, ("FetchFailed", NO_FETCH | {"stage": "given up"})),
        (GIVEN_UP.replace("_m_", "_r_"), None),
        ("Blacklisted host node3", ("HostBlacklisted", {"blacklisted_host": "node3"})),
        ("Blacklisted host \x1b[2Jn3", ("HostBlacklisted", {"blacklisted_host": "\\x1b[2Jn3"})),
        (SPECULATED, ("Speculated", {"task_id": "task_1700000000000_0007_r_000003"})),
        (f"job named {SPECULATED}", None),
        ("Registered Datanode 10.0.0.3:50010", None),
        (f"Error Recovery for {BLOCK} in pipeline " + "a:1, " * 5_000 + ": bad datanode a:1", None),
    ],
)  # fmt: skip
def test_lines(message: str, told: object) -> None:
    assert fault_of(message) == told


def write(root: Path, lines: list[tuple[int, str, str]], container: str) -> None:
    path = root / "node4" / "application_1700000000000_0007" / container / "syslog"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(logs.line(ms, "main", logger, message) + "\n" for ms, logger, message in lines))


def collect(collector: ContainerLogCollector, now_ms: int = NOW) -> list[dict[str, object]]:
    rows = collector.poll(now_ms).events.rows()
    return [row for row in rows if row["type"] in ("PipelineLost", "ConnectRetry")]


def test_events_of_a_container_and_of_a_master(tmp_path: Path) -> None:
    task, master = "container_1700000000000_0007_01_000005", "container_1700000000000_0007_01_000001"
    ipc, hdfs = "org.apache.hadoop.ipc.Client", "org.apache.hadoop.hdfs.DFSClient"
    # Two at one millisecond are two.
    write(tmp_path, [(1_000, ipc, RETRY), (1_000, ipc, RETRY), (2_000, hdfs, BAD_2)], task)
    write(tmp_path, [(3_000, ipc, RETRY)], master)
    rows = collect(ContainerLogCollector(ContainerLogOptions(tmp_path)))
    told = sorted((row["t_lo_ms"] - logs.DAY_MS, row["type"], row["host"], row["container_id"]) for row in rows)  # type: ignore[operator]
    assert told == [
        (1_000, "ConnectRetry", "node4", task),
        (1_000, "ConnectRetry", "node4", task),
        (2_000, "PipelineLost", "node4", task),
        (3_000, "ConnectRetry", "node4", master),
    ]
    assert len({row["event_id"] for row in rows}) == 4
    assert {row["job_id"] for row in rows} == {"job_1700000000000_0007"}
    again = collect(ContainerLogCollector(ContainerLogOptions(tmp_path)))
    assert {row["event_id"] for row in again} == {row["event_id"] for row in rows}


def test_what_reducers_and_masters_say_of_others(tmp_path: Path) -> None:
    task, master = "container_1700000000000_0007_01_000005", "container_1700000000000_0007_01_000001"
    rm, shuffle = "org.apache.hadoop.mapreduce.v2.app", "org.apache.hadoop.mapreduce.task.reduce"
    reducer = "attempt_1700000000000_0007_r_000003_0"
    assigned = f"{reducer}: Got 1 new map-outputs"
    fetcher, merge = f"{shuffle}.Fetcher", f"{shuffle}.EventFetcher"
    write(tmp_path, [(1_000, merge, assigned), (2_000, fetcher, UNREACHABLE)], task)
    said = [
        (3_000, f"{rm}.job.impl.JobImpl", GIVEN_UP),
        (4_000, f"{rm}.rm.RMContainerRequestor", "Blacklisted host node3"),
        (5_000, f"{rm}.speculate.DefaultSpeculator", SPECULATED),
    ]
    write(tmp_path, said, master)
    collected = ContainerLogCollector(ContainerLogOptions(tmp_path)).poll(NOW)
    assert collected.problems == ()
    told = {
        row["type"]: row for row in collected.events.rows() if row["type"] != "FetchFailed" or row["stage"] == "connect"
    }
    assert {row["job_id"] for row in told.values() if "job_id" in row} == {"job_1700000000000_0007"}
    failed = told["FetchFailed"]
    assert (failed["attempt_id"], failed["host"], failed["source_host"]) == (reducer, "node4", "node3")
    assert failed["n_outputs"] == 4
    given_up = [row for row in collected.events.rows() if row["type"] == "FetchFailed" and row["stage"] == "given up"]
    assert [(row.get("attempt_id"), row["map_attempt_id"]) for row in given_up] == [(None, MAP)]
    blacklisted, speculated = told["HostBlacklisted"], told["Speculated"]
    assert (blacklisted["blacklisted_host"], blacklisted["container_id"]) == ("node3", master)
    assert (speculated["task_id"], speculated.get("attempt_id")) == ("task_1700000000000_0007_r_000003", None)


def test_a_restart_between_two_equal_lines_changes_nothing(tmp_path: Path) -> None:
    task, ipc = "container_1700000000000_0007_01_000005", "org.apache.hadoop.ipc.Client"
    lines = [(1_000, ipc, RETRY), (1_000, ipc, RETRY)]
    write(tmp_path, lines, task)
    whole = {row["event_id"] for row in collect(ContainerLogCollector(ContainerLogOptions(tmp_path)))}
    write(tmp_path, lines[:1], task)
    first = ContainerLogCollector(ContainerLogOptions(tmp_path))
    found = {row["event_id"] for row in collect(first)}
    write(tmp_path, lines, task)
    second = ContainerLogCollector(ContainerLogOptions(tmp_path))
    second.restore(saved(first.checkpoint()))
    assert found | {row["event_id"] for row in collect(second, NOW + 1)} == whole


def test_a_flood_of_them_is_counted(tmp_path: Path) -> None:
    task, ipc = "container_1700000000000_0007_01_000005", "org.apache.hadoop.ipc.Client"
    write(tmp_path, [(1_000, ipc, RETRY)] * (MAX_FAULTS + 7), task)
    polled = ContainerLogCollector(ContainerLogOptions(tmp_path)).poll(NOW)
    assert len(polled.events) == MAX_FAULTS
    (problem,) = polled.problems
    assert (problem.kind, problem.message.split()[0]) == ("too_many_faults", "7")
