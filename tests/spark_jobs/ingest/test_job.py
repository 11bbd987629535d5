"""Ingest: the same events as live collectors give, once, whatever the files' order; bad files cost themselves only."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rrdtool
import yaml
from pyspark.sql import SparkSession

from app.config import load_settings
from collectors.base import Collector
from collectors.file_kinds import RRD
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.metrics.load_balance import LoadDeriver
from deploy.minicluster.recording import packing
from engine.events import EventBatch
from spark_jobs.event_store import EventStore
from spark_jobs.ingest.files import list_files
from spark_jobs.ingest.job import ingest, main, options_of
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.session import SparkJobError
from tests.collectors import histories
from tests.collectors.history.test_hadoop1_history import HISTORY
from tests.collectors.rrds import archived, each_time_once, rrdtool_or_skip, write_rrd
from tests.conftest import RECORDING, SHARED

COMPARED = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source_seq", "clock_id", "host", "value", "val", "n_missing",
            "attempt_id", "status", "period_ms", "size_bytes", "bytes", "source_host", "input_bytes")  # fmt: skip


IN_BULK_ALONE = frozenset({"AttemptCounters", "JobCounters", "JobSettings"})


def live_events(recording: Path) -> dict[str, dict[str, Any]]:
    """By id what the live collectors give, poll by poll; of several sources' the first one's."""
    manifest = yaml.safe_load((recording / "manifest.yaml").read_text(encoding="utf-8"))
    load = LoadDeriver()
    collectors: list[Collector] = [
        JobHistoryCollector(JobHistoryOptions((recording / "history",))),
        ContainerLogCollector(ContainerLogOptions(recording / "userlogs")),
        DaemonLogCollector(DaemonLogOptions(recording / "daemons")),
        GangliaRrdCollector(GangliaRrdOptions(recording / "rrds")),
    ]
    batches: list[list[EventBatch]] = [[] for _ in collectors]
    for now_ms in range(manifest["started_ms"], manifest["ended_ms"] + 700_000, 20_000):
        for collector, given in zip(collectors, batches, strict=True):
            polled = collector.poll(now_ms)
            given += [polled.events, *(finished.events for finished in polled.finished)]
            if collector.name == "ganglia_rrd":
                given.append(load.derive(polled.events, polled.watermark_ms))
    found: dict[str, dict[str, Any]] = {}
    for given in batches:
        for row in EventBatch.concat(given).rows():
            found.setdefault(row["event_id"], row)
    return found


@pytest.mark.usefixtures("shipped_expressions")
def test_parity_with_live_collectors(spark: SparkSession, tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    packing.unpack(RECORDING, recording)
    store = EventStore.create(spark, str(tmp_path / "store"))
    report = ingest(spark, store, [str(recording)], IngestOptions())
    expected = live_events(recording)
    rows = [row.asDict() for row in store.read(columns=COMPARED).collect()]
    stored = {row["event_id"]: row for row in rows if row["type"] not in IN_BULK_ALONE}
    assert stored.keys() == expected.keys()
    for event_id, row in expected.items():
        assert {name: stored[event_id][name] for name in COMPARED} == {name: row.get(name) for name in COMPARED}
    assert (report.exit_code, report.n_new, report.n_unreadable) == (0, len(rows), 0)
    assert {count.name: count.n for count in report.read}["job history (.jhist)"] == 13
    assert report.problems == ()

    # Once more, from copies, one cluster's folder after the other, in another order: nothing is new.
    shutil.copytree(recording / "history", tmp_path / "b" / "z-history")
    shutil.copytree(recording / "userlogs", tmp_path / "b" / "a" / "userlogs")
    shutil.copytree(recording / "rrds", tmp_path / "b" / "rrds")
    version = store.version
    again = ingest(spark, store, [str(tmp_path / "b"), f"file:{recording}/daemons"], IngestOptions())
    assert (again.n_new, again.n_replaced, again.n_duplicate) == (0, 0, sum(again.events.values()))
    assert again.events == report.events
    assert store.version == version  # not even a commit


def write_bad_files(root: Path) -> None:
    """Files of all kinds, good ones among them."""
    job = "job_1700000000000_0007"
    (root / "done" / "more").mkdir(parents=True)
    whole = histories.whole_history()
    (root / "done" / f"{job}-a+b%2F{{c}}[d] e.jhist").write_bytes(whole)  # wild cards of Hadoop, in a name
    (root / "done" / "more" / f"{job}-copy.jhist").write_bytes(whole)
    (root / "done" / "more" / f"{job}-other.jhist").write_bytes(whole[: len(whole) // 2])
    (root / "done" / "binary.jhist").write_bytes(b"Avro-Binary\n\x00")
    (root / "done" / "empty.jhist").write_bytes(b"")
    (root / "done" / "no.gz").write_bytes(b"no gzip")
    (root / "done" / "h1.gz").write_bytes(gzip.compress(HISTORY))
    (root / "done" / "large.txt").write_bytes(b"x" * 200_000)
    (root / "done" / "_hidden").write_bytes(HISTORY)
    write_rrd(root / "rrds" / "c" / "h1" / "cpu_user.rrd", [1.0, 90.0, 2.0])
    write_rrd(root / "rrds" / "c" / "h2" / "cpu_user.rrd", [3.0, 80.0, 4.0])
    (root / "rrds" / "c" / "h3").mkdir()
    (root / "rrds" / "c" / "h3" / "cpu_user.rrd").write_bytes(b"RRD\x000003")


def test_bad_files_stop_nothing_and_are_told(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "in"
    write_bad_files(root)
    store = EventStore.create(spark, str(tmp_path / "store"))
    report = ingest(spark, store, [str(root)], replace(IngestOptions(), max_bytes=100_000))
    assert {c.name: c.n for c in report.read} == {
        "Ganglia RRD": 2, "job history (.jhist)": 3, "job history (Hadoop 1)": 1,
    }  # fmt: skip
    assert {c.name: (c.n, [Path(place).name for place in c.places]) for c in report.skipped} == {
        "Ganglia RRD: unreadable": (1, ["cpu_user.rrd"]),
        "job history (.jhist): unreadable": (1, ["binary.jhist"]),
        "empty": (1, ["empty.jhist"]),
        "hidden: its name begins with a dot or an underscore": (1, ["_hidden"]),
        "larger than 100,000 bytes (--max-file-size)": (1, ["large.txt"]),
        "unreadable": (1, ["no.gz"]),
    }
    assert (report.n_unreadable, report.exit_code) == (3, 1)
    assert {"job_history: second_history", "job_history: avro_binary", "ganglia_rrd: not_rrd"} <= {
        c.name for c in report.problems
    }
    assert [(Path(file.place).name, file.n_events > 0) for file in report.files if file.kind == RRD] == [
        ("cpu_user.rrd", True), ("cpu_user.rrd", True),
    ]  # fmt: skip
    assert sum(count.n for count in report.problems) == len(report.problem_list) == report.n_problems
    assert all(count.texts for count in report.problems)
    types = Counter(row["type"] for row in store.read(columns=["type"]).collect())
    assert types == report.events
    assert types["JobStart"] == types["JobEnd"] == 2
    assert types["LoadStd"] == 3  # over both hosts, though they were read apart
    assert {row["n_hosts"] for row in store.read(types=["LoadStd"], columns=["n_hosts"]).collect()} == {2}


def test_mistakes(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SparkJobError, match="not there"):
        list_files(spark, [str(tmp_path / "absent")])
    with pytest.raises(SparkJobError, match="nosuchscheme"):
        list_files(spark, ["nosuchscheme://host/x"])
    config = str(Path(__file__).parents[3] / "config.yaml")
    for option, said in (("--time-zone=Mars/Base", "unknown time zone"), ("--layout={nothing}", "unknown place")):
        with pytest.raises(SparkJobError, match=said):
            main([str(tmp_path), f"--config={config}", option])
    assert options_of(load_settings(Path(config))).ranks["job_history"] == 0


# ---- all real files --------------------------------------------------------------------------------------------


@pytest.mark.external
def test_all_real_files_agree_with_an_independent_count(spark: SparkSession, tmp_path: Path) -> None:
    rrdtool_or_skip()  # before what takes long
    data = SHARED / "data"
    store = EventStore.create(spark, str(tmp_path / "store"), precedence=("job_history", "rumen_trace"))
    report = ingest(spark, store, [str(data)], IngestOptions())
    rows = [row.asDict() for row in store.read().collect()]
    expected = _lifecycle_by_text(data)
    jobs = {"JobStart", "JobEnd", "MapStart", "MapEnd", "Mapper", "ReducerStart", "ReducerEnd", "Reducer"}
    found = {(row["type"], row["attempt_id"] or row["job_id"]) for row in rows if row["type"] in jobs}
    assert found == expected
    logs = "".join(path.read_text() for path in (data / "logs" / "loghub_full").rglob("*.log"))
    read = re.findall(r"Read (\d+) bytes from map-output for (attempt_\w+)", logs)
    pulls = [(str(row["bytes"]), row["map_attempt_id"]) for row in rows if row["type"] == "DataPull"]
    assert sorted(pulls) == sorted(read)
    jhist = "".join(path.read_text() for path in _counted_histories(data))
    plus = re.findall(r'"MAP_ATTEMPT_FINISHED".*?"MAP_OUTPUT_MATERIALIZED_BYTES"', jhist)
    assert sum(row["type"] == "DataIO" for row in rows) == len(plus) + len(read)
    _compare_metrics(data / "ganglia" / "rrd" / "rrds" / "unspecified", rows, IngestOptions().metrics)
    n_files = sum(len(files) for _, _, files in os.walk(data))
    assert sum(count.n for count in (*report.read, *report.skipped)) == n_files
    assert report.exit_code == 0
    assert {count.name: count.n for count in report.problems} == {
        "ganglia_rrd: unknown_samples": 24,
        "job_history: clock_skew": 23,
        "job_client_log: ambiguous": 2,  # two clients at once wrote to these
        "job_client_log: time_zone": 100,  # of a cluster in Utah, read as UTC
        "job_history: name_disagrees": 1,
        "job_history: second_history": 1,
        "rumen_trace: second_history": 4,
        "rumen_trace: unfinished": 1,
    }


def _counted_histories(data: Path) -> list[Path]:
    """The .jhist files that count: of the two of one job the one with 2 reducers."""
    return [path for path in sorted((data / "jhist").rglob("*.jhist")) if path.parent.name != "hraven"]


def _lifecycle_by_text(data: Path) -> set[tuple[str, str]]:
    """(type, job or attempt) of all jobs, found in the files as text and as plain JSON."""
    found: set[tuple[str, str]] = set()
    for path in _counted_histories(data):
        for record in re.findall(r'^ ?\{"type":"(?!record).*$', path.read_text(), re.MULTILINE):
            kind, (told,) = json.loads(record)["type"], json.loads(record)["event"].values()
            if kind == "JOB_INITED":
                found.add(("JobStart", told["jobid"]))
            elif kind in ("JOB_FINISHED", "JOB_FAILED", "JOB_KILLED"):
                found.add(("JobEnd", told["jobid"]))
            elif re.match(r"(MAP|REDUCE)_ATTEMPT_", kind):
                found |= _attempt_types(told["attemptId"], ends=not kind.endswith("STARTED"))
    for path in (data / "jobhistory1").iterdir():
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        found |= {("JobStart", job) for job in re.findall(r'^Job JOBID="(\w+)" LAUNCH_TIME', text, re.MULTILINE)}
        found |= {("JobEnd", job) for job in re.findall(r'^Job JOBID="(\w+)" FINISH_TIME', text, re.MULTILINE)}
        told = r'^\w+Attempt TASK_TYPE="(?:MAP|REDUCE)" TASKID="\w+" TASK_ATTEMPT_ID="(\w+)" (START_TIME|TASK_STATUS)'
        for attempt, what in re.findall(told, text, re.MULTILINE):
            found |= _attempt_types(attempt, ends=what == "TASK_STATUS")
    traces = [path for path in (data / "traces").iterdir() if re.search(r"trace|rumen-jh", path.name)]
    for path in traces:
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        # The zombie trace tells of the same four jobs as the sample logs and their trace, which tell more of them.
        at = 0
        while path.name != "rumen_zombie_input-trace.json" and text[at:].strip():
            at += len(text[at:]) - len(text[at:].lstrip())
            told_job, at = json.JSONDecoder().raw_decode(text, at)
            if "jobID" not in told_job:
                break  # a topology
            # SLS's trace has no outcome or launch that could be told.
            found |= {("JobStart", told_job["jobID"])} if told_job.get("launchTime", -1) > 0 else set()
            found |= {("JobEnd", told_job["jobID"])} if told_job.get("outcome") else set()
            for task in told_job["mapTasks"] + told_job["reduceTasks"]:
                for attempt in task["attempts"]:
                    found |= _attempt_types(attempt["attemptID"], ends=True) | _attempt_types(
                        attempt["attemptID"], ends=False
                    )
    logs = "".join(path.read_text() for path in (data / "logs" / "loghub_full").rglob("*.log"))
    for attempt in re.findall(r"Task '(attempt_\w+)' done", logs):
        types = _attempt_types(attempt, ends=True) | _attempt_types(attempt, ends=False)
        found |= {(name, subject) for name, subject in types if name not in ("Mapper", "Reducer")}
    return found


def _attempt_types(attempt: str, *, ends: bool) -> set[tuple[str, str]]:
    is_map = "_m_" in attempt
    prefix = "Map" if is_map else "Reducer"
    names = (f"{prefix}End", "Mapper" if is_map else "Reducer") if ends else (f"{prefix}Start",)
    return {(name, attempt) for name in names}


def _compare_metrics(root: Path, rows: list[dict[str, Any]], metrics: tuple[str, ...]) -> None:
    """Every sample of every wanted metric, as rrdtool's command fetches it: of coarser archives where none is finer."""
    found: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    for row in rows:
        if row["type"] == "Metric":
            times = row["t_hi_ms"] // 1000, row["resolution_ms"] // 1000
            found.setdefault((row["host"], row["name"]), {})[times] = row["value"]
    wanted = {(path.parent.name, path.stem): path for path in root.glob("[!_]*/*.rrd") if path.stem in metrics}
    assert found.keys() == wanted.keys()
    for key, path in wanted.items():
        told = rrdtool.info(str(path))
        archives = [(told[f"rra[{n}].pdp_per_row"], told[f"rra[{n}].rows"]) for n in range(5)]
        assert found[key] == pytest.approx(each_time_once(archived(path, archives, told["last_update"])))
    assert {step_s for times in found.values() for _, step_s in times} > {15, 360}
