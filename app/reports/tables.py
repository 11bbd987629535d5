"""The tables of the reports: their names, columns and types, whoever makes or reads them."""

from __future__ import annotations

import pyarrow as pa

FORMAT_VERSION = 1


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()

_LIFE_TIMES = {
    "kind": TEXT, "status": TEXT, "n_attempts": WHOLE, "n_measured": WHOLE, "mean_ms": REAL, "median_ms": REAL,
    "p95_ms": REAL, "max_ms": WHOLE, "stddev_ms": REAL,
}  # fmt: skip

LIFE_TIMES, QUEUING, STRAGGLERS = "life-times", "queuing", "stragglers"

REPORTS: dict[str, dict[str, pa.Schema]] = {
    LIFE_TIMES: {
        "by_job": _table(job_id=TEXT, job_name=TEXT, user=TEXT, **_LIFE_TIMES),
        "by_user": _table(user=TEXT, n_jobs=WHOLE, **_LIFE_TIMES),
    },
    QUEUING: {
        "by_job": _table(
            job_id=TEXT, job_name=TEXT, user=TEXT, start_ms=WHOLE, end_ms=WHOLE, n_added=WHOLE, n_fetched=WHOLE,
            added_bytes=WHOLE, fetched_bytes=WHOLE, left_bytes=WHOLE, peak_bytes=WHOLE, peak_ms=WHOLE, knowledge=TEXT,
        ),
        "by_job_and_window": _table(
            job_id=TEXT, window_ms=WHOLE, added_bytes=WHOLE, fetched_bytes=WHOLE, released_bytes=WHOLE,
            queued_bytes=WHOLE, peak_bytes=WHOLE, knowledge=TEXT,
        ),
        "of_cluster": _table(
            window_ms=WHOLE, added_bytes=WHOLE, fetched_bytes=WHOLE, released_bytes=WHOLE, queued_low_bytes=WHOLE,
            queued_high_bytes=WHOLE, n_jobs_waiting=WHOLE, n_jobs_unknown=WHOLE,
        ),
    },
    STRAGGLERS: {
        "hosts": _table(
            host=TEXT, n_attempts=WHOLE, n_jobs=WHOLE, n_stragglers=WHOLE, straggler_ratio=REAL, median_ratio=REAL,
            low_ratio=REAL, p90_ratio=REAL, lost_ms=REAL,
        ),
        "attempts": _table(
            attempt_id=TEXT, job_id=TEXT, job_name=TEXT, user=TEXT, task_id=TEXT, kind=TEXT, host=TEXT, status=TEXT,
            end_ms=WHOLE, input_bytes=WHOLE, basis=TEXT, period_ms=WHOLE, expected_ms=REAL, ratio=REAL, lost_ms=REAL,
        ),
    },
}  # fmt: skip
"""By report: its tables. What the columns mean stands at the transforms that fill them (spark_jobs.reports)."""
