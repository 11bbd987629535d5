"""The same heuristics, with the same thresholds, without the faults of the original.

What is corrected, and why:

- Two groups are those with the least squares of distances to their means. The original takes the difference of two
  means for the next middle, so that sizes which are all alike fall into groups at random.
- Ratios are divided as numbers: a deviation of 1.99 is none of 1, and 2.01 spills per record are 2.01.
- The score of skew is that of its severity, whether bytes or times told it.
- Bytes read are those of every file system but the local one, not of HDFS and S3 alone.
- A counter that is not there is not 0, and a map that read nothing has no speed.
- A map that ran for 0 ms is left out of speeds; the original ends in an error.
- A container is compared with the greatest peak of a task (`*_PHYSICAL_MEMORY_BYTES_MAX` where Hadoop counts it), not
  with the average of what the tasks had at their end: made smaller by the average, it would kill the largest. Its size
  is known from the configuration, also where Hadoop computes it from the heap, or it is not known; never 2048 MB.
- GC is compared with processor time as sums: long tasks count more than short ones.
- Sizes of cached files that do not fit their names are not known, in place of moderate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from app.heuristics import advice
from app.heuristics.dr_elephant import distributed_cache, exception
from app.heuristics.figures import BLOCK_SIZE, FAILED, MEMORY_MB, MIB, SUCCEEDED, JobFigures, TaskFigures
from app.heuristics.known import CONF_MISSING, Heuristic, lacking, untimed
from app.heuristics.severity import Finding, Measure, Severity, found, not_known
from app.heuristics.thresholds import (
    CONTAINER_BYTES,
    DISK_SPEED,
    GC_RATIO,
    GC_RUN_MS,
    LONG_RUN_MS,
    MEMORY_RATIO,
    SHORT_RUN_MS,
    SHUFFLE_RATIO,
    SHUFFLE_RUN_MS,
    SKEW_BLOCKS,
    SKEW_DEVIATION,
    SKEW_TASKS,
    SPEED_RUN_MS,
    SPILL_RATIO,
    SPILL_TASKS,
    TIME_TASKS,
    UNKNOWN_BLOCK_BYTES,
)
from collectors.hadoop_ids import TaskKind

PEAK = {"MAP": "MAP_PHYSICAL_MEMORY_BYTES_MAX", "REDUCE": "REDUCE_PHYSICAL_MEMORY_BYTES_MAX"}
AT_END = "PHYSICAL_MEMORY_BYTES"

HEAP_OF_BOTH = "mapred.child.java.opts"
"""Of tasks without options of their own (JobConf.getTaskJavaOpts)."""
HEAP = {"MAP": "mapreduce.map.java.opts", "REDUCE": "mapreduce.reduce.java.opts"}
HEAP_RATIO = "mapreduce.job.heap.memory-mb.ratio"
DEFAULT_HEAP_RATIO, DEFAULT_CONTAINER_MB = 0.8, 1024
"""What Hadoop computes a container of -1 MB with (mapred-default.xml)."""

SPARE, ROUND_MB = 1.2, 256
"""A container that is advised has that much room above the greatest peak, in whole steps."""

_XMX = re.compile(r"-Xmx([0-9]{1,15})([kmgt]?)", re.IGNORECASE)


def mean(values: Sequence[float]) -> float:
    """NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def median(values: Sequence[float]) -> float:
    """NaN of nothing."""
    ordered, middle = sorted(values), len(values) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def two_groups(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """(smaller values, larger ones), cut where the sum of squares within both is least; all alike: one group."""
    ordered = sorted(values)
    n, total = len(ordered), sum(ordered)
    best, best_k, cut = 0, 0, n
    for k, below in zip(range(1, n), accumulate(ordered), strict=False):
        if ordered[k - 1] == ordered[k]:
            continue
        # Least squares within are the most between, k (n - k) (mean2 - mean1)^2, here as distance^2 / (k (n - k)).
        distance = (total - below) * k - below * (n - k)
        if best == 0 or distance**2 * best_k * (n - best_k) > best * k * (n - k):
            best, best_k, cut = distance**2, k, k
    return ordered[:cut], ordered[cut:]


def read_bytes(task: TaskFigures) -> int | None:
    """What a map read from all file systems but the local one; None where no counter tells."""
    counters = task.counters or {}
    told = [n for name, n in counters.items() if name.endswith("_BYTES_READ") and name != "FILE_BYTES_READ"]
    return sum(told) if told else None


def container_bytes(job: JobFigures, kind: TaskKind) -> int | None:
    """The size of a task's container by the job's settings; None where they do not tell."""
    if job.settings is None:
        return None
    asked_mb = job.whole_number(MEMORY_MB[kind])
    if asked_mb is not None and asked_mb > 0:
        return asked_mb * MIB
    if asked_mb is None:
        return None
    heap = _XMX.search(job.settings.get(HEAP[kind]) or job.settings.get(HEAP_OF_BOTH, ""))
    if heap is None:
        return DEFAULT_CONTAINER_MB * MIB
    try:
        ratio = float(job.settings.get(HEAP_RATIO, DEFAULT_HEAP_RATIO))
    except ValueError:
        return None
    heap_mb = (int(heap[1]) << (10 * " kmgt".index(heap[2].lower() or " "))) // MIB
    return math.ceil(heap_mb / ratio) * MIB if 0 < ratio <= 1 and heap_mb else None


def peak_bytes(kind: TaskKind, counters: Mapping[str, int] | None) -> int | None:
    """The greatest physical memory of an attempt, as far as its counters tell; None where they do not (0: not read)."""
    told = [(counters or {}).get(name, 0) for name in (PEAK[kind], AT_END)]
    return max(told) or None


def mapper_skew(job: JobFigures) -> Finding:
    """Maps in two groups by bytes read and by run time."""
    return _skew(job, "mapper-skew", "MAP")


def reducer_skew(job: JobFigures) -> Finding:
    """Reducers in two groups by bytes shuffled and by run time."""
    return _skew(job, "reducer-skew", "REDUCE")


def mapper_gc(job: JobFigures) -> Finding:
    """Garbage collection of maps against their processor time."""
    return _gc(job, "mapper-gc", "MAP")


def reducer_gc(job: JobFigures) -> Finding:
    """Garbage collection of reducers against their processor time."""
    return _gc(job, "reducer-gc", "REDUCE")


def mapper_time(job: JobFigures) -> Finding:
    """Maps that are too short for their number, or too long."""
    return _time(job, "mapper-time", "MAP")


def reducer_time(job: JobFigures) -> Finding:
    """Reducers that are too short for their number, or too long."""
    return _time(job, "reducer-time", "REDUCE")


def mapper_memory(job: JobFigures) -> Finding:
    """The greatest peak of a map against its container."""
    return _memory(job, "mapper-memory", "MAP")


def reducer_memory(job: JobFigures) -> Finding:
    """The greatest peak of a reducer against its container."""
    return _memory(job, "reducer-memory", "REDUCE")


def mapper_speed(job: JobFigures) -> Finding:
    """Bytes per second that the median map reads."""
    name, n = "mapper-speed", len(job.maps)
    if (lack := lacking(job, "MAP")) is not None:
        return not_known(name, n, lack)
    if not n:
        return Finding(name, Severity.NONE, 0, 0)
    told = [(task.task_id, read_bytes(task), task.run_ms) for task in job.maps]
    measured = [(task_id, 1000 * n_bytes / run_ms, run_ms) for task_id, n_bytes, run_ms in told if n_bytes and run_ms]
    if not measured:
        return not_known(name, n, "no counter tells that a map read anything from a shared file system")
    speed = Measure("median speed", median([speed for _, speed, _ in measured]), "bytes/s", DISK_SPEED)
    run = Measure("median run time", median([run_ms for *_, run_ms in measured]), "ms", SPEED_RUN_MS)
    slowest = [task_id for task_id, _, _ in sorted(measured, key=lambda one: (one[1], one[0]))]
    return found(name, min(speed.severity, run.severity), n, (speed, run), slowest, advice.speed())


def mapper_spill(job: JobFigures) -> Finding:
    """Records that maps wrote to disk against those that they gave."""
    name, n = "mapper-spill", len(job.maps)
    if (lack := lacking(job, "MAP")) is not None:
        return not_known(name, n, lack)
    known = _with(job.maps, "SPILLED_RECORDS", "MAP_OUTPUT_RECORDS")
    if n and not known:
        if job.n_reduces == 0:
            return Finding(name, Severity.NONE, 0, n, note="a job without reducers sorts and spills nothing")
        return not_known(name, n, "no map has the counters SPILLED_RECORDS and MAP_OUTPUT_RECORDS")
    spilled = sum(task.counted("SPILLED_RECORDS") for task in known)
    given = sum(task.counted("MAP_OUTPUT_RECORDS") for task in known)
    ratio = 0.0 if not spilled else spilled / given if given else math.inf
    share = Measure("spilled records per record", ratio, "", SPILL_RATIO)
    tasks = Measure("tasks", n, "tasks", SPILL_TASKS)
    worst = sorted(known, key=lambda task: (-task.counted("SPILLED_RECORDS"), task.task_id))
    ids = [task.task_id for task in worst]
    return found(name, min(share.severity, tasks.severity), n, (share, tasks), ids, advice.spill())


def shuffle_sort(job: JobFigures) -> Finding:
    """Time that reducers spend in shuffle and in sort against that in their own code."""
    name, n = "shuffle-sort", len(job.reduces)
    if (lack := untimed(job, "REDUCE")) is not None:
        return not_known(name, n, lack)
    if not n:
        return Finding(name, Severity.NONE, 0, 0)
    timed = [
        (task.task_id, task.run_ms, task.shuffle_ms, task.sort_ms)
        for task in job.reduces
        if task.run_ms is not None and task.shuffle_ms is not None and task.sort_ms is not None
    ]
    if not timed:
        return not_known(name, n, "no source tells how long a reducer shuffled and sorted")
    code_ms = mean([run - shuffle - sort for _, run, shuffle, sort in timed])
    parts = []
    for what, place in (("shuffle", 2), ("sort", 3)):
        took = {str(one[0]): int(one[place]) for one in timed}
        run = Measure(f"average {what} time", mean([*took.values()]), "ms", SHUFFLE_RUN_MS)
        share = run.value * 2 / code_ms if code_ms > 0 else math.inf if run.value else 0.0
        ratio = Measure(f"twice {what} time by time in code", share, "", SHUFFLE_RATIO)
        parts.append((min(run.severity, ratio.severity), what, (run, ratio), took))
    parts.sort(key=lambda part: -part[0])  # of equal ones the shuffle stays first
    severity, what, _, took = parts[0]
    worst = sorted(took, key=lambda task_id: (-took[task_id], task_id))
    measures = tuple(measure for part in parts for measure in part[2])
    return found(name, severity, n, measures, worst, advice.shuffle(of_sort=what == "sort"))


def cached_files(job: JobFigures) -> Finding | None:
    """Files and archives in the distributed cache; None for a job without any."""
    each = [cached for kind in ("files", "archives") if (cached := _cached_of(job, kind)) is not None]
    unknown = [cached for cached in each if cached.severity is None]
    critical = [cached for cached in each if cached.severity == Severity.CRITICAL]
    return (critical or unknown)[0] if unknown else distributed_cache(job)


def _cached_of(job: JobFigures, kind: str) -> Finding | None:
    names = {f"mapreduce.job.cache.{kind}{what}" for what in ("", ".filesizes")}
    told = names & set(job.settings or ())
    if told and told != names:
        return not_known("distributed-cache", 0, f"of cached {kind} either names or sizes are not told")
    others = {name: text for name, text in (job.settings or {}).items() if name in names or ".cache." not in name}
    finding = distributed_cache(job if job.settings is None else replace(job, settings=others))
    if finding is not None and finding.severity == Severity.MODERATE:
        return not_known(finding.heuristic, 0, f"{finding.note}: which is how large cannot be told")
    return finding


HEURISTICS: tuple[Heuristic, ...] = (
    mapper_skew, mapper_gc, mapper_time, mapper_speed, mapper_spill, mapper_memory, reducer_skew, reducer_gc,
    reducer_time, reducer_memory, shuffle_sort, cached_files,
)  # fmt: skip
OF_RUNNING: Mapping[TaskKind, tuple[Heuristic, ...]] = {
    "MAP": (mapper_skew, mapper_gc, mapper_time, mapper_speed, mapper_spill),
    "REDUCE": (reducer_skew, reducer_gc, reducer_time, shuffle_sort),
}
"""What can be told of tasks that are done while others run: before the end nobody tells of memory and settings."""
OF_FAILED: tuple[Heuristic, ...] = (exception,)


def judge(job: JobFigures) -> list[Finding]:
    """What the heuristics find of a job; nothing of one that neither succeeded nor failed."""
    chosen = HEURISTICS if job.status == SUCCEEDED else OF_FAILED if job.status == FAILED else ()
    return [finding for heuristic in chosen if (finding := heuristic(job)) is not None]


def judge_so_far(job: JobFigures) -> list[Finding]:
    """What the heuristics find of the tasks of a running job that have succeeded; nothing of a kind without any."""
    found_now = [heuristic(job) for kind, chosen in OF_RUNNING.items() if job.tasks(kind) for heuristic in chosen]
    return [finding for finding in found_now if finding is not None]


def _skew(job: JobFigures, name: str, kind: TaskKind) -> Finding:
    tasks = job.tasks(kind)
    if (lack := untimed(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    timed = [(task.run_ms, task.task_id) for task in tasks if task.run_ms is not None]
    short, long = two_groups([run_ms for run_ms, _ in timed])
    of_time = (
        Measure("deviation of run time", _deviation(short, long, 1000), "", SKEW_DEVIATION),
        Measure("tasks of the shorter group", len(short), "tasks", SKEW_TASKS),
    )
    counted = [(n_bytes, task.task_id) for task in tasks if (n_bytes := _taken(task, kind)) is not None]
    few, many = two_groups([n_bytes for n_bytes, _ in counted])
    block = job.size_bytes(BLOCK_SIZE) or UNKNOWN_BLOCK_BYTES
    of_data = (
        Measure("deviation of bytes", _deviation(few, many, 1), "", SKEW_DEVIATION),
        Measure("average of the larger group", mean(many) if many else 0, "bytes", SKEW_BLOCKS.scaled(block)),
        Measure("tasks of the smaller group", len(few), "tasks", SKEW_TASKS),
    )
    severity_data, severity_time = (min(one.severity for one in part) for part in (of_data, of_time))
    if tasks and not counted and severity_time < Severity.CRITICAL:
        return not_known(name, len(tasks), lacking(job, kind) or "no counter tells how much a task read", of_time)
    by_time = severity_time > severity_data
    measures = (*of_time, *of_data) if by_time and counted else of_time if by_time else (*of_data, *of_time)
    worst = sorted(timed if by_time else counted, key=lambda one: (-one[0], one[1]))
    ids = [task_id for _, task_id in worst[: len(long if by_time else many)]]
    severity = max(severity_data, severity_time)
    return found(name, severity, len(tasks), measures, ids, advice.skew(kind, of_time=by_time))


def _gc(job: JobFigures, name: str, kind: TaskKind) -> Finding:
    tasks = job.tasks(kind)
    if (lack := lacking(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    if not tasks:
        return Finding(name, Severity.NONE, 0, 0)
    known = _with(tasks, "GC_TIME_MILLIS", "CPU_MILLISECONDS")
    cpu_ms = sum(task.counted("CPU_MILLISECONDS") for task in known)
    if not cpu_ms:
        return not_known(name, len(tasks), "no task has the counters GC_TIME_MILLIS and CPU_MILLISECONDS above 0")
    ratio = Measure("GC time by processor time", sum(t.counted("GC_TIME_MILLIS") for t in known) / cpu_ms, "", GC_RATIO)
    run = Measure("average run time", mean([t.run_ms for t in known if t.run_ms is not None]), "ms", GC_RUN_MS)
    if math.isnan(run.value):
        return not_known(name, len(tasks), "no source tells how long a task with these counters ran")
    worst = sorted(known, key=lambda task: (-task.counted("GC_TIME_MILLIS"), task.task_id))
    ids = [task.task_id for task in worst]
    return found(name, min(ratio.severity, run.severity), len(tasks), (ratio, run), ids, advice.gc(kind))


def _time(job: JobFigures, name: str, kind: TaskKind) -> Finding:
    tasks = job.tasks(kind)
    if (lack := untimed(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    if not tasks:
        return Finding(name, Severity.NONE, 0, 0)
    known = {task.task_id: task.run_ms for task in tasks if task.run_ms is not None}
    run_ms = mean([*known.values()])
    short = Measure("average run time", run_ms, "ms", SHORT_RUN_MS)
    count = Measure("tasks", len(tasks), "tasks", TIME_TASKS)
    long = Measure("average run time", run_ms, "ms", LONG_RUN_MS)
    severity_short = min(short.severity, count.severity)
    is_long = long.severity > severity_short
    worst = sorted(known, key=lambda task_id: (known[task_id] * (-1 if is_long else 1), task_id))
    said = advice.long(kind) if is_long else advice.short(kind)
    measures = (long,) if is_long else (short, count)
    return found(name, max(severity_short, long.severity), len(tasks), measures, worst, said)


def _memory(job: JobFigures, name: str, kind: TaskKind) -> Finding:
    tasks = job.tasks(kind)
    if (lack := lacking(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    if not tasks:
        return Finding(name, Severity.NONE, 0, 0)
    if job.settings is None:
        return not_known(name, len(tasks), CONF_MISSING)
    container = container_bytes(job, kind)
    if container is None:
        return not_known(name, len(tasks), f"its configuration does not tell {MEMORY_MB[kind]}")
    peaks = [(peak, task.task_id) for task in tasks if (peak := peak_bytes(kind, task.counters))]
    if not peaks:
        return not_known(name, len(tasks), f"no task has the counter {AT_END} above 0")
    largest = max(peaks)[0]
    ratio = Measure("greatest peak by container", largest / container, "", MEMORY_RATIO)
    size = Measure("container", container, "bytes", CONTAINER_BYTES)
    suggested_mb = math.ceil(largest * SPARE / MIB / ROUND_MB) * ROUND_MB
    severity = min(ratio.severity, size.severity)
    worst = [task_id for _, task_id in sorted(peaks, key=lambda one: (-one[0], one[1]))]
    return found(name, severity, len(tasks), (ratio, size), worst, advice.memory(kind, suggested_mb))


def _taken(task: TaskFigures, kind: TaskKind) -> int | None:
    return read_bytes(task) if kind == "MAP" else (task.counters or {}).get("REDUCE_SHUFFLE_BYTES")


def _with(tasks: Sequence[TaskFigures], *names: str) -> list[TaskFigures]:
    return [task for task in tasks if task.counters is not None and all(name in task.counters for name in names)]


def _deviation(small: Sequence[int], large: Sequence[int], least: float) -> float:
    """How many times as far the means of two groups lie apart as the smaller one is; 0 of a single group."""
    if not small or not large:
        return 0.0
    first, second = mean(small), mean(large)
    return abs(second - first) / max(min(first, second), least)


__all__ = [
    "HEURISTICS", "OF_FAILED", "OF_RUNNING", "cached_files", "container_bytes", "judge", "judge_so_far", "mapper_gc",
    "mapper_memory", "mapper_skew", "mapper_speed", "mapper_spill", "mapper_time", "peak_bytes", "read_bytes",
    "reducer_gc", "reducer_memory", "reducer_skew", "reducer_time", "shuffle_sort", "two_groups",
]  # fmt: skip
