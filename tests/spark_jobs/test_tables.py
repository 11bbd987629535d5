"""Tables of the jobs on Spark, within 80 columns."""

from __future__ import annotations

import pytest

from spark_jobs.event_store import job as store_job
from spark_jobs.heuristics.jobs import print_jobs
from spark_jobs.ingest.report import Count, FileRead, IngestReport
from tests.terminals import LONG_HOST, LONG_JOB, LONG_USER, fitting, lines_of, pipe, terminal


def test_wasteful_jobs() -> None:
    row = {
        "job_id": "job_1700000000000_0123456", "job_name": LONG_JOB, "user": LONG_USER, "queue": "root.production.etl",
        "status": "SUCCEEDED", "severity": "CRITICAL", "heuristics": "mapper-memory, reducer-time, shuffle-sort",
        "end_ms": 1, "n_unmeasured": 1, "held_gib_h": 123_456.7, "wasted_gib_h": 12_345.6, "lost_h": 1_234.5,
    }  # fmt: skip
    console, piped = terminal(), pipe()
    print_jobs(console, [row] * 3, 10)
    lines = fitting(console)
    assert sum("job_1700000000000_0123456" in line and "12,345.60" in line for line in lines) == 3
    print_jobs(piped, [row], 10)
    assert any(LONG_JOB[:80] in line and LONG_USER in line for line in lines_of(piped))


def test_what_was_ingested() -> None:
    place = f"hdfs://nn:8020/logs/{LONG_HOST}/container_1700000000000_0123456_01_000001/syslog"
    report = IngestReport(
        read=(Count("container_log", 1_234_567, n_bytes=2**41),),
        skipped=(Count("container_log: it is empty", 12, (place,) * 3),),
        events={"AttemptCounters": 1_234_567_890},
        problems=(Count("container_log: bad_line", 12, (place,) * 3, texts=("expected a time of Hadoop's form",) * 3),),
        files=(FileRead(place, "container_log", 12, 0, "none of its lines tells anything that a query can use"),) * 3,
    )
    console = terminal()
    report.print_to(console)
    fitting(console)


def test_what_a_store_has(monkeypatch: pytest.MonkeyPatch) -> None:
    console = terminal()
    monkeypatch.setattr(store_job, "table_console", lambda: console)
    found = {"n_events": 10**10, "n_files": 10**5, "n_bytes": 2**45, "first_ms": 0, "last_ms": 1_800_000_000_000}
    told = {**found, "url": "file:/s", "n_dates": 3, "version": 7, "types": {"AttemptCountersOfSomething": found}}
    store_job._show(told)
    *lines, _sentence = lines_of(console)  # which the terminal itself wraps
    assert max(map(len, lines)) <= console.width
    assert any("10,000,000,000" in line and "2027-01-15" in line for line in lines)
