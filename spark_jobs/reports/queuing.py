"""Map output that waits for its reducers, over time: per job and for the cluster (SASE++, 6.5, Q4, Figure 7 c and d).

A DataIO event adds what a mapper wrote or takes away what a reducer fetched; it counts from t_hi_ms on, when it has
happened for certain. What a job leaves at its end is deleted by the framework: it is released, and waits no longer.

Where sources are missing the sum is not what waited, and it is not made to look so. `knowledge` tells:
complete            start, arrivals and fetches were seen; the sum is what waited
no fetch seen       no container logs: the sum is an upper bound
arrivals missing    more was fetched than had come: what waited is not known
start not seen      the span begins within the job, or its history is missing: what waited is not known
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

TYPES = ("DataIO",)
COLUMNS = ("type", "event_id", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", "job_id", "size_bytes")

COMPLETE, NO_FETCH, MISSING, NO_START = "complete", "no fetch seen", "arrivals missing", "start not seen"


def changes(events: DataFrame, window_ms: int) -> DataFrame:
    """DataIO events with `window_ms` (start of their window, [start, start + width)) and `running_bytes`, the job's
    sum after the event in stream order."""
    order = ("t_hi_ms", "source_rank", "source_seq", "event_id")
    before = Window.partitionBy("job_id").orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    size = sf.col("size_bytes")
    return (
        events.where(sf.col("type").isin(*TYPES) & sf.col("job_id").isNotNull() & size.isNotNull())
        .withColumn("place", sf.struct(*order))
        .withColumn("running_bytes", sf.sum(size).over(before))
        .withColumn("added_bytes", sf.greatest(size, sf.lit(0)))
        .withColumn("fetched_bytes", sf.greatest(-size, sf.lit(0)))
        .withColumn("window_ms", window_start(sf.col("t_hi_ms"), window_ms))
    )


def window_start(t_ms: Column, window_ms: int) -> Column:
    """Windows begin at multiples of their width since the epoch, before it too."""
    return t_ms - sf.pmod(t_ms, sf.lit(window_ms))


def by_job(changed: DataFrame, jobs: DataFrame, window_ms: int) -> DataFrame:
    """A row per job with DataIO: job_id, job_name, user, start_ms, end_ms, n_added, n_fetched, added_bytes,
    fetched_bytes, left_bytes (the sum of all; negative where arrivals are missing), peak_bytes and peak_ms (the first
    time of the greatest sum; null where it is not known), end_window_ms (of its end, or of its last change when that
    came after; null while it runs), knowledge."""
    found = changed.groupBy("job_id").agg(
        sf.sum(sf.when(sf.col("size_bytes") > 0, 1).otherwise(0)).alias("n_added"),
        sf.sum(sf.when(sf.col("size_bytes") < 0, 1).otherwise(0)).alias("n_fetched"),
        sf.sum("added_bytes").alias("added_bytes"),
        sf.sum("fetched_bytes").alias("fetched_bytes"),
        sf.sum("size_bytes").alias("left_bytes"),
        sf.max(sf.struct("running_bytes", (-sf.col("t_hi_ms")).alias("minus_ms"))).alias("peak"),
        sf.max("window_ms").alias("last_window_ms"),
    )
    named = found.join(jobs.select("job_id", "job_name", "user", "start_ms", "end_ms"), "job_id", "left")
    known = named.withColumn(
        "knowledge",
        sf.when(sf.col("left_bytes") < 0, MISSING)
        .when(sf.col("start_ms").isNull(), NO_START)
        .when(sf.col("n_fetched") == 0, NO_FETCH)
        .otherwise(COMPLETE),
    )
    is_known = sf.col("knowledge").isin(COMPLETE, NO_FETCH)
    return (
        known.withColumn("peak_bytes", sf.when(is_known, sf.col("peak.running_bytes")))
        .withColumn("peak_ms", sf.when(is_known, -sf.col("peak.minus_ms")))
        .withColumn(
            "end_window_ms",
            sf.when(
                sf.col("end_ms").isNotNull(),
                sf.greatest(window_start(sf.col("end_ms"), window_ms), sf.col("last_window_ms")),
            ),
        )
        .drop("peak", "last_window_ms")
        .orderBy("job_id")
    )


def by_job_and_window(changed: DataFrame, job_rows: DataFrame) -> DataFrame:
    """A row per job and window in which something changed or the job ended: job_id, window_ms, added_bytes,
    fetched_bytes, released_bytes (what was left at the job's end), queued_bytes at the window's end (null where it is
    not known), peak_bytes within it, knowledge. `job_rows` as of `by_job`."""
    is_known = sf.col("knowledge").isin(COMPLETE, NO_FETCH)
    running, nothing = sf.col("running_bytes"), sf.lit(0).cast("bigint")
    moved = changed.groupBy("job_id", "window_ms").agg(
        sf.sum("added_bytes").alias("added_bytes"),
        sf.sum("fetched_bytes").alias("fetched_bytes"),
        sf.max_by("running_bytes", "place").alias("queued_bytes"),
        sf.max(sf.greatest(running, running - sf.col("size_bytes"))).alias("peak_bytes"),
        nothing.alias("released_bytes"),
        sf.lit(0).alias("is_end"),
    )
    left = sf.when(is_known, sf.col("left_bytes"))
    ended = job_rows.where(sf.col("end_window_ms").isNotNull()).select(
        "job_id",
        sf.col("end_window_ms").alias("window_ms"),
        nothing.alias("added_bytes"),
        nothing.alias("fetched_bytes"),
        nothing.alias("queued_bytes"),
        left.alias("peak_bytes"),
        sf.coalesce(left, nothing).alias("released_bytes"),
        sf.lit(1).alias("is_end"),
    )
    both = (
        moved.unionByName(ended)
        .groupBy("job_id", "window_ms")
        .agg(
            *(sf.sum(name).alias(name) for name in ("added_bytes", "fetched_bytes", "released_bytes")),
            sf.max_by("queued_bytes", "is_end").alias("queued_bytes"),
            sf.max("peak_bytes").alias("peak_bytes"),
        )
    )
    # Below zero for a while, and not in the end: clocks disagree, and what waits right now is not known.
    is_sum = is_known & (sf.col("queued_bytes") >= 0)
    return (
        both.join(job_rows.select("job_id", "knowledge"), "job_id")
        .withColumn("queued_bytes", sf.when(is_sum, sf.col("queued_bytes")))
        .withColumn("peak_bytes", sf.when(is_known & (sf.col("peak_bytes") >= 0), sf.col("peak_bytes")))
        .orderBy("job_id", "window_ms")
    )


def of_cluster(job_windows: DataFrame, job_rows: DataFrame) -> pa.Table:
    """A row per window in which something changed: window_ms, added_bytes, fetched_bytes, released_bytes, and at its
    end queued_low_bytes and queued_high_bytes (all jobs whose queue is known; they differ by those without a fetch
    seen), n_jobs_waiting and n_jobs_unknown (jobs that are not in these sums)."""
    ends = job_rows.select("job_id", "end_window_ms")
    steps = Window.partitionBy("job_id").orderBy("window_ms")
    queued = sf.col("queued_bytes")
    is_over = sf.coalesce(sf.col("window_ms") >= sf.col("end_window_ms"), sf.lit(False))
    states = job_windows.join(ends, "job_id").select(
        "job_id",
        "window_ms",
        "added_bytes",
        "fetched_bytes",
        "released_bytes",
        sf.when(sf.col("knowledge") == COMPLETE, sf.coalesce(queued, sf.lit(0))).otherwise(0).alias("low"),
        sf.coalesce(queued, sf.lit(0)).alias("high"),
        sf.when(sf.coalesce(queued, sf.lit(0)) > 0, 1).otherwise(0).alias("waiting"),
        sf.when(queued.isNull() & ~is_over, 1).otherwise(0).alias("unknown"),
    )
    states_of = ("low", "high", "waiting", "unknown")
    stepped = states.select(
        "*", *((sf.col(n) - sf.coalesce(sf.lag(n).over(steps), sf.lit(0))).alias(f"d_{n}") for n in states_of)
    )
    sums = stepped.groupBy("window_ms").agg(
        *(sf.sum(n).alias(n) for n in ("added_bytes", "fetched_bytes", "released_bytes")),
        *(sf.sum(f"d_{n}").alias(f"d_{n}") for n in states_of),
    )
    # One row per window of the whole cluster: few enough to be added up here.
    table = sums.orderBy("window_ms").toArrow()
    named = {"low": "queued_low_bytes", "high": "queued_high_bytes"}
    named |= {"waiting": "n_jobs_waiting", "unknown": "n_jobs_unknown"}
    for name, column in named.items():
        table = table.append_column(column, pc.cumulative_sum(table.column(f"d_{name}")))
    return table.drop_columns([f"d_{name}" for name in named])
