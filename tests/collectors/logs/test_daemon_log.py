"""What ResourceManagers and NodeManagers say of nodes and containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.base import OptionError, PositionError, SourceUnavailableError
from collectors.hadoop_ids import job_of_container
from collectors.identity import lifecycle_id
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from tests.collectors.reducer_logs import CONTAINER, DAY_MS, stamp

RM = "org.apache.hadoop.yarn.server.resourcemanager."
NM = "org.apache.hadoop.yarn.server.nodemanager.containermanager."

MASTER = [
    (1_000, RM + "rmnode.RMNodeImpl", "node2:8041 Node Transitioned from NEW to RUNNING"),
    (2_000, RM + "NMLivelinessMonitor", "Expired:node2:8041 Timed out after 600 secs"),
    (2_001, RM + "rmnode.RMNodeImpl", "Deactivating Node node2:8041 as it is now LOST"),
    (2_002, RM + "rmnode.RMNodeImpl", "node2:8041 Node Transitioned from RUNNING to LOST"),
    (3_000, RM + "rmnode.RMNodeImpl", "Node node3:8041 reported UNHEALTHY with details: 1/1 local-dirs are bad: /d1"),
    (3_001, RM + "rmnode.RMNodeImpl", "node3:8041 Node Transitioned from RUNNING to UNHEALTHY"),
    (4_000, RM + "rmnode.RMNodeImpl", "node4:8041 Node Transitioned from RUNNING to SHUTDOWN"),
    (5_000, RM + "rmnode.RMNodeImpl", "node5:8041 Node Transitioned from UNHEALTHY to LOST"),
]
LIMIT = (
    f"Container [pid=17,containerID={CONTAINER}] is running 9B beyond the 'PHYSICAL' memory limit. Current usage: 2 GB"
)
NODE = [
    (6_000, NM + "monitor.ContainersMonitorImpl", LIMIT),
    (6_010, NM + "container.ContainerImpl", f"Container {CONTAINER} transitioned from RUNNING to KILLING"),
    (7_000, NM + "container.ContainerImpl", f"Container {CONTAINER[:-1]}6 transitioned from RUNNING to KILLING"),
    (
        8_000,
        NM + "container.ContainerImpl",
        f"Container {CONTAINER[:-1]}7 transitioned from RUNNING to EXITED_WITH_SUCCESS",
    ),
]
NOW = DAY_MS + 60_000


def write(path: Path, records: list[tuple[int, str, str]]) -> Path:
    path.write_text("".join(f"{stamp(ms)} INFO {logger}: {message}\n" for ms, logger, message in records))
    return path


def read(root: Path, now_ms: int = NOW, **options: Any) -> list[tuple[Any, ...]]:
    polled = DaemonLogCollector(DaemonLogOptions(root, **options)).poll(now_ms)
    assert polled.watermark_ms == now_ms - 5_000
    return sorted((row["t_lo_ms"] - DAY_MS, row["type"], row["host"], row["reason"]) for row in polled.events.rows())


def test_nodes(tmp_path: Path) -> None:
    write(tmp_path / "hadoop-yarn-resourcemanager-master1.log", MASTER)
    assert read(tmp_path) == [
        (2_002, "NodeLost", "node2", "Timed out after 600 secs"),
        (3_000, "NodeUnhealthy", "node3", "1/1 local-dirs are bad: /d1"),
        (5_000, "NodeLost", "node5", "no heartbeat for too long (UNHEALTHY to LOST)"),
    ]


def test_why_a_node_is_lost_may_stand_behind_it(tmp_path: Path) -> None:
    """As a ResourceManager of Hadoop 3.4.2 wrote it, from two threads."""
    (tmp_path / "resourcemanager-master.log").write_text(
        "1970-01-02 07:20:03,818 INFO org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeImpl: "
        "node2:18041 Node Transitioned from RUNNING to LOST\n"
        "1970-01-02 07:20:03,819 INFO org.apache.hadoop.yarn.util.AbstractLivelinessMonitor: "
        "Expired:node2:18041 Timed out after 20 secs\n"
    )
    found = read(tmp_path, now_ms=2 * DAY_MS)
    assert [(kind, host, reason) for _, kind, host, reason in found] == [
        ("NodeLost", "node2", "no heartbeat for too long (RUNNING to LOST)")
    ]


def test_killed_containers_have_one_id_each(tmp_path: Path) -> None:
    write(tmp_path / "nodemanager-node4.log", NODE)
    assert read(tmp_path, hosts={"node4": "n4"}) == [
        (6_000, "ContainerKilled", "n4", "running 9B beyond the 'PHYSICAL' memory limit"),
        (6_010, "ContainerKilled", "n4", "RUNNING to KILLING"),
        (7_000, "ContainerKilled", "n4", "RUNNING to KILLING"),
    ]
    polled = DaemonLogCollector(DaemonLogOptions(tmp_path)).poll(NOW)
    ids = polled.events.strings("event_id").to_pylist()
    assert len(set(ids)) == 2
    assert ids[0] == ids[1] == lifecycle_id("ContainerKilled", CONTAINER)


def test_growing_rotated_restarted_and_replayed(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    write(whole / "resourcemanager.log", MASTER)
    expected = DaemonLogCollector(DaemonLogOptions(whole)).poll(NOW).events.strings("event_id").to_pylist()
    slow = tmp_path / "slow"
    slow.mkdir()
    path, found = slow / "resourcemanager.log", []
    reader = DaemonLogCollector(DaemonLogOptions(slow))
    for n_records in range(1, 5):
        write(path, MASTER[:n_records])
        found += reader.poll(NOW).events.strings("event_id").to_pylist()
        position = json.loads(json.dumps(reader.checkpoint()))
        reader = DaemonLogCollector(DaemonLogOptions(slow))
        reader.restore(position)
    path.rename(slow / "resourcemanager.log.1")
    write(path, MASTER[4:])
    for now_ms in range(DAY_MS, DAY_MS + 6_000, 500):
        polled = reader.poll(now_ms)
        assert all(row["t_hi_ms"] <= now_ms for row in polled.events.rows())
        found += polled.events.strings("event_id").to_pylist()
    assert found == expected


def test_other_files_and_bad_input(tmp_path: Path) -> None:
    write(tmp_path / "other.log", MASTER)
    (tmp_path / "nodemanager-x.log").write_bytes(b"\xff\x00 to KILLING\n" * 100 + b"no end containerID=")
    assert read(tmp_path) == []
    with pytest.raises(SourceUnavailableError):
        read(tmp_path / "nowhere")
    with pytest.raises(PositionError):
        DaemonLogCollector(DaemonLogOptions(tmp_path)).restore({"version": 1, "files": {"a": 1}})
    for pattern in ("(", "no group"):
        with pytest.raises(OptionError, match="name_pattern"):
            DaemonLogOptions(tmp_path, name_pattern=pattern)


@pytest.mark.parametrize("suffix", [".1", ".2023-11-14", ".2023-11-14-23"])
def test_rolled_files(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"hadoop-yarn-nodemanager-node4.log{suffix}", NODE[2:3])
    assert [found[1:3] for found in read(tmp_path)] == [("ContainerKilled", "node4")]


@pytest.mark.parametrize(
    ("message", "reason", "cause"),
    [
        (LIMIT, "running 9B beyond the 'PHYSICAL' memory limit", "physical memory"),
        (
            f"Container [pid=17,containerID={CONTAINER}] is running 8B beyond the 'VIRTUAL' memory limit. Current",
            "running 8B beyond the 'VIRTUAL' memory limit",
            "virtual memory",
        ),
        (  # as Hadoop 2 writes it
            f"Container [pid=17,containerID={CONTAINER}] is running beyond physical memory limits. Current usage: 1 GB",
            "running beyond physical memory limits",
            "physical memory",
        ),
        (
            f"container {CONTAINER} killed by elastic cgroups OOM handler.",
            "killed by elastic cgroups OOM handler.",
            "node memory",
        ),
        (
            f"Container {CONTAINER} was killed by elastic cgroups OOM handler using 12 when requested only 9",
            "killed by elastic cgroups OOM handler using 12 when requested only 9",
            "node memory",
        ),
        (f"Container {CONTAINER} transitioned from RUNNING to KILLING", "RUNNING to KILLING", None),
    ],
)
def test_why_a_container_was_killed(tmp_path: Path, message: str, reason: str, cause: str | None) -> None:
    write(tmp_path / "nodemanager-node4.log", [(6_000, NM + "monitor.ContainersMonitorImpl", message)])
    (row,) = DaemonLogCollector(DaemonLogOptions(tmp_path)).poll(NOW).events.rows()
    assert (row["reason"], row.get("cause"), row["host"]) == (reason, cause, "node4")
    assert row["job_id"] == "job_" + "_".join(CONTAINER.split("_")[-4:-2])


def test_the_job_of_a_container() -> None:
    assert job_of_container("container_1700000000000_0007_01_000002") == "job_1700000000000_0007"
    assert job_of_container("container_e11_1700000000000_0007_01_000002") == "job_1700000000000_0007"


def test_files_beyond_a_polls_bytes_are_read_by_the_next_and_hold_the_watermark(tmp_path: Path) -> None:
    master = write(tmp_path / "resourcemanager-a.log", MASTER[:4])
    options = DaemonLogOptions(tmp_path, max_bytes_per_poll=master.stat().st_size)
    daemons = DaemonLogCollector(options)
    polls = [daemons.poll(NOW)]
    for name in ("b", "c"):
        write(tmp_path / f"resourcemanager-{name}.log", MASTER[4:])
    options = DaemonLogOptions(tmp_path, max_bytes_per_poll=(tmp_path / "resourcemanager-b.log").stat().st_size)
    later = DaemonLogCollector(options)
    later.restore(daemons.checkpoint())
    polls += [later.poll(NOW + 1_000), later.poll(NOW + 2_000)]
    assert [polled.watermark_ms - NOW for polled in polls] == [-5_000, -5_000, -3_000]
    assert [len(polled.events) for polled in polls] == [1, 2, 2]


def test_client_trace_of_no_host_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    write(tmp_path / "hadoop-yarn-resourcemanager-master1.log", MASTER)
    datanode = "org.apache.hadoop.hdfs.server.datanode.DataNode"
    write(tmp_path / "datanode.log", [(1_000, f"{datanode}.clienttrace", "src: /10.0.0.1:50010, dest: /10.0.0.2:1")])
    collector = DaemonLogCollector(DaemonLogOptions(tmp_path))
    (problem,) = collector.poll(NOW).problems
    assert (problem.kind, problem.place) == ("other_kind", str(tmp_path / "datanode.log"))
    assert collector.poll(NOW + 1).problems == ()
    unwanted = DaemonLogCollector(DaemonLogOptions(tmp_path, client_trace=False))
    assert unwanted.poll(NOW).problems == ()
