"""What the reports ask of events: one row per attempt of a task, one row per job."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

SUMMARY_TYPES = ("Mapper", "Reducer")
END_TYPES = ("MapEnd", "ReducerEnd")
ATTEMPT_TYPES = (*SUMMARY_TYPES, *END_TYPES)
JOB_TYPES = ("JobStart", "JobEnd")

ATTEMPT_COLUMNS = (
    "type", "t_lo_ms", "t_hi_ms", "job_id", "task_id", "attempt_id", "host", "status", "period_ms", "input_bytes",
)  # fmt: skip
JOB_COLUMNS = ("type", "t_lo_ms", "t_hi_ms", "job_id", "job_name", "user", "queue", "status")


def attempts(events: DataFrame) -> DataFrame:
    """One row per attempt that has ended: attempt_id, job_id, task_id, kind (MAP, REDUCE), host, status, end_ms,
    period_ms, input_bytes.

    The end of an attempt is told by Mapper or Reducer (history, REST) and by MapEnd or ReducerEnd (those, and logs):
    each value is the former's where it has one, else the latter's; null where no source knows it. Events without an
    attempt's id are no attempts.
    """
    is_summary = sf.col("type").isin(*SUMMARY_TYPES)

    def known(value: Column) -> Column:
        # The store has at most one event per type and attempt: `max` only picks it.
        return sf.coalesce(sf.max(sf.when(is_summary, value)), sf.max(sf.when(~is_summary, value)))

    names = ("job_id", "task_id", "host", "status", "period_ms", "input_bytes")
    is_map = sf.col("type").isin("Mapper", "MapEnd")
    return (
        events.where(sf.col("type").isin(*ATTEMPT_TYPES) & sf.col("attempt_id").isNotNull())
        .groupBy("attempt_id")
        .agg(
            known(sf.when(is_map, sf.lit("MAP")).otherwise(sf.lit("REDUCE"))).alias("kind"),
            known(sf.col("t_hi_ms")).alias("end_ms"),
            *(known(sf.col(name)).alias(name) for name in names),
        )
    )


def jobs(events: DataFrame) -> DataFrame:
    """One row per job: job_id, job_name, user, queue, start_ms, end_ms, job_status; null where nothing tells it."""
    is_end = sf.col("type") == "JobEnd"

    def known(name: str) -> Column:
        # Of two that differ (a job moved to another queue) what its end tells.
        return sf.coalesce(sf.max(sf.when(is_end, sf.col(name))), sf.max(sf.when(~is_end, sf.col(name)))).alias(name)

    return (
        events.where(sf.col("type").isin(*JOB_TYPES) & sf.col("job_id").isNotNull())
        .groupBy("job_id")
        .agg(
            known("job_name"),
            known("user"),
            known("queue"),
            sf.min(sf.when(~is_end, sf.col("t_lo_ms"))).alias("start_ms"),
            sf.max(sf.when(is_end, sf.col("t_hi_ms"))).alias("end_ms"),
            sf.max(sf.when(is_end, sf.col("status"))).alias("job_status"),
        )
    )
