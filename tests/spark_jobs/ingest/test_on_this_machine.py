"""Few files without Spark: the same events and the same report as with it; what is not plain is left to it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.live.clock_skew import ClockSkewBounds
from deploy.minicluster.recording import packing
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import EVENTS
from spark_jobs.ingest.job import ingest, ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits, listed_here
from tests.conftest import RECORDING
from tests.spark_jobs.ingest.test_job import COMPARED, IN_BULK_ALONE, live_events, write_bad_files

LIMITS = Limits(1_000, 1 << 26)
PRECEDENCE = ("job_history", "yarn_rest", "container_log", "daemon_log", "ganglia_rrd", "rumen_trace")


def stored(place: Path, columns: tuple[str, ...] = COMPARED) -> list[dict[str, object]]:
    types = {str(path.name).removeprefix("type=") for path in place.glob("data/*/*")}
    table = read_few(str(place), types, columns, None, None, 1 << 30)
    assert table is not None
    return [{name: row.get(name) for name in columns} for row in table.to_pylist()]


def test_the_same_events_as_live_collectors_give(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    packing.unpack(RECORDING, recording)
    report = ingest_here(str(tmp_path / "store"), PRECEDENCE, [str(recording)], IngestOptions(), LIMITS)
    assert report is not None
    expected = live_events(recording)
    rows = stored(tmp_path / "store")
    found = {str(row["event_id"]): row for row in rows if row["type"] not in IN_BULK_ALONE}
    assert found.keys() == expected.keys()
    for event_id, row in expected.items():
        assert found[event_id] == {name: row.get(name) for name in COMPARED}
    assert (report.exit_code, report.n_new, report.n_unreadable) == (0, len(rows), 0)
    assert report.events["JobSettings"] == report.events["JobEnd"] == report.events["JobCounters"]
    assert report.events["AttemptCounters"] > 0
    assert report.problems == ()
    again = ingest_here(str(tmp_path / "store"), PRECEDENCE, [f"file:{recording}"], IngestOptions(), LIMITS)
    assert again is not None
    assert (again.n_new, again.n_duplicate) == (0, sum(again.events.values()))


def test_the_same_report_and_events_as_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_bad_files(tmp_path / "in")
    options = replace(
        IngestOptions(), max_bytes=100_000, clock_skew=ClockSkewBounds(0, {"host:node1": 5}, {"ganglia:c": -1_000})
    )
    store = EventStore.create(spark, str(tmp_path / "spark"), precedence=PRECEDENCE)
    expected = ingest(spark, store, [str(tmp_path / "in")], options)
    found = ingest_here(str(tmp_path / "here"), PRECEDENCE, [str(tmp_path / "in")], options, LIMITS)
    assert found is not None
    assert replace(found, n_stored_files=0) == replace(expected, n_stored_files=0)
    columns = tuple(EVENTS.names)
    by_id = {row["event_id"]: row.asDict() for row in store.read().collect()}
    for row in stored(tmp_path / "here", columns):
        other = by_id.pop(row["event_id"])
        # 0 and null say the same; which it is depends on the batches that Spark has made.
        assert row | {"skew_ms": row["skew_ms"] or 0} == other | {"skew_ms": other["skew_ms"] or 0}
    assert not by_id


@pytest.mark.parametrize(
    "what", ["absent", "scheme", "link", "check sum", "many", "large", "compressed", "odd", "wild"]
)
def test_what_is_not_plain_is_left_to_spark(tmp_path: Path, what: str) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.jhist").write_bytes(b"x" * 100)
    assert listed_here([str(root)], LIMITS) is not None
    paths, limits = [str(root)], LIMITS
    if what == "absent":
        paths = [str(root / "b")]
    elif what == "scheme":
        paths = [f"hdfs://master{root}"]
    elif what == "link":
        (root / "b").symlink_to(root / "a.jhist")
    elif what == "check sum":
        (root / ".a.jhist.crc").write_bytes(b"crc")
    elif what == "many":
        limits = Limits(0, 1 << 20)
    elif what == "large":
        limits = Limits(10, 99)
    elif what == "compressed":
        (root / "a.jhist").rename(root / "a.gz")
        limits = Limits(10, 1_999)
    elif what == "odd":
        (root / "a:b").write_bytes(b"x")
    else:
        paths = [str(root / "*.jhist")]
    assert listed_here(paths, limits) is None


def test_a_path_that_hadoop_may_read_elsewhere_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.jhist").write_bytes(b"x")
    assert listed_here([str(tmp_path)], LIMITS, only_named=True) is None
    assert listed_here([f"file:{tmp_path}"], LIMITS, only_named=True) is not None


def test_the_listing_names_files_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    from spark_jobs.ingest.files import list_files, parts_below

    write_bad_files(tmp_path / "in dir")
    paths = [str(tmp_path / "in dir"), f"file://{tmp_path}/in dir/done/", str(tmp_path / "in dir" / "done" / "no.gz")]
    theirs, ours = list_files(spark, paths), listed_here(paths, LIMITS)
    assert ours is not None
    assert [file.n_bytes for file in ours.files] == [file.n_bytes for file in theirs.files]
    assert [parts_below(file.url, ours.roots) for file in ours.files] == [
        parts_below(file.url, theirs.roots) for file in theirs.files
    ]


def test_no_jvm_is_started(tmp_path: Path) -> None:
    write_bad_files(tmp_path / "in")
    code = (
        "import subprocess, sys\n"
        "def refused(*args, **kwargs): raise AssertionError('a process was started')\n"
        "subprocess.Popen = refused\n"
        "from spark_jobs.ingest.job import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = [f"--store={tmp_path / 'store'}", "--config=config.yaml", "--format=json", str(tmp_path / "in")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # some of the files are damaged
    assert '"n_new": ' in done.stdout
