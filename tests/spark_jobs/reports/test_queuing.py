"""Queued bytes against a walk through each job's changes in order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.reports import queuing
from spark_jobs.reports.attempts import jobs
from tests.spark_jobs.reports.history import Row, frame, history

WINDOW_MS = 30_000
KNOWN = ("complete", "no fetch seen")


def start_of(t_ms: int) -> int:
    return t_ms // WINDOW_MS * WINDOW_MS


def walk(rows: list[Row], job_id: str) -> dict[str, Any]:
    """A job's queue, change by change."""
    moves = sorted(
        (row for row in rows if row["type"] == "DataIO" and row["job_id"] == job_id),
        key=lambda row: (row["t_hi_ms"], row["source_seq"]),
    )
    starts = [row["t_lo_ms"] for row in rows if row["type"] == "JobStart" and row["job_id"] == job_id]
    ends = [row["t_lo_ms"] for row in rows if row["type"] == "JobEnd" and row["job_id"] == job_id]
    queued, peak, peak_ms = 0, None, None
    windows: dict[int, dict[str, Any]] = {}
    for row in moves:
        window = windows.setdefault(
            start_of(row["t_hi_ms"]), {"added": 0, "fetched": 0, "released": 0, "peak": queued, "queued": 0}
        )
        queued += row["size_bytes"]
        window["added"] += max(row["size_bytes"], 0)
        window["fetched"] += max(-row["size_bytes"], 0)
        window["queued"] = queued
        window["peak"] = max(window["peak"], queued)
        if peak is None or queued > peak:
            peak, peak_ms = queued, row["t_hi_ms"]
    n_fetched = sum(row["size_bytes"] < 0 for row in moves)
    knowledge = (
        "arrivals missing" if queued < 0 else "start not seen" if not starts
        else "no fetch seen" if n_fetched == 0 else "complete"
    )  # fmt: skip
    known = knowledge in KNOWN
    if ends:
        last = max(start_of(ends[0]), *windows)
        window = windows.setdefault(last, {"added": 0, "fetched": 0, "released": 0, "peak": queued, "queued": 0})
        window["queued"] = 0
        window["released"] = queued if known else 0
    for window in windows.values():
        if not known or window["queued"] < 0:
            window["queued"] = None
        if not known or window["peak"] < 0:
            window["peak"] = None
    return {
        "left": queued, "peak": (peak, peak_ms) if known else (None, None), "knowledge": knowledge,
        "windows": windows, "over_at": last if ends else None,
    }  # fmt: skip


def test_queues_are_those_of_a_walk(spark: SparkSession) -> None:
    rows = history(1)
    events = frame(spark, rows)
    changed = queuing.changes(events, WINDOW_MS)
    job_rows = queuing.by_job(changed, jobs(events), WINDOW_MS).cache()
    window_rows = queuing.by_job_and_window(changed, job_rows).cache()
    walks = {row["job_id"]: walk(rows, row["job_id"]) for row in rows if row["type"] == "DataIO"}
    assert {found["knowledge"] for found in walks.values()} == {*KNOWN, "arrivals missing", "start not seen"}

    found = {row["job_id"]: row for row in job_rows.collect()}
    assert {
        name: (row["left_bytes"], (row["peak_bytes"], row["peak_ms"]), row["knowledge"]) for name, row in found.items()
    } == {name: (walked["left"], walked["peak"], walked["knowledge"]) for name, walked in walks.items()}
    windows: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in window_rows.collect():
        windows[row["job_id"]][row["window_ms"]] = {
            "added": row["added_bytes"], "fetched": row["fetched_bytes"], "released": row["released_bytes"],
            "peak": row["peak_bytes"], "queued": row["queued_bytes"],
        }  # fmt: skip
    assert windows == {name: walked["windows"] for name, walked in walks.items()}

    for row in queuing.of_cluster(window_rows, job_rows).to_pylist():
        now = [state(walked, row["window_ms"]) for walked in walks.values()]
        assert row["queued_low_bytes"] == sum(low for low, _, _ in now)
        assert row["queued_high_bytes"] == sum(high for _, high, _ in now)
        assert row["n_jobs_unknown"] == sum(unknown for _, _, unknown in now)
        assert row["n_jobs_waiting"] == sum(high > 0 for _, high, _ in now)
        assert row["added_bytes"] == sum(
            max(event["size_bytes"], 0) for event in rows
            if event["type"] == "DataIO" and start_of(event["t_hi_ms"]) == row["window_ms"]
        )  # fmt: skip


def state(walked: dict[str, Any], window_ms: int) -> tuple[int, int, bool]:
    """Low, high and whether it is not known, at the end of a window."""
    before = [start for start in walked["windows"] if start <= window_ms]
    if not before or (walked["over_at"] is not None and window_ms >= walked["over_at"]):
        return 0, 0, False
    queued = walked["windows"][max(before)]["queued"]
    if queued is None:
        return 0, 0, True
    return (queued if walked["knowledge"] == "complete" else 0), queued, False


def test_windows_before_the_epoch_begin_at_multiples_too(spark: SparkSession) -> None:
    (row,) = spark.range(1).select(queuing.window_start(-queuing.sf.col("id") - 1, 1_000).alias("start")).collect()
    assert row["start"] == -1_000
