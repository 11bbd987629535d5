"""Life times against sums by plain Python over the same events."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from spark_jobs.reports import life_times
from spark_jobs.reports.attempts import attempts, jobs
from tests.spark_jobs.reports.history import Row, frame, history


def attempt_rows(rows: list[Row]) -> dict[str, Row]:
    """One row per attempt; what a summary tells stands above what an end tells."""
    found: dict[str, Row] = {}
    for wanted in (("MapEnd", "ReducerEnd"), ("Mapper", "Reducer")):
        for row in rows:
            if row["type"] in wanted:
                known = found.setdefault(row["attempt_id"], {"kind": "MAP" if "Map" in row["type"] else "REDUCE"})
                known |= {name: value for name, value in row.items() if value is not None}
    return found


def users(rows: list[Row]) -> dict[str, str | None]:
    return {row["job_id"]: row["user"] for row in rows if row["type"] in ("JobStart", "JobEnd")}


def expected_figures(rows: list[Row], key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    owners = users(rows)
    for row in attempt_rows(rows).values():
        owner = {"job_id": row["job_id"], "user": owners.get(row["job_id"])}[key]
        groups[(owner, row["kind"], row["status"])].append(row)
    found = {}
    for name, members in groups.items():
        periods = [row["period_ms"] for row in members if "period_ms" in row]
        figures: dict[str, Any] = {"n_attempts": len(members), "n_measured": len(periods)}
        figures["n_jobs"] = len({row["job_id"] for row in members})
        if periods:
            figures |= {
                "mean_ms": statistics.fmean(periods), "median_ms": statistics.median(periods), "max_ms": max(periods),
                "p95_ms": float(np.quantile(periods, 0.95)), "stddev_ms": statistics.pstdev(periods),
            }  # fmt: skip
        else:
            figures |= dict.fromkeys(("mean_ms", "median_ms", "max_ms", "p95_ms", "stddev_ms"))
        found[name] = figures
    return found


def test_figures_are_those_of_plain_sums(spark: SparkSession) -> None:
    rows = history(3)
    events = frame(spark, rows)
    found, owners = attempts(events).cache(), jobs(events).cache()
    check(rows, "job_id", life_times.by_job(found, owners).collect())
    check(rows, "user", life_times.by_user(found, owners).collect())


def check(rows: list[Row], key: str, found: list[Any]) -> None:
    expected = expected_figures(rows, key)
    assert {(row[key], row["kind"], row["status"]) for row in found} == set(expected)
    assert {status for _, _, status in expected} == {"SUCCEEDED", "FAILED", "KILLED"}
    for row in found:
        figures = expected[(row[key], row["kind"], row["status"])]
        assert {name: row[name] for name in figures} == {
            name: value if value is None else pytest.approx(value) for name, value in figures.items()
        }
        if key == "job_id":
            assert row["user"] == users(rows).get(row["job_id"])


def test_events_of_no_attempt_are_none(spark: SparkSession) -> None:
    rows = [{"event_id": "x", "type": "MapEnd", "t_lo_ms": 1, "job_id": "j", "period_ms": 5}]
    assert attempts(frame(spark, rows)).collect() == []
