"""Stragglers: attempts that took longer than their job's others for the same amount of input, and their hosts.

An attempt is set against its own job: expected = median over the job's successful attempts of the same kind of
(period / input) * own input. Dividing by the input is the inverse progress rate of Ousterhout et al. (Making Sense of
Performance in Data Analytics Frameworks, NSDI 2015), and so is 1.5 times the median per stage as the limit, which
Mantri (Ananthanarayanan et al., OSDI 2010) sets for running times. So an attempt that had more to read is no
straggler, and jobs of any size can be put together per host. Where the input does not decide how long a task takes
(its median is below `min_input_bytes`, or nothing tells it) the period is set against the median period.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

SMALL_GROUP, TINY = "few attempts", "tiny"
CONFIDENCE_Z = 1.96


@dataclass(frozen=True)
class StragglerOptions:
    """Thresholds. `min_attempts`: successful attempts of a kind that a job must have, so that its median says much."""

    min_period_ms: int = 1_000
    """Tasks that are expected to take less are tiny: starting them is most of it."""
    min_input_bytes: int = 1 << 20
    min_attempts: int = 3
    straggler_ratio: float = 1.5
    n_worst: int = 1_000
    """Straggling attempts that are kept."""
    order: str = "ratio"
    """What makes one worse than another: ratio, or lost (time beyond the expected)."""


def compared(attempts: DataFrame, options: StragglerOptions) -> DataFrame:
    """Attempts with a known period that succeeded, or were killed while another of their task succeeded (of those the
    period is a lower bound): with input_bytes, basis (input, period), expected_ms, ratio, lost_ms and left_out (null,
    "few attempts", "tiny").

    Of an attempt that was killed the input is that of its task's successful attempt: both had the same to read.
    """
    of_task = Window.partitionBy("task_id")
    is_success = sf.col("status") == "SUCCEEDED"
    found = (
        attempts.where(sf.col("period_ms").isNotNull() & sf.col("status").isin("SUCCEEDED", "KILLED"))
        .withColumn("task_input_bytes", sf.max(sf.when(is_success, sf.col("input_bytes"))).over(of_task))
        .withColumn("is_task_done", sf.max(is_success).over(of_task))
        .where(is_success | sf.col("is_task_done"))
        .withColumn("input_bytes", sf.when(is_success, sf.col("input_bytes")).otherwise(sf.col("task_input_bytes")))
        .drop("task_input_bytes", "is_task_done")
    )
    least = max(options.min_input_bytes, 1)
    enough = sf.col("input_bytes") >= least
    groups = (
        found.where(is_success)
        .groupBy("job_id", "kind")
        .agg(
            sf.count(sf.lit(1)).alias("n_group"),
            sf.count("input_bytes").alias("n_with_input"),
            sf.percentile("period_ms", 0.5).alias("median_ms"),
            sf.percentile("input_bytes", 0.5).alias("median_bytes"),
            sf.percentile(sf.when(enough, sf.col("period_ms") / sf.col("input_bytes")), 0.5).alias(
                "median_ms_per_byte"
            ),
        )
        .withColumn(
            "basis",
            sf.when(
                (sf.col("n_with_input") == sf.col("n_group")) & (sf.col("median_bytes") >= least), "input"
            ).otherwise("period"),
        )
    )
    by_input = sf.col("basis") == "input"
    expected = sf.when(by_input, sf.col("median_ms_per_byte") * sf.col("input_bytes")).otherwise(sf.col("median_ms"))
    is_tiny = (by_input & ~sf.coalesce(enough, sf.lit(False))) | (sf.col("expected_ms") < max(options.min_period_ms, 1))
    return (
        found.join(groups, ["job_id", "kind"])
        .withColumn("expected_ms", expected)
        .withColumn(
            "left_out",
            sf.when(sf.col("n_group") < options.min_attempts, SMALL_GROUP).when(is_tiny, TINY),
        )
        .withColumn("ratio", sf.col("period_ms") / sf.col("expected_ms"))
        .withColumn("lost_ms", sf.col("period_ms") - sf.col("expected_ms"))
        .drop("n_group", "n_with_input", "median_ms", "median_bytes", "median_ms_per_byte")
    )


def hosts(compared_attempts: DataFrame, options: StragglerOptions) -> DataFrame:
    """Hosts, the slowest first: host, n_attempts, n_jobs, n_stragglers, straggler_ratio (their share), median_ratio,
    low_ratio, p90_ratio, lost_ms (sum of what attempts took beyond the expected).

    Ranked by `low_ratio`, the lower end of a 95 % confidence interval for the host's median ratio: the order statistic
    round((n - 1.96 sqrt(n)) / 2) (sign test, no assumption about the distribution), and 0 of fewer than six attempts,
    which have none. So a host with one slow attempt does not stand above one that is slow all the time, and single
    outliers move nothing.
    Successful attempts alone: of the killed ones only the slow are known to be slow.
    """
    counted = compared_attempts.where(
        sf.col("left_out").isNull() & sf.col("host").isNotNull() & (sf.col("status") == "SUCCEEDED")
    )
    is_straggler = sf.when(sf.col("ratio") >= options.straggler_ratio, 1).otherwise(0)
    n = sf.col("n_attempts")
    place = sf.round((n - CONFIDENCE_Z * sf.sqrt(n)) / 2).cast("int")
    existing = sf.greatest(sf.lit(1), place)  # 0 is an error for element_at
    return (
        counted.groupBy("host")
        .agg(
            sf.count(sf.lit(1)).alias("n_attempts"),
            sf.countDistinct("job_id").alias("n_jobs"),
            sf.sum(is_straggler).alias("n_stragglers"),
            sf.mean(is_straggler).alias("straggler_ratio"),
            sf.percentile("ratio", [0.5, 0.9]).alias("quantiles"),
            sf.sum("lost_ms").alias("lost_ms"),
            sf.sort_array(sf.collect_list("ratio")).alias("ratios"),
        )
        .withColumn("median_ratio", sf.col("quantiles")[0])
        .withColumn("p90_ratio", sf.col("quantiles")[1])
        .withColumn("low_ratio", sf.when(place < 1, 0.0).otherwise(sf.element_at("ratios", existing)))
        .drop("quantiles", "ratios")
        .orderBy(sf.desc("low_ratio"), sf.desc("median_ratio"), "host")
    )


def worst(compared_attempts: DataFrame, jobs: DataFrame, options: StragglerOptions) -> DataFrame:
    """The worst straggling attempts, the worst first, at most options.n_worst: attempt_id, job_id, job_name, user,
    task_id, kind, host, status, end_ms, input_bytes, basis, period_ms, expected_ms, ratio, lost_ms."""
    by = "ratio" if options.order == "ratio" else "lost_ms"
    found = compared_attempts.where(sf.col("left_out").isNull() & (sf.col("ratio") >= options.straggler_ratio))
    order = (sf.desc(by), sf.asc("attempt_id"))
    kept = found.orderBy(*order).limit(options.n_worst)
    return kept.join(jobs.select("job_id", "job_name", "user"), "job_id", "left").orderBy(*order).drop("left_out")


def left_out(compared_attempts: DataFrame) -> DataFrame:
    """How many attempts were compared (reason null), and left out why: reason, n."""
    return compared_attempts.groupBy(sf.col("left_out").alias("reason")).agg(sf.count(sf.lit(1)).alias("n"))
