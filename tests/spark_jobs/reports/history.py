"""A made-up history of jobs, as rows of events, with everything that the reports tell apart; one seed, one history."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from collectors.schema import load_event_types
from engine.events import EventBatch
from spark_jobs.event_store.schema import EVENTS, to_arrow_schema

T0_MS = 1_700_000_000_000
HOSTS = ("a", "b", "c", "d", "e")
SLOW = {"e": 3.0}
"""Hosts that take several times as long."""
Row = dict[str, Any]


def history(seed: int, n_jobs: int = 8) -> list[Row]:
    """Events of jobs that overlap in time."""
    draw = random.Random(seed)
    rows: list[Row] = []
    for n in range(n_jobs):
        rows += _job(draw, n)
    draw.shuffle(rows)
    return [{"event_id": f"e{i}", "source_seq": i, **row} for i, row in enumerate(rows)]


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """As the event store gives them: all columns, several partitions."""
    found = EventBatch.from_rows(rows, load_event_types()).table
    schema = to_arrow_schema()
    columns = [
        found.column(field.name) if field.name in found.column_names else pa.nulls(len(found), field.type)
        for field in schema
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=schema), EVENTS).coalesce(2)


def _job(draw: random.Random, n: int) -> list[Row]:
    job_id = f"job_1_{n:04d}"
    start_ms = T0_MS + draw.randrange(200_000)
    owner = {"job_id": job_id, "job_name": f"job {n}", "user": None if n == 5 else f"user{n % 3}", "queue": "q"}
    rows: list[Row] = []
    if n != 6:
        rows.append({"type": "JobStart", "t_lo_ms": start_ms, **owner})
    if n != 7:
        end_ms = start_ms + draw.randrange(60_000, 400_000)
        rows.append(
            {"type": "JobEnd", "t_lo_ms": end_ms, "status": "SUCCEEDED", "period_ms": end_ms - start_ms, **owner}
        )
    for kind, n_tasks in (("m", draw.randrange(1, 30)), ("r", draw.randrange(0, 6))):
        for task in range(n_tasks):
            rows += _task(draw, job_id, kind, task, start_ms, small=n == 2)
    return rows + _queue(draw, n, job_id, start_ms)


def _task(draw: random.Random, job_id: str, kind: str, task: int, start_ms: int, *, small: bool) -> list[Row]:
    rows: list[Row] = []
    input_bytes = draw.choice([None, 0]) if small else draw.choice([1 << 10, 4 << 20, 8 << 20, 64 << 20, 128 << 20])
    outcome = draw.random()
    statuses = ["SUCCEEDED"]
    if outcome < 0.15:
        statuses = ["FAILED", "SUCCEEDED"]
    elif outcome < 0.3:
        statuses = draw.choice([["KILLED", "SUCCEEDED"], ["SUCCEEDED", "KILLED"], ["KILLED"]])
    for attempt, status in enumerate(statuses):
        host = draw.choice(HOSTS)
        speed = SLOW.get(host, 1.0) * draw.uniform(0.8, 1.3) * (8.0 if draw.random() < 0.05 else 1.0)
        period_ms: int | None = round(200 + speed * (5_000 if small else (input_bytes or 0) / 8_000))
        if draw.random() < 0.05:
            period_ms = None
        name = f"{job_id.removeprefix('job_')}_{kind}_{task:06d}"
        end = {
            "t_lo_ms": start_ms + 1_000 + draw.randrange(300_000), "job_id": job_id, "task_id": f"task_{name}",
            "attempt_id": f"attempt_{name}_{attempt}", "host": None if draw.random() < 0.03 else host,
            "status": status, "period_ms": period_ms,
        }  # fmt: skip
        told = draw.choice(["both", "both", "summary", "end"])
        if told != "summary":
            rows.append({"type": "MapEnd" if kind == "m" else "ReducerEnd", **end})
        if told != "end":
            rows.append({"type": "Mapper" if kind == "m" else "Reducer", "input_bytes": input_bytes, **end})
    return rows


def _queue(draw: random.Random, n: int, job_id: str, start_ms: int) -> list[Row]:
    """Map output and fetches; of job 1 no fetch is seen, of job 3 arrivals are missing, in job 4 clocks disagree."""
    rows: list[Row] = []
    for i in range(draw.randrange(3, 12)):
        size = draw.randrange(1, 1_000)
        come_ms = start_ms + draw.randrange(120_000)
        gone_ms = come_ms - 90_000 if n == 4 and i == 0 else come_ms + draw.randrange(100_000)
        named = {"type": "DataIO", "job_id": job_id, "task_id": f"t{i}", "attempt_id": f"a{i}"}
        if not (n == 3 and i % 2):
            rows.append({**named, "t_lo_ms": come_ms - draw.choice([0, 500]), "t_hi_ms": come_ms, "size_bytes": size})
        if n != 1 and draw.random() < 0.9:
            rows.append({**named, "t_lo_ms": gone_ms, "size_bytes": -size})
    for row in rows:
        row.setdefault("t_hi_ms", row["t_lo_ms"])
    return rows
