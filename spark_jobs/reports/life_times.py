"""Life times of mappers and reducers, per job and per user (SASE++, 6.5, Q1 and Q2, for many jobs at once)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

QUANTILES = (0.5, 0.95)


def by_job(attempts: DataFrame, jobs: DataFrame) -> DataFrame:
    """A row per job, kind and status: job_id, job_name, user, and the figures of `_figures`.

    `attempts`, `jobs` as of spark_jobs.reports.attempts. Attempts that failed or were killed have rows of their own.
    """
    found = _figures(attempts, "job_id")
    named = found.join(jobs.select("job_id", "job_name", "user"), "job_id", "left")
    return named.orderBy("job_id", "kind", "status")


def by_user(attempts: DataFrame, jobs: DataFrame) -> DataFrame:
    """A row per user, kind and status: user (null: of jobs whose user nothing tells), n_jobs, and the figures."""
    owned = attempts.join(jobs.select("job_id", "user"), "job_id", "left")
    return _figures(owned, "user").orderBy(sf.col("user").asc_nulls_last(), "kind", "status")


def _figures(attempts: DataFrame, key: str) -> DataFrame:
    """Per key, kind and status: n_jobs, n_attempts, n_measured (those whose period is known), and of their periods
    mean_ms, median_ms, p95_ms (exact, linear between neighbours), max_ms, stddev_ms (of the population).
    """
    period = sf.col("period_ms")
    quantiles = sf.percentile(period, list(QUANTILES))
    return (
        attempts.groupBy(key, "kind", "status")
        .agg(
            sf.countDistinct("job_id").alias("n_jobs"),
            sf.count(sf.lit(1)).alias("n_attempts"),
            sf.count(period).alias("n_measured"),
            sf.mean(period).alias("mean_ms"),
            quantiles.alias("quantiles_ms"),
            sf.max(period).alias("max_ms"),
            sf.stddev_pop(period).alias("stddev_ms"),
        )
        .withColumn("median_ms", sf.col("quantiles_ms")[0])
        .withColumn("p95_ms", sf.col("quantiles_ms")[1])
        .drop("quantiles_ms")
    )
