"""Jobs read from an event log, as an operator's process and the demo write it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.event_log import EventLog, EventLogReader
from collectors.schema import load_event_types
from dashboard.jobs.list import QUIET, QUIET_MS, RUNNING
from dashboard.jobs.reading import (
    LOOK_BACK_MS,
    SLACK_MS,
    n_failed_attempts,
    read_attempts_on,
    read_job,
    read_jobs,
)
from engine.events import EventBatch

EPOCH = "0" * 16
T0_MS = 1_700_000_000_000


def log_of(folder: Path, *steps: list[dict[str, Any]]) -> EventLogReader:
    """An event log with a file per step."""
    log = EventLog(folder, durable=False)
    log.begin(EPOCH, 0)
    n = 0
    for number, rows in enumerate(steps, start=1):
        numbered = [{"event_id": f"e{n + place}", **row} for place, row in enumerate(rows)]
        n += len(rows)
        log.write(number, EventBatch.from_rows(numbered, load_event_types()).sorted(), 0)
    log.close()
    return EventLogReader(folder, lambda: {EPOCH: len(steps)})


def at(t_ms: int, event_type: str, job: str, **other: Any) -> dict[str, Any]:
    return {"type": event_type, "t_lo_ms": T0_MS + t_ms, "job_id": job, **other}


def attempt(t_ms: int, event_type: str, job: str, task: int = 0, **other: Any) -> dict[str, Any]:
    name = f"{job.removeprefix('job_')}_m_{task:06}"
    ids = {"task_id": f"task_{name}", "attempt_id": f"attempt_{name}_0"}
    return at(t_ms, event_type, job, **ids, **other)


STEPS = (
    [
        at(0, "JobStart", "job_1_1", job_name="a", user="u"),
        attempt(100, "MapStart", "job_1_1", host="node1"),
        attempt(5_000, "MapEnd", "job_1_1", host="node1", status="FAILED", period_ms=4_900),
        attempt(5_000, "DataIO", "job_1_1", size_bytes=100),
    ],
    [
        at(6_000, "JobEnd", "job_1_1", job_name="a", status="FAILED", period_ms=6_000),
        attempt(6_500, "MapEnd", "job_1_1", 1, host="node2", status="KILLED", period_ms=100),
        at(7_000, "JobStart", "job_1_2", job_name="b"),
        attempt(8_000, "MapStart", "job_1_2", host="node1"),
        at(8_500, "DataPull", "job_1_2", source_host="node1", bytes=7, period_ms=1_000, attempt_id="attempt_1_2_r_0_0"),
    ],
)


def test_jobs_and_their_failures(tmp_path: Path) -> None:
    log = log_of(tmp_path, *STEPS)
    known = read_jobs(log)
    jobs = known.table
    assert (known.known_until_ms, known.from_ms) == (T0_MS + 8_500, None)
    assert jobs[["job_id", "state"]].to_numpy().tolist() == [["job_1_2", RUNNING], ["job_1_1", "FAILED"]]
    assert jobs["seen_ms"].tolist() == [T0_MS + 8_500, T0_MS + 6_000]
    assert n_failed_attempts(log, jobs) == [0, 1]
    assert n_failed_attempts(log, jobs.iloc[:0]) == []


def test_one_job(tmp_path: Path) -> None:
    """With what came after its end, and nothing of other jobs."""
    found = read_job(log_of(tmp_path, *STEPS), "job_1_1")
    assert found is not None
    assert (found.is_running, found.known_until_ms) == (False, T0_MS + 6_000)
    assert found.attempts["status"].tolist() == ["FAILED", "KILLED"]
    assert found.changes.column("size_bytes").to_pylist() == [100]
    assert len(found.pulls) == 0
    assert found.span_ms == (T0_MS, T0_MS + 6_500)


def test_a_running_job_is_known_up_to_the_end_of_the_log(tmp_path: Path) -> None:
    later = [*STEPS, [at(60_000, "JobStart", "job_1_3")]]
    found = read_job(log_of(tmp_path, *later), "job_1_2")
    assert found is not None
    assert (found.is_running, found.known_until_ms) == (True, T0_MS + 60_000)
    assert found.attempts["status"].tolist() == [RUNNING]
    assert found.attempts["duration_ms"].tolist() == [52_000]
    assert found.pulls["bytes"].tolist() == [7]


def test_a_job_that_fell_silent(tmp_path: Path) -> None:
    """It is known up to its last sign of life, not up to the end of the log."""
    later = [*STEPS, [at(8_501 + QUIET_MS, "JobStart", "job_1_3")]]
    found = read_job(log_of(tmp_path, *later), "job_1_2")
    assert found is not None
    assert (found.job["state"], found.known_until_ms) == (QUIET, T0_MS + 8_500)
    assert found.attempts["status"].tolist() == ["NO END SEEN"]


@pytest.mark.parametrize("job_id", ["job_1_9", "", "<script>", "job_1_1\x00"])
def test_no_such_job(tmp_path: Path, job_id: str) -> None:
    assert read_job(log_of(tmp_path, *STEPS), job_id) is None


def test_no_log(tmp_path: Path) -> None:
    nothing = EventLogReader(tmp_path / "absent", dict)
    known = read_jobs(nothing)
    assert (len(known.table), known.known_until_ms) == (0, 0)
    assert "state" in known.table
    assert read_job(nothing, "job_1_1") is None
    assert len(read_attempts_on(nothing, "node1", 0, 1)) == 0


def test_attempts_on_a_host(tmp_path: Path) -> None:
    """Those that touch the span: one that ended in it, one that still runs."""
    log = log_of(tmp_path, *STEPS)

    def on(host: str, from_ms: int, to_ms: int) -> list[str]:
        return read_attempts_on(log, host, T0_MS + from_ms, T0_MS + to_ms)["attempt_id"].tolist()

    first, second = "attempt_1_1_m_000000_0", "attempt_1_2_m_000000_0"
    assert on("node1", 0, 9_000) == [first, second]
    assert on("node1", 0, 99) == []
    assert on("node1", 5_000, 5_000) == [first]
    assert on("node1", 5_001, 7_999) == []
    assert on("node1", 10_000, 11_000) == [second]
    assert on("node1", 8_000 + LOOK_BACK_MS, 8_001 + LOOK_BACK_MS) == [second]
    assert on("node2", 0, 9_000) == ["attempt_1_1_m_000001_0"]
    assert on("node3", 0, 9_000) == []


def test_attempts_on_a_host_of_long_ago_do_not_read_up_to_the_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ms = 3_600_000
    log = log_of(
        tmp_path,
        [attempt(0, "MapStart", "job_1_1", 0, host="node1")],
        [attempt(20 * hour_ms, "MapEnd", "job_1_1", 0, host="node1", status="SUCCEEDED", period_ms=20 * hour_ms)],
        [attempt(30 * hour_ms, "MapStart", "job_1_1", 1, host="node1")],  # never ends
        [attempt(300 * hour_ms, "MapEnd", "job_1_1", 1, host="node1", status="FAILED", period_ms=1)],
    )
    spans: list[tuple[int, int]] = []
    read = log.read

    def watched(**wanted: Any) -> Any:
        spans.append((wanted["from_ms"] - T0_MS, wanted["to_ms"] - T0_MS))
        return read(**wanted)

    monkeypatch.setattr(log, "read", watched)

    def on(from_hour: int, to_hour: int) -> list[tuple[str, str]]:
        spans.clear()
        table = read_attempts_on(log, "node1", T0_MS + from_hour * hour_ms, T0_MS + to_hour * hour_ms)
        return list(zip(table["attempt_id"].str[-4:], table["status"], strict=True))

    assert on(1, 2) == [("00_0", "SUCCEEDED")]
    assert max(to_ms for _, to_ms in spans) < 26 * hour_ms  # its end is found, no later slice is read
    assert max(to_ms - from_ms for from_ms, to_ms in spans) < 6 * hour_ms
    assert on(21, 22) == []
    assert max(to_ms for _, to_ms in spans) == 22 * hour_ms
    assert on(31, 32) == [("01_0", "RUNNING")]
    assert max(to_ms for _, to_ms in spans) == (32 + 24) * hour_ms
    assert on(280, 281) == []
    assert on(300, 301) == [("01_0", "FAILED")]
    assert on(0, 10**9) == [("00_0", "SUCCEEDED"), ("01_0", "FAILED")]
    assert len(spans) <= 65
    assert all(after[0] == before[1] + 1 for before, after in pairwise(spans))


def test_slack_covers_clocks_that_differ(tmp_path: Path) -> None:
    """An attempt that a host's clock puts before its job's start belongs to it."""
    early = attempt(-SLACK_MS + 1, "MapStart", "job_1_1", 7, host="node9")
    found = read_job(log_of(tmp_path, [*STEPS[0], early], STEPS[1]), "job_1_1")
    assert found is not None
    assert "node9" in found.attempts["host"].tolist()
