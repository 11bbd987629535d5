"""Events of jobs and of a cluster with hostile names, for the pages that show them."""

from __future__ import annotations

from typing import Any

from app.store.models import AlertRow
from collectors.schema import load_event_types
from engine.events import EventBatch
from tests.dashboard.query_fixtures import HOSTILE

T0_MS = 1_700_000_010_000
STEP_MS = 15_000

DONE, HOSTILE_JOB, RUNNING_JOB = "job_1700000000000_0001", "job_1700000000000_0002", "job_1700000000000_0003"


def at(t_ms: int, event_type: str, job: str, **other: Any) -> dict[str, Any]:
    """An event of a job."""
    return {"type": event_type, "t_lo_ms": T0_MS + t_ms, "job_id": job, **other}


def of_attempt(t_ms: int, event_type: str, job: str, kind: str, task: int, **other: Any) -> dict[str, Any]:
    """An event of an attempt."""
    name = f"{job.removeprefix('job_')}_{kind}_{task:06}"
    return at(t_ms, event_type, job, task_id=f"task_{name}", attempt_id=f"attempt_{name}_0", **other)


def job_rows() -> list[dict[str, Any]]:
    """A finished job, a failed one with hostile names, and one that runs."""
    phases = {"shuffle_ms": 2_000, "sort_ms": 500, "reduce_ms": 2_500}
    rows = [at(0, "JobStart", DONE, job_name="count", user="ada", queue="q", n_maps=4, n_reduces=1)]
    for task, length_ms in enumerate((5_000, 6_000, 5_500, 40_000)):
        end = {"host": f"node{task % 2}", "status": "SUCCEEDED", "period_ms": length_ms}
        rows += [
            of_attempt(1_000, "MapStart", DONE, "m", task, host=f"node{task % 2}"),
            of_attempt(1_000 + length_ms, "MapEnd", DONE, "m", task, **end),
            of_attempt(1_000 + length_ms, "Mapper", DONE, "m", task, **end),
            of_attempt(1_000 + length_ms, "DataIO", DONE, "m", task, size_bytes=1_000),
        ]
    end = {"host": "node1", "status": "SUCCEEDED", "period_ms": 5_000}
    rows += [
        of_attempt(45_000, "ReducerStart", DONE, "r", 0, host="node1"),
        of_attempt(50_000, "ReducerEnd", DONE, "r", 0, **end),
        of_attempt(50_000, "Reducer", DONE, "r", 0, **end, **phases),
        of_attempt(46_000, "DataPull", DONE, "r", 0, source_host=HOSTILE, bytes=4_000, period_ms=900),
        of_attempt(46_000, "DataIO", DONE, "r", 0, size_bytes=-4_000),
        at(51_000, "JobEnd", DONE, job_name="count", user="ada", queue="q", status="SUCCEEDED", period_ms=51_000),
        at(2_000, "JobStart", HOSTILE_JOB, job_name=HOSTILE, user=HOSTILE, queue=HOSTILE, n_maps=1, n_reduces=0),
        of_attempt(3_000, "MapStart", HOSTILE_JOB, "m", 0, host=HOSTILE),
        of_attempt(9_000, "MapEnd", HOSTILE_JOB, "m", 0, host=HOSTILE, status="FAILED", period_ms=6_000),
        at(10_000, "JobEnd", HOSTILE_JOB, job_name=HOSTILE, user=HOSTILE, status="FAILED", period_ms=8_000),
        at(20_000, "JobStart", RUNNING_JOB, job_name="endless", user="bob", n_maps=1, n_reduces=0),
        of_attempt(21_000, "MapStart", RUNNING_JOB, "m", 0, host="node0"),
    ]
    return rows


def cluster_rows(n_steps: int = 8) -> list[dict[str, Any]]:
    """Two hosts and a hostile one; a hostile metric; load, imbalance, a lost node."""
    rows: list[dict[str, Any]] = []
    for step in range(n_steps):
        times = {"t_lo_ms": T0_MS + step * STEP_MS + 1, "t_hi_ms": T0_MS + (step + 1) * STEP_MS}
        for host in ("node0", "node1", HOSTILE):
            if host == "node1" and step == 3:
                continue
            sample = {"type": "Metric", "host": host, "clock_id": "ganglia:c", **times}
            rows.append({**sample, "name": "cpu_user", "value": float(step), "unit": "%"})
            rows.append({**sample, "name": HOSTILE, "value": 0.0, "unit": HOSTILE})
        load = {"clock_id": "load:c", "name": "cpu_user", "n_hosts": 3, "n_missing": 0, **times}
        rows.append({"type": "LoadStd", "val": float(step), **load})
        rows.append({"type": "Imbalance" if step in (2, 3) else "Balance", "busy_ratio": 0.5, **load})
    rows.append({"type": "NodeLost", "host": "node1", "t_lo_ms": T0_MS + 40_000, "reason": HOSTILE})
    return rows


def batch(rows: list[dict[str, Any]]) -> EventBatch:
    """With made-up ids."""
    numbered = [{"event_id": f"e{n}", **row} for n, row in enumerate(rows)]
    return EventBatch.from_rows(numbered, load_event_types())


def alert_row(alert_id: str, **changes: Any) -> AlertRow:
    """An alert about nothing, but for what changes."""
    values: dict[str, Any] = {
        "id": alert_id,
        "query": "slow",
        "query_hash": "h",
        "key": {},
        "key_text": alert_id,
        "severity": "warning",
        "state": "firing",
        "open": True,
        "start_ms": T0_MS + 10_000,
        "end_ms": T0_MS + 20_000,
        "onset_ms": T0_MS + 15_000,
        "last_seen_ms": T0_MS + 20_000,
        "group_gap_ms": 0,
        "revision": 0,
        "n_matches": 1,
        "n_matches_exact": True,
        "best_confidence": 1.0,
        "values": {},
        "summary": "slow",
        "runbook": "",
        "best_n_events": 0,
        "lane": "live",
        "merged_into": None,
        "created_ms": T0_MS,
        "updated_ms": T0_MS,
        "resolved_ms": None,
        "job_id": None,
        "host": None,
    }
    return AlertRow(**{**values, **changes})
