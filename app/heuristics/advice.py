"""What to change, by heuristic: each names the setting."""

from __future__ import annotations

from collectors.hadoop_ids import TaskKind

SPLIT_MAX = "mapreduce.input.fileinputformat.split.maxsize"
SPLIT_MIN = "mapreduce.input.fileinputformat.split.minsize"
REDUCES = "mapreduce.job.reduces"

_NAME = {"MAP": "map", "REDUCE": "reduce"}


def skew(kind: TaskKind, *, of_time: bool) -> str:
    """Of tasks that read, or take, several times as much as the others."""
    if kind == "REDUCE":
        return (
            "A few reducers get most of the data: change mapreduce.job.partitioner.class or salt the keys that are "
            f"most frequent; more reducers ({REDUCES}) help where no single key is that large."
        )
    if of_time:
        return (
            "Some maps take several times as long as the others: look at their hosts and records; lower "
            f"{SPLIT_MAX} so that none has that much to do."
        )
    return (
        f"Some maps read several times as much as the others: set {SPLIT_MAX} below the larger ones, or combine small "
        "files (mapreduce.job.inputformat.class: a CombineFileInputFormat); files that cannot be split need another "
        "compression."
    )


def gc(kind: TaskKind) -> str:
    """Of tasks that spend their time in garbage collection."""
    name = _NAME[kind]
    return (
        f"Raise the heap (-Xmx in mapreduce.{name}.java.opts) together with mapreduce.{name}.memory.mb, or hold fewer "
        "objects in the task's code."
    )


def short(kind: TaskKind) -> str:
    """Of tasks that are too short."""
    if kind == "REDUCE":
        return f"Lower {REDUCES}: each reducer takes longer to start than its work is worth."
    return f"Raise {SPLIT_MIN}, or combine small files (CombineFileInputFormat), so that fewer maps do more each."


def long(kind: TaskKind) -> str:
    """Of tasks that are too long."""
    if kind == "REDUCE":
        return f"Raise {REDUCES} so that each reducer has less to do."
    return f"Lower {SPLIT_MAX} so that more maps share the work; files that cannot be split need another compression."


def speed() -> str:
    """Of maps that read slowly."""
    return (
        "The maps read far slower than a disk does: look at their own code and at remote reads; lower "
        f"{SPLIT_MAX} so that more maps share the work, or compress the input."
    )


def spill() -> str:
    """Of maps that write records several times."""
    return (
        "Raise mapreduce.task.io.sort.mb (within the heap of mapreduce.map.java.opts) or "
        "mapreduce.map.sort.spill.percent until a map spills once; a combiner (mapreduce.job.combine.class) writes "
        "fewer records."
    )


def memory(kind: TaskKind, suggested_mb: int | None = None) -> str:
    """Of containers that are larger than their tasks need."""
    name = _NAME[kind]
    to = "" if suggested_mb is None else f" to about {suggested_mb}"
    return (
        f"Lower mapreduce.{name}.memory.mb{to}, and -Xmx in mapreduce.{name}.java.opts with it (to 0.8 of it): the "
        "rest of each container is held and not used."
    )


def shuffle(*, of_sort: bool) -> str:
    """Of reducers that wait for their input, or merge it, longer than they work."""
    if of_sort:
        return (
            "Raise mapreduce.task.io.sort.factor and mapreduce.reduce.shuffle.input.buffer.percent so that less is "
            f"merged on disk, or {REDUCES} so that each reducer merges less."
        )
    return (
        "Raise mapreduce.job.reduce.slowstart.completedmaps so that reducers do not wait in their containers for maps; "
        "where all maps are done, mapreduce.reduce.shuffle.parallelcopies, or mapreduce.map.output.compress=true."
    )


def exception() -> str:
    """Of a job that failed."""
    return "Read the diagnostics and the logs of the attempts that failed; retries end at mapreduce.map.maxattempts."


def cache() -> str:
    """Of a cached file that is too large, or whose size is not told."""
    return (
        "Keep large files out of mapreduce.job.cache.files and mapreduce.job.cache.archives: each node that runs a "
        "task copies them; read them from HDFS, or raise their replication (mapreduce.client.submit.file.replication)."
    )


__all__ = ["cache", "exception", "gc", "long", "memory", "short", "shuffle", "skew", "speed", "spill"]
