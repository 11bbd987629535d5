"""Operations of HDFS's audit log by minute and user, against a count of the lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.base import OptionError, PositionError
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions

RECORDED = Path(__file__).parents[2] / "fixtures" / "daemon_logs" / "hdfs-audit.log"
NOW = 4_000_000_000_000
HOUR_MS = 3_600_000
T0 = 1_700_000_000_000 + 40_000  # a full minute: 2023-11-14 22:14:00
LINE = (
    "2023-11-14 22:14:{s:02},123 INFO FSNamesystem.audit: allowed={ok}\tugi={ugi}\tip=/{ip}\tcmd={cmd}\tsrc={src}"
    "\tdst=null\tperm=null\tproto=rpc{more}\n"
)
READ = rb"2023-11-14 22:14:\d\d,123 INFO FSNamesystem.audit: allowed=(\w+)\tugi=(\w)[^\t]*\t.*?\tcmd=(\w+)\tsrc="


def line(
    s: int, ugi: str = "alice (auth:SIMPLE)", cmd: str = "open", *, ok: str = "true", ip: str = "10.0.0.1",
    src: str = "/a", more: str = "",
) -> str:  # fmt: skip
    return LINE.format(s=s, ok=ok, ugi=ugi, ip=ip, cmd=cmd, src=src, more=more)


def counted(root: Path, **options: Any) -> list[dict[str, Any]]:
    polled = HdfsAuditCollector(HdfsAuditOptions(root, **options)).poll(NOW)
    assert polled.problems == ()
    return list(polled.events.rows())


def test_a_recorded_log_agrees_with_a_count_of_its_lines() -> None:
    text = RECORDED.read_text()
    found = re.findall(r"^(\S+ \d\d:\d\d).*allowed=(\w+)\tugi=(\w+)[^\t]*\t.*?\tcmd=(\w+)", text, re.MULTILINE)
    rows = counted(RECORDED.parent)
    assert Counter(
        {(row["t_lo_ms"], row["allowed"], row["user"], row["operation"]): row["n_operations"] for row in rows}
    ) == (Counter((end_ms(minute), int(ok == "true"), user, cmd) for minute, ok, user, cmd in found))
    assert sum(row["n_operations"] for row in rows) == text.count("\n") == 39
    assert sum(row["n_operations"] for row in rows if not row["allowed"]) == text.count("allowed=false") > 1


def end_ms(minute: str) -> int:
    return int(datetime.strptime(minute, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp()) * 1000 + 59_999


def test_clients_jobs_and_paths(tmp_path: Path) -> None:
    mr = "\tcallerContext=mr_attempt_1700000000000_0007_m_000001_0"
    spark = "\tcallerContext=SPARK_TASK_application_1700000000000_0009_JId_1:sig"
    lines = [
        line(1, src="/first"),
        line(2, ip="10.0.0.2", more=mr),
        line(3, ip="10.0.0.2", more=mr),
        line(4, more=spark),
    ]
    lines.append(line(5, ugi="alice (auth:PROXY) via hive/h@X (auth:KERBEROS)"))
    (tmp_path / "hdfs-audit-nn1.log").write_text("".join(lines))
    (row,) = counted(tmp_path, hosts={"nn1": "name1"})
    assert (row["host"], row["user"], row["n_operations"], row["n_clients"]) == ("name1", "alice", 5, 2)
    assert (row["client"], row["top_job_id"], row["path"]) == ("10.0.0.1", "job_1700000000000_0007", "/first")
    assert row["t_lo_ms"] == row["t_hi_ms"] == T0 + 59_999


def test_a_minute_is_told_once_it_is_over_live_rotated_and_restarted(tmp_path: Path) -> None:
    path = tmp_path / "hdfs-audit.log"
    reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path, host="nn1"))
    path.write_text(line(1))
    assert len(reader.poll(T0 + 30_000).events) == 0
    path.rename(tmp_path / "hdfs-audit.log.1")
    path.write_text(line(40) + line(50))
    position = json.loads(json.dumps(reader.checkpoint()))
    reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path, host="nn1"))
    reader.restore(position)
    assert len(reader.poll(T0 + 45_000).events) == 0
    assert len(reader.poll(T0 + 64_999).events) == 0  # within the lateness
    polled = reader.poll(T0 + 65_000)
    (row,) = polled.events.rows()
    assert row["n_operations"] == 3
    (whole,) = counted(tmp_path, host="nn1")
    assert whole["event_id"] == row["event_id"]
    with path.open("a") as file:
        file.write(line(59))
    late = reader.poll(T0 + 80_000)
    assert len(late.events) == 0
    (problem,) = late.problems
    assert problem.kind == "late"
    assert problem.message.startswith("1 operations")


def test_a_minute_is_not_told_while_more_of_one_file_is_left_to_read(tmp_path: Path) -> None:
    (tmp_path / "hdfs-audit.log").write_text("".join(line(n % 60) for n in range(100)))
    reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path, max_bytes_per_poll=5_000))
    polls = [reader.poll(T0 + 200_000 + n) for n in range(4)]
    assert [row["n_operations"] for polled in polls for row in polled.events.rows()] == [100]
    assert [problem for polled in polls for problem in polled.problems] == []


@pytest.mark.parametrize("restarts", [False, True])
def test_copies_of_a_log_are_not_counted_again(tmp_path: Path, *, restarts: bool) -> None:
    path, new = tmp_path / "hdfs-audit.log", tmp_path / "new"
    reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path))

    def polled(now_ms: int) -> list[int]:
        nonlocal reader
        if restarts:
            position = json.loads(json.dumps(reader.checkpoint()))
            reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path))
            reader.restore(position)
        return [row["n_operations"] for row in reader.poll(now_ms).events.rows()]

    path.write_text(line(1) + line(2))
    assert polled(T0 + 10_000) == []
    new.write_text(path.read_text() + line(11))  # rsync writes a new file in place of the old one
    new.rename(path)
    assert polled(T0 + 20_000) == []
    (tmp_path / "hdfs-audit.log.1").write_text(path.read_text() + line(21))  # logrotate's copytruncate
    path.write_text(line(22, src="/other"))
    assert polled(T0 + 30_000) == []
    assert polled(T0 + 90_000) == [5]


def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.logs.hdfs_audit.MAX_WAITING", 3)
    lines = [line(1).replace("22:14", f"22:{minute:02}") for minute in range(20) for _ in range(2)]
    ahead = line(1).replace("2023", "2099")  # by a clock that was wrong
    (tmp_path / "hdfs-audit.log.1").write_text("".join([ahead, *lines[:21]]))
    (tmp_path / "hdfs-audit.log").write_text("".join(lines[21:]))
    reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path, max_bytes_per_poll=1_000))
    polls = []
    for n in range(30):
        polls.append([row["n_operations"] for row in reader.poll(NOW + n).events.rows()])
        assert len(reader.checkpoint()["counts"][""]) < 10
    assert [n for polled in polls for n in polled] == [2] * 20


def test_what_waits_after_a_restart_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was promised before it stood still says nothing of which minutes it has read since."""
    monkeypatch.setattr("collectors.logs.hdfs_audit.MAX_WAITING", 3)
    path = tmp_path / "hdfs-audit.log"
    path.write_text(line(1).replace("22:14", "20:14"))
    before = HdfsAuditCollector(HdfsAuditOptions(tmp_path))
    assert [row["n_operations"] for row in before.poll(T0 - HOUR_MS).events.rows()] == [1]
    lines = [line(1).replace("22:14", f"22:{minute:02}") for minute in range(20) for _ in range(2)]
    with path.open("a") as file:
        file.writelines(lines)
    reader = HdfsAuditCollector(HdfsAuditOptions(tmp_path, max_bytes_per_poll=1_000))
    reader.restore(before.checkpoint())
    polls = []
    for n in range(30):
        polls.append([row["n_operations"] for row in reader.poll(NOW + n).events.rows()])
        assert len(reader.checkpoint()["counts"][""]) < 10
    assert [n for polled in polls for n in polled] == [2] * 20


def test_an_operation_on_no_path_has_none(tmp_path: Path) -> None:
    (tmp_path / "hdfs-audit.log").write_text(line(1, cmd="listCachePools", src="null"))
    assert [row.get("path") for row in counted(tmp_path)] == [None]


def test_what_is_not_understood_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "hdfs-audit.log"
    path.write_text(line(1) + line(2).replace("\tugi=", "\tuser=") + "a stack trace\n" + "torn " + line(3)[25:])
    polled = HdfsAuditCollector(HdfsAuditOptions(tmp_path)).poll(NOW)
    assert [row["n_operations"] for row in polled.events.rows()] == [1]
    (problem,) = polled.problems
    assert (problem.kind, problem.message.split(" of a form")[0]) == (
        "unknown_form",
        "2 of 3 operations from this line on are",
    )
    with pytest.raises(OptionError, match="name_pattern"):
        HdfsAuditOptions(tmp_path, name_pattern="(")
    with pytest.raises(PositionError):
        HdfsAuditCollector(HdfsAuditOptions(tmp_path)).restore({"version": 1, "files": {}})


def test_paths_cannot_tell_of_other_users(tmp_path: Path) -> None:
    hostile = "/x\tugi=root\tip=/6.6.6.6\tcmd=delete\tsrc=/\tallowed=false FSNamesystem.audit: allowed=false\tugi=root"
    (tmp_path / "hdfs-audit.log").write_text(line(1, src=hostile, ok="true"))
    (row,) = counted(tmp_path)
    assert (row["user"], row["operation"], row["allowed"], row["client"]) == ("alice", "open", 1, "10.0.0.1")


LINES = st.lists(
    st.one_of(
        st.builds(line, st.integers(0, 59), st.sampled_from(["a", "b (x)"]), st.sampled_from(["open", "delete"]),
                  ok=st.sampled_from(["true", "false"])).map(str.encode),
        st.binary(max_size=40).map(lambda data: data + b"\n"),
    ),
    max_size=20,
)  # fmt: skip


@given(LINES, st.integers(0, 3_000))
def test_any_bytes_in_two_pieces_are_counted_as_at_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cut: int
) -> None:
    root, data = tmp_path_factory.mktemp("audit"), b"".join(lines)
    (root / "hdfs-audit.log").write_bytes(data)
    whole = list(HdfsAuditCollector(HdfsAuditOptions(root)).poll(NOW).events.rows())
    expected = Counter(
        (found[2].decode(), found[3].decode(), int(found[1] == b"true"))
        for one in data.split(b"\n")
        if (found := re.match(READ, one))
    )  # fmt: skip
    assert {(row["user"], row["operation"], row["allowed"]): row["n_operations"] for row in whole} == expected
    reader = HdfsAuditCollector(HdfsAuditOptions(root))
    (root / "hdfs-audit.log").write_bytes(data[:cut])
    assert len(reader.poll(T0).events) == 0
    with (root / "hdfs-audit.log").open("ab") as file:
        file.write(data[cut:])
    in_pieces = list(reader.poll(NOW).events.rows())
    assert [(row["event_id"], row["n_operations"]) for row in in_pieces] == [
        (row["event_id"], row["n_operations"]) for row in whole
    ]
