"""Spark applications for `clustercep report jobs`: those that ended in a span, as rows beside the MapReduce jobs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from app.heuristics.spark.from_events import COLUMNS, TYPES, application_figures
from app.heuristics.spark.judging import judged
from app.heuristics.spark.waste import waste_of
from collectors.time_units import DAY_MS
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.heuristics.row import DDL, report_row, rows_table

MOST_EVENTS_HERE = 1_000_000
"""Of Spark; a task is one event of some hundred bytes."""
SLACK_MS = DAY_MS

_ENDS = ("SparkApplicationEnd",)
_KEY = "application_id"


def rows_here(url: str, from_ms: int | None, to_ms: int | None) -> list[dict[str, Any]] | None:
    """A row per application of the span; None where that is for Spark. Raises StoreError."""
    ends = read_few(url, _ENDS, COLUMNS, from_ms, to_ms, MOST_EVENTS_HERE)
    if ends is None:
        return None
    if not ends.num_rows:
        return []
    starts = [end["t_lo_ms"] - _life_ms(end) for end in ends.to_pylist()]
    events = read_few(
        url, TYPES, COLUMNS, min(starts) - SLACK_MS, pc.max(ends.column("t_hi_ms")).as_py() + SLACK_MS, MOST_EVENTS_HERE
    )
    if events is None:
        return None
    wanted = pc.unique(ends.column(_KEY).drop_null()).to_pylist()
    return [row_of(name, events.filter(pc.equal(events.column(_KEY), name))) for name in sorted(wanted)]


def rows_on_spark(store: EventStore, from_ms: int | None, to_ms: int | None) -> list[dict[str, Any]]:
    """As `rows_here`, of any store."""
    with job_errors(f"{store.url}: cannot be read"):
        ends = store.read(_ENDS, COLUMNS, from_ms, to_ms).persist()
        try:
            life_ms = sf.coalesce(sf.col("period_ms"), sf.lit(SLACK_MS))
            span = ends.agg(sf.min(sf.col("t_lo_ms") - life_ms), sf.max("t_hi_ms")).first()
            if span is None or span[0] is None:
                return []
            wanted = ends.select(_KEY).where(sf.col(_KEY).isNotNull()).distinct()
            events = store.read(TYPES, COLUMNS, span[0] - SLACK_MS, span[1] + SLACK_MS).join(wanted, _KEY, "left_semi")
            rows: list[dict[str, Any]] = events.groupBy(_KEY).applyInArrow(_judge_group, DDL).toArrow().to_pylist()
            return sorted(rows, key=lambda row: str(row["job_id"]))
        finally:
            ends.unpersist()


def row_of(application_id: str, events: pa.Table) -> dict[str, Any]:
    """An application's row."""
    judgement = judged(application_figures(application_id, events))
    app = judgement.figures
    status = None if app.exit_code is None else "SUCCEEDED" if app.exit_code == 0 else "FAILED"
    return report_row(application_id, app.application_name, status, judgement, waste_of(app))


def _judge_group(events: pa.Table) -> pa.Table:
    return rows_table([row_of(str(events.column(_KEY)[0].as_py()), events)])


def _life_ms(row: dict[str, Any]) -> int:
    period_ms = row.get("period_ms")
    return SLACK_MS if period_ms is None else int(period_ms)


__all__ = ["row_of", "rows_here", "rows_on_spark"]
