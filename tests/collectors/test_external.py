"""The collectors on real files from elsewhere: nothing crashes, and counts agree with independent ones."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.network.http import Answer
from collectors.rest.documents import (
    DocumentError,
    parse_apps,
    parse_attempt_counters,
    parse_attempts,
    parse_job,
    parse_jobs,
    parse_tasks,
)
from tests.collectors.rrds import rrdtool_rows
from tests.conftest import SHARED

pytestmark = pytest.mark.external

DATA = SHARED / "data"
LATER_MS = 1_790_000_000_000
NEWEST_S = 1_350_135_751
"""Last update of the RRDs."""


def types(batch_types: list[str]) -> dict[str, int]:
    return dict(Counter(batch_types))


@pytest.mark.parametrize(
    "path", sorted((DATA / "jhist").rglob("*.jhist")), ids=lambda p: f"{p.parent.name}/{p.name[:30]}"
)
def test_every_history_agrees_with_a_count_of_its_records(path: Path, tmp_path: Path) -> None:
    (tmp_path / path.name).symlink_to(path)
    polled = JobHistoryCollector(JobHistoryOptions((tmp_path,))).poll(LATER_MS)
    (history,) = polled.finished
    text = path.read_text(encoding="utf-8").split("\n", 2)[2]
    records = Counter(re.findall(r'^ ?\{"type":"([A-Z_]+)"', text, re.MULTILINE))
    found = types(history.events.strings("type").to_pylist())
    n_maps = sum(records[f"MAP_ATTEMPT_{how}"] for how in ("FINISHED", "FAILED", "KILLED"))
    n_reducers = sum(records[f"REDUCE_ATTEMPT_{how}"] for how in ("FINISHED", "FAILED", "KILLED"))
    expected = {
        "JobStart": records["JOB_INITED"],
        "JobEnd": sum(records[f"JOB_{how}"] for how in ("FINISHED", "FAILED", "KILLED", "ERROR")),
        "MapStart": records["MAP_ATTEMPT_STARTED"],
        "MapEnd": n_maps,
        "Mapper": n_maps,
        "ReducerStart": records["REDUCE_ATTEMPT_STARTED"],
        "ReducerEnd": n_reducers,
        "Reducer": n_reducers,
        "DataIO": len(re.findall(r'"MAP_ATTEMPT_FINISHED".*?"MAP_OUTPUT_MATERIALIZED_BYTES"', text)),
    }
    assert found == {name: n for name, n in expected.items() if n}
    # The only thing wrong with these files is a name without the job's id.
    assert [p.kind for p in polled.problems] == (["name_disagrees"] if "2.4.0" in path.name else [])


def test_all_histories_at_once() -> None:
    polled = JobHistoryCollector(JobHistoryOptions((DATA / "jhist",))).poll(LATER_MS)
    assert {f.job_id: len(f.events) for f in polled.finished} == {
        "job_1329348432655_0001": 48,  # of the two histories of this job the one with 2 reducers
        "job_1400204860297_0001": 14,
        "job_1526555215992_0001": 9,
    }
    assert Counter(p.kind for p in polled.problems) == {"second_history": 1, "name_disagrees": 1}


def test_a_failed_job() -> None:
    polled = JobHistoryCollector(JobHistoryOptions((DATA / "jhist",))).poll(LATER_MS)
    (failed,) = [f.events for f in polled.finished if f.job_id == "job_1400204860297_0001"]
    rows = list(failed.rows())
    assert [row["status"] for row in rows if row["type"] == "MapEnd"] == ["FAILED"] * 4
    (end,) = [row for row in rows if row["type"] == "JobEnd"]
    assert (end["status"], end["queue"], end["job_name"]) == ("FAILED", "unfunded", "Fail job")
    assert end["period_ms"] == 1400205004196 - 1400204982867


@pytest.mark.parametrize("root", [DATA, DATA / "jobhistory1", DATA / "logs", DATA / "ganglia"])
def test_foreign_folders_yield_no_jobs_and_no_crash(root: Path) -> None:
    polled = JobHistoryCollector(JobHistoryOptions((root,), quiet_ms=0)).poll(LATER_MS)
    assert len(polled.finished) == (3 if root == DATA else 0)


def test_fetches_of_real_reducers() -> None:
    options = ContainerLogOptions(DATA / "logs" / "loghub_full", layout="{application}/{container}.log")
    polled = ContainerLogCollector(options).poll(LATER_MS)
    assert polled.problems == ()
    pulls = [row for row in polled.events.rows() if row["type"] == "DataPull"]
    text = "".join(p.read_text() for p in (DATA / "logs" / "loghub_full").rglob("*.log"))
    read = re.findall(r"Read (\d+) bytes from map-output for (attempt_\w+)", text)
    assert sorted((str(row["bytes"]), row["map_attempt_id"]) for row in pulls) == sorted(read)
    assert len(pulls) == 20
    slow = {row["map_attempt_id"]: row["period_ms"] for row in pulls if row["source_host"].startswith("04DN8IQ")}
    # What the log says each host was occupied for, less what came before and after the read.
    assert sorted(slow.values()) == [9_016, 13_673, 17_235, 24_227, 30_532]
    assert max(row["period_ms"] for row in pulls if not row["source_host"].startswith("04DN8IQ")) < 2_500
    moved = [row["size_bytes"] for row in polled.events.rows() if row["type"] == "DataIO"]
    assert -sum(moved) == sum(int(n) for n, _ in read)


def test_every_log_can_be_read(tmp_path: Path) -> None:
    for i, path in enumerate(sorted((DATA / "logs").rglob("*.*"))):
        if path.is_file():
            folder = tmp_path / f"application_1_{i}" / f"container_1_{i}_01_000002"
            folder.mkdir(parents=True)
            (folder / "syslog").symlink_to(path)
    reader = ContainerLogCollector(ContainerLogOptions(tmp_path, layout="{application}/{container}/{role}"))
    polled = reader.poll(LATER_MS)
    starts = {row["attempt_id"] for row in polled.events.rows() if row["type"] in ("MapEnd", "ReducerEnd")}
    assert starts == {
        "attempt_1445144423722_0022_r_000000_0",
        "attempt_1445175094696_0002_m_000001_1",
        "attempt_1445175094696_0005_r_000000_0",
    }  # neither the master's log nor the clients' consoles prove an attempt
    assert len(reader.poll(LATER_MS).events) == 0


def test_rrds_agree_with_the_command_line_tool() -> None:
    root = DATA / "ganglia" / "rrd" / "rrds"
    now_s = NEWEST_S + 9
    polled = GangliaRrdCollector(GangliaRrdOptions(root, metric_pattern=".*")).poll(now_s * 1000)
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in polled.events.rows():
        found.setdefault((row["host"], row["name"]), {})[row["t_hi_ms"] // 1000] = row["value"]
    for host, metric in [("192.168.0.1", "load_one"), ("192.168.0.10", "cpu_user"), ("121.78.236.134", "bytes_in")]:
        path = root / "unspecified" / host / f"{metric}.rrd"
        start_s = min(found[host, metric]) - 15
        assert found[host, metric] == pytest.approx(rrdtool_rows(path, start_s, now_s))
    assert len({host for host, _ in found}) == 8
    assert sorted(p.place for p in polled.problems if p.kind == "host_vanished") == ["121.78.236.154", "121.78.236.177"]
    gaps = [p.place for p in polled.problems if p.kind == "unknown_samples"]
    assert gaps
    assert all("192.168.0.2/" in place for place in gaps)
    load = LoadDeriver().derive(polled.events, polled.watermark_ms)
    assert load.strings("type").to_pylist().count("LoadStd") > 200


def test_rrds_at_another_depth_are_reported_by_folder() -> None:
    polled = GangliaRrdCollector(GangliaRrdOptions(DATA / "ganglia", metric_pattern=".*")).poll(NEWEST_S * 1000)
    assert len(polled.events) == 0
    assert {p.kind for p in polled.problems} == {"misplaced"}


@pytest.mark.parametrize("path", sorted((DATA / "rest").rglob("*.json")), ids=lambda path: path.name)
def test_every_rest_document_is_read_or_refused_with_a_reason(path: Path) -> None:
    answer = Answer(str(path), 200, "application/json", path.read_bytes(), 0)
    refused = []
    for parse in (parse_apps, parse_jobs, parse_job, parse_tasks, parse_attempts, count_map):
        try:
            parse(answer)
        except DocumentError as error:
            refused.append((error.kind, str(error)))
    assert len(refused) >= 4  # it is at most one of these documents, and none where its ids are of another form
    assert {kind for kind, _ in refused} <= {"bad_document", "not_json"}
    assert all(message for _, message in refused)


def count_map(answer: Answer) -> object:
    return parse_attempt_counters(answer, "MAP")


def test_real_rest_documents() -> None:
    def answer(name: str) -> Answer:
        return Answer(name, 200, "", (DATA / "rest" / name).read_bytes(), 0)

    apps = parse_apps(answer("eagle_mrrunningapp.json"))
    assert [(a.application_id, a.queue, a.am_host) for a in apps] == [
        ("application_1479206441898_30784", "xxx", "host.domain.com"),
        ("application_1479206441898_35341", "yyy", "host.domain.com"),
    ]
    (job,) = parse_jobs(answer("eagle_mrjob_30784.json"))
    assert (job.facts.n_maps, job.facts.n_reduces, job.start_ms, job.finish_ms) == (161, 72, 1479716129967, None)
    tasks = parse_tasks(answer("eagle_mrtasks_30784.json"))  # it begins with a byte order mark
    assert Counter(task.state for task in tasks) == {"RUNNING": 3, "SCHEDULED": 2}
