"""What lines of all daemons tell: of logs that real daemons wrote, counted independently, and in log4j's layouts."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.columns import lines_of, pattern_of, starts_of, with_mark
from collectors.logs.daemon_lines import READERS
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from tests.collectors.reducer_logs import CONTAINER

RECORDED = Path(__file__).parents[2] / "fixtures" / "daemon_logs"
"""Of a NameNode and two DataNodes of Hadoop 3.4.2 with low thresholds; one was stopped for 3 s, the other killed."""
NOW = 4_000_000_000_000
FAILED_ATTEMPT = (
    "Updating application attempt appattempt_1700000000000_0007_000001 with final state: FAILED, and exit status: "
)
AUDIT_FAILED = (
    "USER=alice\tOPERATION=Container Finished - Failed\tTARGET=ContainerImpl\tRESULT=FAILURE\tDESCRIPTION=Container "
    "failed with state: EXITED_WITH_FAILURE\tAPPID=application_1700000000000_0007\tCONTAINERID="
)
SUBMITTED = (
    "USER=bob\tIP=10.0.0.1\tOPERATION=Submit Application Request\tTARGET=ClientRMService\tRESULT=SUCCESS\tAPPID="
)
SHUFFLE = (
    "src: 10.0.0.4:50060, dest: 10.0.0.5:4321, bytes: 99, op: MAPRED_SHUFFLE, cliID: attempt_1_0007_m_000001_0, "
    "duration: 12"
)
APP = "application_1700000000000_0007"
SLOW = "Slow flushOrSync took 400ms (threshold=300ms), isSync:true, volume=file:/d1/, blockId=7, seqno=2"


def rows_of(root: Path, **options: Any) -> list[dict[str, Any]]:
    polled = DaemonLogCollector(DaemonLogOptions(root, **options)).poll(NOW)
    assert polled.problems == ()
    return list(polled.events.rows())


def told(tmp_path: Path, name: str, *messages: str) -> list[dict[str, Any]]:
    """Events of a log with these messages, one a second."""
    lines = [f"2023-11-14 22:13:{n:02},000 WARN a.b.C: {message}\n" for n, message in enumerate(messages)]
    (tmp_path / name).write_text("".join(lines))
    return rows_of(tmp_path)


def test_recorded_daemons_agree_with_a_count_of_their_lines(tmp_path: Path) -> None:
    for path in RECORDED.glob("hadoop-*.log"):
        shutil.copy(path, tmp_path)
    text = "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    rows = rows_of(tmp_path)
    found = Counter(row["type"] for row in rows)
    expected = {
        "ClientTrace": len(re.findall(r"clienttrace: src: .* bytes: ", text)),
        "SlowIo": len(re.findall(r"DataNode: Slow [BfmP]\w+ ", text)),
        "LockHeld": len(re.findall(r"Longest (?:write|read)-lock held at", text)),
        "JvmPause": len(re.findall(r"Detected pause in JVM", text)),
        "DataNodeLost": len(re.findall(r"lost heartbeat from", text)),
        "SafeMode": len(re.findall(r"STATE\* (?:Safe mode (?:is )?O|Leaving safe mode after)", text)),
    }
    assert found == expected
    assert min(expected.values()) >= 1
    assert expected["LockHeld"] > 20
    moved = re.findall(r"clienttrace: src: .* bytes: (\d+), op: (\w+).*duration\(ns\): (\d+)", text)
    assert Counter(
        (row["bytes"], row["operation"], row["duration_ns"]) for row in rows if row["type"] == "ClientTrace"
    ) == (Counter((int(n), op, int(ns)) for n, op, ns in moved))
    held = re.findall(r"Longest (write|read)-lock held at .* for (\d+)ms by (\w+)", text)
    locks = [row for row in rows if row["type"] == "LockHeld"]
    assert Counter((row["lock"], row["held_ms"], row["operation"]) for row in locks) == (
        Counter((kind, int(ms), name) for kind, ms, name in held)
    )
    users = re.findall(r"-lock held at .*\(ugi=(\w+) ", text)
    assert Counter(row["user"] for row in locks if row.get("user")) == Counter(users)
    assert all(row["n_suppressed"] is not None for row in locks)
    (lost,) = (row for row in rows if row["type"] == "DataNodeLost")
    assert (lost["host"], lost["namenode"]) == ("127.0.0.1", "nn1")
    paused = {row["host"]: row["pause_ms"] for row in rows if row["type"] == "JvmPause" and row["pause_ms"] > 2_000}
    assert paused == {"node1": 2_609}  # it was stopped for three seconds


def test_live_in_pieces_with_restarts_is_as_in_bulk(tmp_path: Path) -> None:
    whole = {row["event_id"]: row for row in rows_of(RECORDED)}
    data = (RECORDED / "hadoop-hdfs-namenode-nn1.log").read_bytes()
    path = tmp_path / "hadoop-hdfs-namenode-nn1.log"
    found: dict[str, Any] = {}
    reader = DaemonLogCollector(DaemonLogOptions(tmp_path))
    for end in [*range(0, len(data), 777), len(data)]:
        path.write_bytes(data[:end])
        found |= {row["event_id"]: row for row in reader.poll(NOW).events.rows()}
        position = json.loads(json.dumps(reader.checkpoint()))
        reader = DaemonLogCollector(DaemonLogOptions(tmp_path))
        reader.restore(position)
    path.rename(tmp_path / "hadoop-hdfs-namenode-nn1.log.1")
    assert len(reader.poll(NOW).events) == 0
    names = {"host", "type", "t_lo_ms", "held_ms", "n_suppressed"}
    expected = {key: row for key, row in whole.items() if row["clock_id"] == "host:nn1"}
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert {name: row.get(name) for name in names} == {name: expected[key].get(name) for name in names}


@pytest.mark.parametrize(
    "begin",
    [
        "2023-11-14 22:13:20,123 INFO org.apache.hadoop.hdfs.server.datanode.DataNode: ",
        "2023-11-14 22:13:20,123 WARN  datanode.DataNode - ",
        "2023-11-14 22:13:20,123 WARN  [DataXceiver for client DFSClient_1 at /10.0.0.1:1] datanode.DataNode: ",
        "2023-11-14 22:13:20,123 [main] WARN  org.apache.hadoop.hdfs.server.datanode.DataNode: ",
        "2023-11-14 22:13:20,123 WARN org.apache.hadoop.hdfs.server.DataNode (BlockReceiver.java:flush(431)) - ",
        "2023-11-14T22:13:20,123 WARN datanode.DataNode: ",
        "23/11/14 22:13:20 WARN datanode.DataNode: ",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_layouts(tmp_path: Path, begin: str, end: str) -> None:
    stack = f"java.io.IOException: {SLOW}{end}\tat a.b.C(D.java:1){end}"
    (tmp_path / "hadoop-cmf-hdfs-DATANODE-n1.log.out").write_bytes(f"{begin}{SLOW}{end}{stack}".encode())
    (row,) = rows_of(tmp_path)
    assert row["t_lo_ms"] in (1_700_000_000_123, 1_700_000_000_000)
    assert (row["type"], row["host"], row["suspect"], row["took_ms"]) == ("SlowIo", "n1", "n1", 400)


@pytest.mark.parametrize(
    ("name", "messages", "event_type", "attributes"),
    [
        ("datanode-n1.log", ["checkDiskError got 2 failed volumes - [/d1, /d2]"], "VolumeFailed",
         {"host": "n1", "n_volumes": 2, "volumes": "[/d1, /d2]"}),
        ("datanode-n1.log", ["checkDiskErrorAsync callback got 1 failed volumes: [/d1]"], "VolumeFailed",
         {"n_volumes": 1}),
        ("datanode-n1.log", ["Slow BlockReceiver write packet to mirror took 432ms (threshold=300ms), downstream "
                             "DNs=[DatanodeInfoWithStorage[10.0.0.4:9866,DS-1,DISK]], blockId=7, seqno=1"], "SlowIo",
         {"host": "n1", "suspect": "10.0.0.4", "operation": "mirror", "took_ms": 432, "block": "7"}),
        ("datanode-n1.log", ["Slow BlockReceiver write data to disk cost:7ms (threshold=3ms)"], "SlowIo",
         {"suspect": "n1", "operation": "write", "took_ms": 7}),
        ("namenode-nn1.log", ["BLOCK* removeDeadDatanode: lost heartbeat from 10.0.0.4:9866"], "DataNodeLost",
         {"host": "10.0.0.4", "namenode": "nn1"}),
        ("namenode.log", ["STATE* Safe mode ON. \\nThe reported blocks 0 needs"], "SafeMode",
         {"host": "namenode", "state": "on"}),
        ("namenode.log", ["FSNamesystem write lock held for 1234 ms via"], "LockHeld", {"held_ms": 1234}),
        ("namenode-nn1.log", ["Took 1500ms to send a batch of 3 edits (512 bytes) to remote journal jn1/10.0.0.9:8485"],
         "JournalSlow", {"journal": "jn1/10.0.0.9:8485", "took_ms": 1500, "n_edits": 3, "edits_bytes": 512}),
        ("nodemanager-n4.log", ["Directory /d1/nm error, used space above threshold of 90.0%, removing from list of "
                                "valid directories"], "DirectoryFailed",
         {"host": "n4", "directory": "/d1/nm", "reason": "used space above threshold of 90.0%"}),
        ("nodemanager-n4.log", [
            f"Exit code from container {CONTAINER} is : 137",
            AUDIT_FAILED + CONTAINER,
        ], "ContainerFailed", {"host": "n4", "user": "alice", "exit_code": 137, "container_id": CONTAINER}),
        ("nodemanager-n4.log", [
            f"Container {CONTAINER} transitioned from NEW to LOCALIZING",
            "Resource x transitioned from INIT to DOWNLOADING",
            f"Container {CONTAINER} transitioned from LOCALIZING to SCHEDULED",
        ], "ContainerLocalized", {"host": "n4", "period_ms": 2_000, "container_id": CONTAINER}),
        ("nodemanager-n4.log", [f"Localizer failed for {CONTAINER}"], "LocalizerFailed", {"container_id": CONTAINER}),
        ("resourcemanager.log", [
            f"Accepted application {APP} from user: alice, in queue: root.etl",
            FAILED_ATTEMPT + "-104",
        ], "MasterFailed", {"application_id": APP, "user": "alice", "queue": "root.etl",
                            "exit_code": -104, "reason": "beyond its physical memory"}),
        ("resourcemanager.log", [
            f"{SUBMITTED}{APP}\tCALLERCONTEXT=CLI\tQUEUENAME=default",
            FAILED_ATTEMPT + "1",
        ], "MasterFailed", {"user": "bob", "queue": "default", "reason": "exit code 1"}),
        ("datanode-n1.log", ["TGT is expired. Aborting renew thread for hdfs/n1@EXAMPLE.ORG."], "CredentialFailed",
         {"daemon": "DataNode", "host": "n1", "problem": "ticket expired", "user": "hdfs/n1@EXAMPLE.ORG"}),
        ("resourcemanager-rm1.log", ["Failed to renew token: Kind: HDFS_DELEGATION_TOKEN, Ident: (token for "
                                     "alice: HDFS_DELEGATION_TOKEN owner=alice, renewer=yarn)"], "CredentialFailed",
         {"host": "rm1", "problem": "token not renewed", "user": "alice"}),
        ("namenode-nn1.log", ["Token for real user: , can't be found in cache, Token=(token for alice: "
                              "HDFS_DELEGATION_TOKEN owner=alice, renewer=alice, realUser=, issueDate=1, maxDate=2, "
                              "sequenceNumber=77, masterKeyId=3)"], "CredentialFailed",
         {"host": "nn1", "problem": "token unknown", "user": "alice"}),
        ("namenode-nn1.log", ["Token for real user: hive, can't be found in cache"], "CredentialFailed",
         {"host": "nn1", "problem": "token unknown", "user": "hive"}),
        ("nodemanager-n4.log", [SHUFFLE], None, {}),
    ],
)  # fmt: skip
def test_lines(
    tmp_path: Path, name: str, messages: list[str], event_type: str | None, attributes: dict[str, Any]
) -> None:
    rows = told(tmp_path, name, *messages)
    if event_type is None:
        assert rows == []  # the logger says what it is, and this is another
        return
    (row,) = rows
    assert row["type"] == event_type
    assert {key: row[key] for key in attributes} == attributes


def test_shuffles_of_hadoop_1_and_what_moves_nothing(tmp_path: Path) -> None:
    trace = "org.apache.hadoop.mapred.TaskTracker.clienttrace"
    lines = (
        SHUFFLE,
        "src: 127.0.0.1, dest: 127.0.0.1, op: REQUEST_SHORT_CIRCUIT_FDS, blockid: 1, srvID: x, success: true",
    )
    text = "".join(f"2023-11-14 22:13:20,000 INFO {trace}: {line}\n" for line in lines)
    (tmp_path / "nodemanager-n4.log").write_text(text)
    (row,) = rows_of(tmp_path)
    assert (row["operation"], row["source_host"], row["dest_host"]) == ("MAPRED_SHUFFLE", "10.0.0.4", "10.0.0.5")
    assert (row["job_id"], row["bytes"], row["duration_ns"]) == ("job_1_0007", 99, 12)
    assert rows_of(tmp_path, client_trace=False) == []


def problems_of(root: Path, data: bytes) -> dict[str, str]:
    (root / "datanode-n1.log").write_bytes(data)
    return {one.kind: one.message for one in DaemonLogCollector(DaemonLogOptions(root)).poll(NOW).problems}


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    good = b"2023-11-14 22:13:20,123 INFO a.B: well\n"
    line = f"2023-11-14 22:13:20,123 WARN a.B: {SLOW}\n".encode()
    assert problems_of(tmp_path, good + line) == {}
    assert "torn_record" in problems_of(tmp_path, good + line[12:])
    assert "unknown_form" in problems_of(tmp_path, line.replace(b"400ms", b"a while"))
    assert "encoding" in problems_of(tmp_path, line.replace(b"/d1/", b"/d\xff/"))
    assert "oversized_record" in problems_of(tmp_path, good + b"x" * (1 << 22) + b"\n" + line)
    assert "UTF-16" in problems_of(tmp_path, (good + line).decode().encode("utf-16"))["not_log"]


def test_text_of_users_cannot_tell_of_others(tmp_path: Path) -> None:
    path = "/a,dst=null) via x Longest write-lock held at 1 for 9ms by b (ugi=root (x),ip=/6.6.6.6,src=/z,dst="
    (tmp_path / "namenode-nn1.log").write_text(
        "2023-11-14 22:13:20,123 INFO a.FSNamesystem: \tNumber of suppressed write-lock reports: 4\n"
        f"\tLongest write-lock held at 2023-11-14 22:13:20,001+0000 for 7000ms by delete (ugi=eve (auth:SIMPLE),"
        f"ip=/10.0.0.6,src={path},dst=null,perm=null) via java\n"
        f"2023-11-14 22:13:21,123 INFO a.FSNamesystem: cannot open STATE* Safe mode ON. {SLOW}\n"
    )
    (row,) = rows_of(tmp_path)
    assert (row["user"], row["client"], row["path"], row["held_ms"]) == ("eve", "10.0.0.6", "/a", 7_000)
    assert row["n_suppressed"] == 4


@pytest.mark.parametrize("mark", [mark.decode() for mark, _ in READERS] + ["clienttrace"])
def test_a_path_cannot_hide_what_a_line_tells(tmp_path: Path, mark: str) -> None:
    killed = f"Container [pid=1,containerID={CONTAINER}] is running beyond physical memory limits"
    held = "Longest write-lock held at 2023-11-14 22:13:20 for 7000ms by delete (ugi=eve (x),ip=/10.0.0.6,src={},dst="
    rows = told(tmp_path, "namenode-nn1.log", held.format(f"/{mark}"), held.format(f"/{killed}"))
    assert [row["type"] for row in rows] == ["LockHeld", "LockHeld"]


MARKS = [mark for mark, _ in READERS]
PIECES = st.one_of(
    st.binary(max_size=30), st.sampled_from([*MARKS, b"\n", b"\r\n", b"2023-11-14 22:13:20,123 INFO a.B: "])
)


@given(st.lists(PIECES, max_size=30))
def test_lines_with_a_mark_are_found_as_line_by_line(pieces: list[bytes]) -> None:
    data = b"".join(pieces) + b"\n"
    lines, pattern = lines_of(data), pattern_of(MARKS)
    one_by_one = data.split(b"\n")[:-1]
    expected = [n for n, line in enumerate(one_by_one) if any(mark in line for mark in MARKS)]
    assert with_mark(lines, pattern).tolist() == expected
    starts = starts_of(lines).tolist()
    assert [data[starts[n] : starts[n + 1] - 1] for n in range(len(lines))] == one_by_one


@given(st.lists(PIECES, max_size=30), st.integers(0, 400))
def test_any_bytes_in_two_pieces_tell_what_they_tell_at_once(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cut: int
) -> None:
    root, data = tmp_path_factory.mktemp("logs"), b"".join(pieces) + b"\n"
    (root / "namenode-nn1.log").write_bytes(data)
    whole = DaemonLogCollector(DaemonLogOptions(root)).poll(NOW).events
    (root / "namenode-nn1.log").write_bytes(data[:cut])
    reader = DaemonLogCollector(DaemonLogOptions(root))
    first = reader.poll(NOW).events
    with (root / "namenode-nn1.log").open("ab") as file:
        file.write(data[cut:])
    second = reader.poll(NOW).events
    whole.validate()
    ids = [*first.strings("event_id").to_pylist(), *second.strings("event_id").to_pylist()]
    assert ids == whole.strings("event_id").to_pylist()
