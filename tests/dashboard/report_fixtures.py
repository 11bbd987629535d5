"""Reports as the job leaves them, with hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from app.reports.folder import LATEST, RUNS, latest_text, run_name, write_tables
from app.reports.tables import LIFE_TIMES, QUEUING, REPORTS, STRAGGLERS
from tests.dashboard.query_fixtures import HOSTILE

T0_MS = 1_700_000_000_000

Rows = dict[str, list[dict[str, Any]]]


def straggler(n: int, **changes: Any) -> dict[str, Any]:
    """A straggling attempt."""
    name = f"1700000000000_0001_m_{n:06d}"
    usual = {
        "attempt_id": f"attempt_{name}_0", "job_id": "job_1700000000000_0001", "job_name": "count", "user": "ada",
        "task_id": f"task_{name}", "kind": "MAP", "host": f"node{n}", "status": "SUCCEEDED", "end_ms": T0_MS,
        "input_bytes": 1 << 27, "basis": "input", "period_ms": 90_000 - n, "expected_ms": 9_000.5, "ratio": 10.0 - n,
        "lost_ms": 81_000.0,
    }  # fmt: skip
    return usual | changes


def host(name: str, median_ratio: float) -> dict[str, Any]:
    """A host of the ranking."""
    return {
        "host": name, "n_attempts": 40, "n_jobs": 3, "n_stragglers": 4, "straggler_ratio": 0.1,
        "median_ratio": median_ratio, "low_ratio": median_ratio - 0.1, "p90_ratio": median_ratio + 0.5, "lost_ms": 5e6,
    }  # fmt: skip


def life_time(user: str | None, kind: str, status: str) -> dict[str, Any]:
    """Of the attempts of a user, and of one job."""
    known = status == "SUCCEEDED"
    return {
        "job_id": "job_1700000000000_0001", "job_name": HOSTILE, "user": user, "n_jobs": 2, "kind": kind,
        "status": status, "n_attempts": 12, "n_measured": 12 if known else 0, "mean_ms": 61_000.4 if known else None,
        "median_ms": 60_000.0 if known else None, "p95_ms": 90_000.0 if known else None,
        "max_ms": 95_000 if known else None, "stddev_ms": 3_000.0 if known else None,
    }  # fmt: skip


def queued(n: int, low: int, high: int) -> dict[str, Any]:
    """The n-th window of the cluster."""
    return {
        "window_ms": T0_MS + n * 60_000, "added_bytes": 10, "fetched_bytes": 5, "released_bytes": 0,
        "queued_low_bytes": low, "queued_high_bytes": high, "n_jobs_waiting": 2, "n_jobs_unknown": 1,
    }  # fmt: skip


def queue_of_job(job: int, peak: int | None, knowledge: str) -> dict[str, Any]:
    """A job's row of the report on queued data."""
    return {
        "job_id": f"job_1700000000000_{job:04d}", "job_name": HOSTILE, "user": "ada", "start_ms": T0_MS,
        "end_ms": None, "n_added": 3, "n_fetched": 2, "added_bytes": 4 << 20, "fetched_bytes": 1 << 20,
        "left_bytes": 3 << 20, "peak_bytes": peak, "peak_ms": None if peak is None else T0_MS, "knowledge": knowledge,
    }  # fmt: skip


REPORT_ROWS: dict[str, Rows] = {
    STRAGGLERS: {
        "attempts": [
            straggler(0, host=HOSTILE, job_name=HOSTILE),
            straggler(1, status="KILLED", input_bytes=None, basis="period", user=None),
        ],
        "hosts": [host(HOSTILE, 1.9), host("node1", 1.1), host("node2", 0.9)],
    },
    LIFE_TIMES: {
        "by_job": [life_time("ada", "MAP", "SUCCEEDED"), life_time(None, "REDUCE", "FAILED")],
        "by_user": [life_time("ada", "MAP", "SUCCEEDED"), life_time(HOSTILE, "MAP", "KILLED")],
    },
    QUEUING: {
        "of_cluster": [queued(0, 1 << 20, 1 << 20), queued(2, 3 << 20, 5 << 20), queued(9, 0, 0)],
        "by_job_and_window": [],
        "by_job": [queue_of_job(1, 5 << 20, "complete"), queue_of_job(2, None, "arrivals missing")],
    },
}


def write_report(root: Path, name: str, rows: Rows, made_ms: int = T0_MS, **summary: Any) -> Path:
    """A run of a report, the latest; returns its folder."""
    run = run_name(made_ms, "0123abcd")
    folder = root / name / RUNS / run
    tables = {
        table: pa.table({column: [row.get(column) for row in rows[table]] for column in schema.names}, schema)
        for table, schema in REPORTS[name].items()
    }
    told = {"made_ms": made_ms, "store": "hdfs:///events", "from_ms": None, "to_ms": None, "options": {}, "figures": {}}
    write_tables(folder, name, tables, told | summary)
    (root / name / LATEST).write_text(latest_text(run), encoding="utf-8")
    return folder
