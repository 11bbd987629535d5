"""What to change, by heuristic: each names the setting of Spark."""

from __future__ import annotations

PARTITIONS = "spark.sql.shuffle.partitions (of RDDs spark.default.parallelism)"
INPUT_SPLIT = "spark.sql.files.maxPartitionBytes"


def gc() -> str:
    """Of executors that spend their time in garbage collection."""
    return (
        "Raise spark.executor.memory, or lower spark.executor.cores so that fewer tasks share the heap; lower "
        "spark.memory.fraction where the objects are those of the code itself; cache serialized."
    )


def gc_too_low() -> str:
    """Of executors with hardly any garbage collection."""
    return "hardly any garbage collection: look whether spark.executor.memory is larger than needed"


def executors(figure: str) -> str:
    """Of executors of which one has several times as much as the others."""
    if figure == "storage memory":
        return (
            "Cached blocks lie on few executors: repartition before caching, or wait for more executors before the "
            "first stage (spark.scheduler.minRegisteredResourcesRatio)."
        )
    if figure == "input":
        return (
            f"Few executors read most of the input: lower {INPUT_SPLIT} so that there are more partitions than cores, "
            "and spark.locality.wait so that tasks do not queue for the hosts of the data."
        )
    if figure == "task time":
        return (
            "Few executors do most of the work: start all at once (spark.dynamicAllocation.initialExecutors or "
            "spark.scheduler.minRegisteredResourcesRatio), lower spark.locality.wait, let those that idle go "
            "(spark.dynamicAllocation.enabled, spark.dynamicAllocation.executorIdleTimeout)."
        )
    return (
        f"The shuffle is uneven among executors: raise {PARTITIONS}, let spark.sql.adaptive.skewJoin.enabled split "
        "large partitions, or salt the keys that are most frequent."
    )


def failures(of: str) -> str:
    """Of jobs or stages that fail, or whose tasks do."""
    if of == "jobs":
        return (
            "Read why its jobs failed and the logs of the executors; a job ends when one task failed "
            "spark.task.maxFailures times or one stage spark.stage.maxConsecutiveAttempts times."
        )
    return (
        "Read why the stages failed: for lost executors raise spark.executor.memoryOverhead or spark.executor.memory; "
        "for fetch failures spark.shuffle.io.maxRetries and spark.network.timeout, or keep shuffle output off the "
        "executors (spark.shuffle.service.enabled)."
    )


def stage_time() -> str:
    """Of stages that keep each executor busy for long."""
    return (
        "Give it more executors (spark.executor.instances, or spark.dynamicAllocation.maxExecutors) or cores "
        f"(spark.executor.cores), with partitions enough for them: {PARTITIONS}; of input {INPUT_SPLIT}."
    )


def skew(*, by_data: bool | None) -> str:
    """Of a stage with tasks that take several times as long as the median."""
    if by_data is False:
        return (
            "Its slowest task has no more data than the others, so look at its host: spark.speculation=true (with "
            "spark.speculation.multiplier and spark.speculation.quantile) starts such tasks elsewhere, and "
            "spark.excludeOnFailure.enabled keeps off hosts on which tasks fail."
        )
    return (
        "Make the partitions even: spark.sql.adaptive.skewJoin.enabled splits those of joins, "
        f"{PARTITIONS} and salted keys those of other shuffles, {INPUT_SPLIT} those of input; spark.speculation=true "
        "helps where the host is slow, not where the data is uneven."
    )


def spill() -> str:
    """Of a stage that spills what does not fit into memory."""
    return (
        f"Give each task less data or more memory: raise {PARTITIONS}; of input lower {INPUT_SPLIT}; raise "
        "spark.executor.memory or spark.memory.fraction, or lower spark.executor.cores."
    )


def long_tasks(*, reads_input: bool) -> str:
    """Of a stage whose median task takes long."""
    if reads_input:
        return f"Lower {INPUT_SPLIT} so that more tasks share the input; files that cannot be split need another form."
    return f"Raise {PARTITIONS} so that more tasks share the work; above some 4,000 look at the code."


def task_failures() -> str:
    """Of a stage whose tasks fail."""
    return (
        "Read why they failed: out of memory needs spark.executor.memory, a container killed by YARN "
        "spark.executor.memoryOverhead, one bad host spark.excludeOnFailure.enabled; spark.task.maxFailures says how "
        "often a task may fail."
    )


__all__ = [
    "executors", "failures", "gc", "gc_too_low", "long_tasks", "skew", "spill", "stage_time", "task_failures",
]  # fmt: skip
