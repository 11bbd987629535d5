"""Tables of the reports as they are shown: names inert, times in words, the columns that tell most."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from app.durations import format_size
from dashboard.text import inert
from dashboard.times import duration

KINDS = {"MAP": "mapper", "REDUCE": "reducer"}
BASES = {"input": "per byte read", "period": "running time"}
KNOWLEDGE = {
    "complete": "complete",
    "no fetch seen": "at most: no fetch seen",
    "arrivals missing": "unknown: arrivals missing",
    "start not seen": "unknown: start not seen",
}


def straggler_frame(attempts: pa.Table) -> pd.DataFrame:
    """One line per straggling attempt."""
    rows = attempts.to_pylist()
    return pd.DataFrame(
        {
            "Ratio": [row["ratio"] for row in rows],
            "Host": [_text(row["host"]) for row in rows],
            "Kind": [_kind(row["kind"]) for row in rows],
            "Took": [_ms(row["period_ms"]) for row in rows],
            "Expected": [_ms(row["expected_ms"]) for row in rows],
            "Status": [_text(row["status"]) for row in rows],
            "Job": [_text(row["job_name"] or row["job_id"]) for row in rows],
            "User": [_text(row["user"]) for row in rows],
            "Attempt": [_text(row["attempt_id"]) for row in rows],
            "Input": [_bytes(row["input_bytes"]) for row in rows],
            "Compared by": [BASES.get(row["basis"], _text(row["basis"])) for row in rows],
        }
    )


def host_frame(hosts: pa.Table) -> pd.DataFrame:
    """One line per host, the slowest first."""
    rows = hosts.to_pylist()
    return pd.DataFrame(
        {
            "Host": [_text(row["host"]) for row in rows],
            "Median ratio": [row["median_ratio"] for row in rows],
            "Surely at least": [row["low_ratio"] for row in rows],
            "90 % below": [row["p90_ratio"] for row in rows],
            "Attempts": [row["n_attempts"] for row in rows],
            "Jobs": [row["n_jobs"] for row in rows],
            "Stragglers": [row["n_stragglers"] for row in rows],
            "Share": [100 * row["straggler_ratio"] for row in rows],
            "Lost": [_ms(row["lost_ms"]) for row in rows],
        }
    )


def life_time_frame(table: pa.Table, *, of_jobs: bool) -> pd.DataFrame:
    """One line per user (or job), kind and status."""
    rows = table.to_pylist()
    names: dict[str, list[Any]] = {"User": [_text(row["user"]) for row in rows]}
    if of_jobs:
        names = {
            "Job": [_text(row["job_id"]) for row in rows],
            "Name": [_text(row["job_name"]) for row in rows],
            **names,
        }
    times = {"Mean": "mean_ms", "Median": "median_ms", "95 % within": "p95_ms", "Longest": "max_ms"}
    return pd.DataFrame(
        {
            **names,
            "Kind": [_kind(row["kind"]) for row in rows],
            "Status": [_text(row["status"]) for row in rows],
            "Attempts": [row["n_attempts"] for row in rows],
            **{title: [_ms(row[name]) for row in rows] for title, name in times.items()},
            "Deviation": [_ms(row["stddev_ms"]) for row in rows],
            "Not measured": [row["n_attempts"] - row["n_measured"] for row in rows],
        }
    )


def queue_frame(jobs: pa.Table) -> pd.DataFrame:
    """One line per job, the greatest queue first; jobs whose queue is not known come last."""
    rows = sorted(jobs.to_pylist(), key=lambda row: (-(row["peak_bytes"] or -1), row["job_id"]))
    sizes = {"At most waited": "peak_bytes", "Written": "added_bytes", "Fetched": "fetched_bytes"}
    return pd.DataFrame(
        {
            "Job": [_text(row["job_id"]) for row in rows],
            "Name": [_text(row["job_name"]) for row in rows],
            "User": [_text(row["user"]) for row in rows],
            **{title: [_bytes(row[name]) for row in rows] for title, name in sizes.items()},
            "Known": [KNOWLEDGE.get(row["knowledge"], _text(row["knowledge"])) for row in rows],
        }
    )


def _text(value: object) -> str:
    return "—" if value is None else inert(value)


def _kind(value: object) -> str:
    return KINDS.get(str(value), _text(value))


def _ms(value: float | None) -> str:
    return duration(None if value is None else round(value))


def _bytes(value: int | None) -> str:
    return "—" if value is None else format_size(value)


__all__ = ["host_frame", "life_time_frame", "queue_frame", "straggler_frame"]
