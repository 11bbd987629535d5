"""Kinds of files by name and content, and what is done with those that cannot be read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from collectors.base import Collector, Problem
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.file_kinds import (
    CONTAINER_LOG,
    DAEMON_LOG,
    HADOOP1,
    JHIST,
    JOB_CLIENT_LOG,
    JOB_CONF,
    RRD,
    RUMEN,
    kind_by_content,
)
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from spark_jobs.ingest.files import parts_below, shown
from spark_jobs.ingest.kinds import IngestOptions, kind_by_name, rrd_place, skipped_by_name
from spark_jobs.ingest.parse import ReadFile, Unreadable, decompressed, parse_file, parse_logs
from spark_jobs.ingest.report import Count, FileRead, IngestReport, merged
from tests.collectors import histories
from tests.collectors.client import consoles
from tests.collectors.history.test_hadoop1_history import HISTORY
from tests.collectors.reducer_logs import hadoop2_log

OPTIONS = IngestOptions()
DAEMON_LOGS = Path(__file__).parents[2] / "fixtures" / "daemon_logs"
APP, BOX = "application_1700000000000_0007", "container_e11_1700000000000_0007_01_000002"


def notes(tables: list[pa.Table], part: str) -> list[dict[str, Any]]:
    rows = [row for table in tables for row in table.to_pylist() if row["part"] == part]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize(
    ("path", "kind", "skipped"),
    [
        ("done/job_1_1-x.jhist", JHIST, None),
        ("done/job_1_1-x.jhist.gz", JHIST, None),
        ("done/job_1_1_conf.xml", JOB_CONF, None),
        ("done/jt_1_job_201001020304_0007_conf.xml.gz", JOB_CONF, None),
        ("done/x_conf.xml", None, "a configuration whose name tells no job"),
        ("done/.job_1_1-x.jhist.crc", None, "hidden: its name begins with a dot or an underscore"),
        ("rrds/c/h/cpu_user.rrd", RRD, None),
        ("rrds/c/h/boottime.rrd", RRD, "a metric that sources.ganglia_rrd.metrics does not name"),
        ("rrds/c/__SummaryInfo__/cpu_user.rrd", RRD, "a summary over hosts"),
        ("rrds/c/cpu_user.rrd", RRD, "an RRD that is not at <cluster>/<host>/<metric>.rrd"),
        (f"n1/{APP}/{BOX}/syslog", CONTAINER_LOG, None),
        (f"n1/{APP}/{BOX}/syslog.shuffle.2.gz", CONTAINER_LOG, None),
        (f"n1/{APP}/{BOX}/stdout", CONTAINER_LOG, "of a container, but none of syslog, syslog.shuffle"),
        (f"{APP}/{BOX}.log", CONTAINER_LOG, None),
        ("hadoop-yarn-nodemanager-n1.log.3", DAEMON_LOG, None),
        ("history/host_1_job_1_1_user_name", None, None),
    ],
)
def test_kinds_by_name(path: str, kind: str | None, skipped: str | None) -> None:
    parts = tuple(path.split("/"))
    assert (kind_by_name(parts, OPTIONS), skipped_by_name(parts, OPTIONS)) == (kind, skipped)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (histories.whole_history(), JHIST),
        (b"# made by hand\n" + histories.whole_history(), JHIST),
        (HISTORY, HADOOP1),
        (b"\f!!FILE=job!!\n" + HISTORY, HADOOP1),
        (b'{\n "priority" : "NORMAL", "jobID" : "job_1_1"', RUMEN),
        (b'{"name": "<root>", "children": []}', None),
        (b'{"beans": []}', None),
        (b"2020-01-01 00:00:00,000 INFO x", None),
        (b"some output\n" * 9_000 + consoles.console(consoles.HADOOP3).encode(), JOB_CLIENT_LOG),
        (b"23/11/14 00:00:01 INFO streaming.StreamJob:  map 0%  reduce 0%\n", JOB_CLIENT_LOG),
        (b"\0" + consoles.console(consoles.HADOOP3).encode(), None),
        (b"<xml/>", None),
        (b" \n", None),
        (b"\x00\x01", None),
    ],
)
def test_kinds_by_content(data: bytes, found: str | None) -> None:
    kind, why = kind_by_content(data)
    assert kind == found
    assert bool(why) == (found is None)


def test_places() -> None:
    assert shown("file:/a/b") == shown("file:///a/b") == "/a/b"
    assert shown("hdfs://m/a") == "hdfs://m/a"
    roots = ("file:/a", "file:/a/b", "file:/c/host_1_job")
    assert parts_below("file:/a/b/c/d", roots) == ("c", "d")
    assert parts_below("file:/c/host_1_job", roots) == ("file:", "c", "host_1_job")
    assert parts_below("file:/x/rrds/c/h/m.rrd", ("file:/x/rrds/c/h",)) == ("rrds", "c", "h", "m.rrd")
    assert rrd_place(("rrds", "c", "h", "m.rrd")) == ("c", "h", "m")
    assert rrd_place(("rrds", "d", "c", "h", "m.rrd")) is rrd_place(("h", "m.rrd")) is None


def test_compressed_files() -> None:
    text = b"line\n" * 1000
    packed = gzip.compress(text)
    assert decompressed(packed + gzip.compress(b"more"), 10_000) == (text + b"more", False)
    assert decompressed(packed + b"\0" * 8, 10_000) == (text, False)
    cut, is_cut = decompressed(packed[:-12], 10_000)
    assert is_cut
    assert text.startswith(cut)
    for data, said in (
        (b"plain", "cannot be decompressed"),
        (packed, "more than 100"),
        (packed + b"no gzip", "damaged"),
    ):
        with pytest.raises(Unreadable, match=said):
            decompressed(data, 100 if said.startswith("more") else 10_000)


def test_a_compressed_history_is_read_as_the_plain_one() -> None:
    whole = histories.whole_history()
    plain = list(
        parse_file(ReadFile("/d/job_1700000000000_0007.jhist", ("job_1700000000000_0007.jhist",), whole), OPTIONS)
    )
    name = "job_1700000000000_0007.jhist.gz"
    packed = list(parse_file(ReadFile(f"/d/{name}", (name,), gzip.compress(whole)), OPTIONS))
    ids = [[row["event_id"] for row in notes(tables, "event")] for tables in (plain, packed)]
    assert ids[0] == ids[1] != []
    cut = list(parse_file(ReadFile(f"/d/{name}", (name,), gzip.compress(whole)[:-20]), OPTIONS))
    assert {row["kind"] for row in notes(cut, "problem")} >= {"truncated"}
    assert 0 < len(notes(cut, "event")) <= len(ids[0])


@pytest.mark.parametrize(
    ("name", "data", "reason", "kinds"),
    [
        ("x.jhist", b"", "unreadable", ["empty"]),
        ("x.jhist", b"Avro-Binary\n...", "unreadable", ["avro_binary"]),
        ("x.jhist.gz", b"no gzip", "unreadable", ["unreadable"]),
        ("cpu_user.rrd", b"RRD\x000003 but cut", "unreadable", ["not_rrd"]),
        ("history", HISTORY[:30], "unreadable", ["not_a_history"]),
        ("notes.txt", b"hello", "no kind that is known", []),
    ],
)
def test_files_of_which_nothing_can_be_read(name: str, data: bytes, reason: str, kinds: list[str]) -> None:
    file = ReadFile(f"/d/rrds/c/h/{name}", ("rrds", "c", "h", name), data)
    tables = list(parse_file(file, OPTIONS))
    assert [row["message"] for row in notes(tables, "file")] == [reason]
    assert [row["kind"] for row in notes(tables, "problem")] == kinds
    assert all(file.place in row["place"] for row in notes(tables, "problem"))
    assert notes(tables, "event") == []


def test_a_defect_of_a_parser_costs_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("spark_jobs.ingest.parse.JhistParser.close", broken)
    tables = list(parse_file(ReadFile("/d/x.jhist", ("x.jhist",), histories.whole_history()), OPTIONS))
    (problem,) = notes(tables, "problem")
    assert (problem["kind"], problem["message"]) == ("collector_failed", "ZeroDivisionError: a defect")
    assert notes(tables, "event") == []


@pytest.mark.parametrize(
    ("folders", "layout", "clock"),
    [
        (("n1", APP, BOX), OPTIONS.layout, "host:n1"),
        (("old", "n1", APP, BOX), OPTIONS.layout, "host:n1"),
        (("userlogs", APP, BOX), OPTIONS.layout, f"container:{BOX}"),
        ((APP, BOX), OPTIONS.layout, f"container:{BOX}"),
        (("n1", BOX), "{host}/{container}/{role}", "host:n1"),
    ],
)
def test_the_host_of_a_container_is_never_made_up(folders: tuple[str, ...], layout: str, clock: str) -> None:
    options = replace(OPTIONS, layout=layout, hosts={"other": "n9"})
    file = ReadFile("/" + "/".join((*folders, "syslog")), (*folders, "syslog"), hadoop2_log().encode())
    events = notes(list(parse_logs([file], options)), "event")
    assert {row["clock_id"] for row in events} == {clock}
    assert all(row["origin"].startswith(file.place) or row["origin"] == BOX for row in events)


def test_report() -> None:
    report = IngestReport(
        read=(Count("a", 2, ("x", "y"), 10),),
        skipped=merged([Count("b", 1, ("z",)), Count("c: unreadable", 1)], [Count("b", 2, ("q", "p", "r"))]),
        events={"Metric": 3},
    )
    assert report.skipped[0] == Count("b", 3, ("p", "q", "r"))
    assert (report.n_unreadable, report.exit_code) == (1, 1)
    assert IngestReport(report.read).exit_code == 0
    assert IngestReport().exit_code == 1
    assert report.info() == {
        "read": {"a": 2}, "skipped": {"b": 3, "c: unreadable": 1}, "events": {"Metric": 3}, "problems": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "data", "said"),
    [
        ((f"{BOX}.log",), b"stack trace\nmore\n", "see its problems: not_log"),
        ((f"{BOX}.log",), b"2020-01-01 00:00:00,000 INFO [main] a.B: hello\n", "none of its 1 lines tells of a task"),
        (
            ("hadoop-yarn-nodemanager-n1.log",),
            b"2020-01-01 00:00:00,000 INFO a.B: hello",
            "tells of a node that is lost",
        ),
        (("x.jhist",), histories.whole_history()[:400], "see its problems: truncated"),
    ],
)
def test_a_file_without_an_event_says_why(parts: tuple[str, ...], data: bytes, said: str) -> None:
    file = ReadFile("/d/" + parts[-1], parts, data)
    parse = parse_file if parts[-1].endswith(".jhist") else lambda file, options: parse_logs([file], options)
    (row,) = notes(list(parse(file, OPTIONS)), "file")
    if "problems" in said:
        row["note"] = row["note"].replace("name_disagrees, ", "")
    assert (row["n_events"], said in row["note"]) == (0, True), row


def test_events_are_counted_per_file_of_a_container() -> None:
    lines = hadoop2_log().encode().splitlines(keepends=True)
    half = len(lines) // 2
    folders = ("n1", APP, BOX)
    files = [
        ReadFile(f"/d/{name}", (*folders, name), b"".join(part))
        for name, part in (("syslog", lines[:half]), ("syslog.shuffle", lines[half:]))
    ]
    tables = list(parse_logs(files, OPTIONS))
    counts = {row["place"]: row["n_events"] for row in notes(tables, "file")}
    events = notes(tables, "event")
    of_second = sum(row["origin"].startswith("/d/syslog.shuffle:") for row in events)
    assert counts == {"/d/syslog": len(events) - of_second, "/d/syslog.shuffle": of_second}
    assert of_second


def test_a_report_tells_problems_with_their_texts_and_files_with_their_events() -> None:
    texts = tuple(f"text {n}" for n in range(5))
    report = IngestReport(
        read=(Count("job history (.jhist)", 2, ("/a", "/b"), 3_000_000),),
        problems=merged([Count("s: bad", 1, (f"/f:{n}",), texts=(text,)) for n, text in enumerate(texts)]),
        files=(FileRead("/b", "job history (.jhist)", 1, 0, "see its problems: bad"), FileRead("/a", "x", 2, 7)),
        problem_list=(Problem("s", "/f:0", "bad", "text 0"),),
    )
    assert report.problems == (Count("s: bad", 5, ("/f:0", "/f:1", "/f:2"), texts=texts[:3]),)
    told = json.loads(report.to_json())
    assert told["problems"][0]["texts"] == list(texts[:3])
    assert told["problem_list"] == [{"source": "s", "place": "/f:0", "kind": "bad", "message": "text 0"}]
    assert (told["files"][0]["note"], told["files"][1]["n_events"]) == ("see its problems: bad", 7)
    assert (told["n_read"], told["n_problems"]) == (2, 5)
    console = Console(width=200, record=True, file=StringIO())
    report.print_to(console)
    printed = console.export_text()
    for said in ("/f:0: text 0", "see its problems: bad", "why none", "size", "3.0 MB"):
        assert said in printed


@pytest.mark.parametrize("name", sorted(path.name for path in DAEMON_LOGS.iterdir()))
def test_logs_of_daemons_in_bulk_are_as_live(name: str) -> None:
    path = DAEMON_LOGS / name
    file = ReadFile(f"/in/{name}.gz", (f"{name}.gz",), gzip.compress(path.read_bytes()))
    tables = list(parse_logs([file], OPTIONS))
    live: Collector = DaemonLogCollector(DaemonLogOptions(DAEMON_LOGS))
    if name.startswith("hdfs-audit"):
        live = HdfsAuditCollector(HdfsAuditOptions(DAEMON_LOGS))
    rows = live.poll(4_000_000_000_000).events.rows()
    expected = [str(row["event_id"]) for row in rows if f"/{name}" in str(row["origin"])]
    found = notes(tables, "event")
    assert sorted(row["event_id"] for row in found) == sorted(expected)
    (told,) = notes(tables, "file")
    assert told["n_events"] == len(found) > 0


@pytest.mark.parametrize("lines", [consoles.HADOOP3, consoles.HADOOP1, consoles.STREAMING])
def test_consoles_of_clients_in_bulk_are_as_live(tmp_path: Path, lines: Sequence[consoles.Line]) -> None:
    """Whatever their names; the last line's text goes on no more."""
    data = consoles.console(lines, "{short} {level} {logger}: {message}").encode()
    (tmp_path / "edge1_wc.out").write_bytes(data)
    named = r"(?P<host>[^_]+)_.+"
    live = JobClientLogCollector(JobClientLogOptions(tmp_path, name_pattern=named, zone="Asia/Tokyo"))
    expected = list(live.poll(4_000_000_000_000).events.rows())
    file = ReadFile("/in/edge1_wc.out.gz", ("edge1_wc.out.gz",), gzip.compress(data))
    tables = list(parse_file(file, replace(OPTIONS, client_zone="Asia/Tokyo", client_pattern=named)))
    found = notes(tables, "event")
    names = ("event_id", "type", "t_lo_ms", "clock_id")
    assert sorted([row[name] for name in names] for row in found) == sorted(
        [row[name] for name in names] for row in expected
    )
    assert {row["clock_id"] for row in found} == {"host:edge1"}
    assert all(row["origin"].startswith("/in/edge1_wc.out.gz:") for row in found)
    (told,) = notes(tables, "file")
    assert (told["kind"], told["n_events"]) == (JOB_CLIENT_LOG, len(expected))
    undated = consoles.console(lines[:3], "{level} {logger}: {message}") + "INFO mapreduce.Job:  map 0% reduce 0%\n"
    (told,) = notes(list(parse_file(ReadFile("/in/x", ("x",), undated.encode()), OPTIONS)), "file")
    assert told["note"].startswith("see its problems: no_")
