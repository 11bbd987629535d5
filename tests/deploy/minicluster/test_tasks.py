"""The streaming mapper and reducer, run as Hadoop runs them."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from deploy.minicluster.workload import jobs

TASKS = Path(jobs.__file__).with_name("tasks")
ENVIRONMENT = {**os.environ, "mapreduce_task_attempt_id": "attempt_1_0001_m_000002_0", "NM_HOST": "node4"}


def run(script: str, text: str, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TASKS / script), *arguments]
    environment = ENVIRONMENT | extra
    return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)


def test_mapper_emits_what_its_line_says() -> None:
    task = {"n_records": 2000, "record_bytes": 30, "hot_key": "hot", "hot_share": 0.6, "n_cold_keys": 10, "seed": 4}
    done = run("emit.py", json.dumps(task) + "\n")
    assert done.returncode == 0
    pairs = [line.split("\t") for line in done.stdout.splitlines()]
    counts = Counter(key for key, _ in pairs)
    assert len(pairs) == 2000
    assert 1100 < counts["hot"] < 1300
    assert len(counts) == 11
    assert {len(value) for _, value in pairs} == {30}


def test_only_the_first_attempt_fails_on_purpose() -> None:
    line = json.dumps({"n_records": 1, "fail_first": True})
    done = run("emit.py", line, mapreduce_task_attempt_id="attempt_1_0001_m_000002_1")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


def test_attempts_fail_on_one_host() -> None:
    line = json.dumps({"n_records": 1, "fails_on": "node2"})
    failed, done = (run("emit.py", line, NM_HOST=host) for host in ("node2", "node1"))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


def test_stragglers_tell_who_they_are(tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    run("emit.py", json.dumps({"n_records": 1, "truth": str(truth)}))
    run("consume.py", "hot\tx\nhot\ty\ncold\tz\n", "0", "0", "hot", str(truth))
    run("consume.py", "cold\tz\n", "0", "0", "hot", str(truth))
    mapper, reducer = [json.loads(line) for line in truth.read_text().splitlines()]
    assert (mapper["attempt_id"], mapper["host"]) == ("attempt_1_0001_m_000002_0", "node4")
    assert reducer["n_records"] == 3
    assert mapper["from_ms"] <= mapper["to_ms"] <= reducer["to_ms"]


def test_reducer_counts_its_keys() -> None:
    assert run("consume.py", "a\t1\nb\t1\na\t2\n", "0", "0").stdout == "a\t2\nb\t1\n"


def test_every_mapper_has_a_line_of_its_own(tmp_path: Path) -> None:
    for name, build in jobs.CATALOGUE.items():
        job = build(tmp_path)
        assert job.kind == name
        if job.main_class == jobs.STREAMING:
            ((path, content),) = job.inputs
            assert path in job.arguments
            lines = [json.loads(line) for line in content.splitlines()]
            assert all(set(line) <= KNOWN for line in lines)
            assert job.healthy == (job.fault == "")


KNOWN = {
    "hog_first_mib",
    "sleep_s",
    "n_records",
    "record_bytes",
    "hot_key",
    "hot_share",
    "n_cold_keys",
    "seed",
    "fail_first",
    "fails_on",
    "truth",
}


def test_hostile_name_is_one_argument(tmp_path: Path) -> None:
    job = jobs.CATALOGUE["hostile_name"](tmp_path)
    assert f"mapreduce.job.name={jobs.HOSTILE_NAME}" in job.arguments
    assert "<script>" in job.name
