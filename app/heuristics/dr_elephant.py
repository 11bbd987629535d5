"""The registered MapReduce heuristics exactly as Dr. Elephant computes them (linkedin/dr-elephant, master 916c25d).

Its arithmetic is part of it: averages are sums of doubles cut to whole numbers, ratios of whole numbers are divided as
such, and its faults stay (see `corrected` for what they are). Sampling of tasks, off by default there, is left out.
Where its own calculation ends in an error (a median of nothing, a division by zero) or what it reads is not there, the
severity is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from app.heuristics import advice
from app.heuristics.figures import BLOCK_SIZE, FAILED, MEMORY_MB, MIB, SUCCEEDED, JobFigures, TaskFigures
from app.heuristics.known import CONF_MISSING, Heuristic, lacking, untimed
from app.heuristics.severity import MAX_TASKS_TOLD, Finding, Limits, Measure, Severity, found, not_known
from app.heuristics.thresholds import (
    CACHED_FILE_BYTES,
    CONTAINER_BYTES,
    DEFAULT_CONTAINER_MB,
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

BYTES_READ = ("HDFS_BYTES_READ", "S3_BYTES_READ", "S3A_BYTES_READ", "S3N_BYTES_READ")
SHUFFLED = ("REDUCE_SHUFFLE_BYTES",)

SPILL_FACTOR = 10_000
"""The ratio of spilled records is cut to so many parts before it is compared."""


_LONG_DIGITS = 19
_MAX_LONG = (1 << 63) - 1


def average(values: Sequence[int]) -> int:
    """The mean, cut to a whole number; 0 of nothing."""
    total = 0.0
    for value in values:
        total += value
    return int(total / len(values)) if values else 0


def median(values: Sequence[int]) -> int:
    """The middle value, or the mean of both, cut to a whole number; raises ValueError for nothing."""
    if not values:
        raise ValueError("the median of nothing")
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def two_groups(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """(values below the middle, the others): the middle is first the mean, then twice the difference of both means."""
    middle = average(values)
    for _ in range(2):
        small, large = _parted(values, middle)
        middle = average(large) - average(small)
    return _parted(values, middle)


def mapper_skew(job: JobFigures) -> Finding:
    """Maps in two groups by bytes read and by run time."""
    return _skew(job, "mapper-skew", "MAP", BYTES_READ)


def reducer_skew(job: JobFigures) -> Finding:
    """Reducers in two groups by bytes shuffled and by run time."""
    return _skew(job, "reducer-skew", "REDUCE", SHUFFLED)


def mapper_gc(job: JobFigures) -> Finding:
    """Garbage collection of maps against their processor time."""
    return _gc(job, "mapper-gc", "MAP")


def reducer_gc(job: JobFigures) -> Finding:
    """Garbage collection of reducers against their processor time."""
    return _gc(job, "reducer-gc", "REDUCE")


def mapper_time(job: JobFigures) -> Finding:
    """Maps that are too short for their number, or too long; of those whose times and counters are there."""
    return _time(job, "mapper-time", "MAP", [task for task in job.maps if _has_both(task)])


def reducer_time(job: JobFigures) -> Finding:
    """Reducers that are too short for their number, or too long."""
    return _time(job, "reducer-time", "REDUCE", [task for task in job.reduces if task.run_ms is not None])


def mapper_memory(job: JobFigures) -> Finding:
    """Physical memory of maps against their containers."""
    return _memory(job, "mapper-memory", "MAP")


def reducer_memory(job: JobFigures) -> Finding:
    """Physical memory of reducers against their containers."""
    return _memory(job, "reducer-memory", "REDUCE")


def mapper_speed(job: JobFigures) -> Finding:
    """Bytes per second that the median map reads."""
    name, n = "mapper-speed", len(job.maps)
    if (lack := lacking(job, "MAP")) is not None:
        return not_known(name, n, lack)
    measured = [(task, task.counted(*BYTES_READ), task.run_ms or 0) for task in job.maps if _has_both(task)]
    if n and not measured:
        return not_known(name, n, "no map has both times and counters; Dr. Elephant ends in an error there")
    if any(run_ms == 0 for _, _, run_ms in measured):
        return not_known(name, n, "a map ran for 0 ms; Dr. Elephant ends in a division by zero there")
    speeds = [1000 * n_bytes // run_ms for _, n_bytes, run_ms in measured]
    speed = Measure("median speed", median(speeds) if n else 0, "bytes/s", DISK_SPEED)
    run = Measure("median run time", median([run_ms for *_, run_ms in measured]) if n else 0, "ms", SPEED_RUN_MS)
    slowest = [task.task_id for _, task in sorted(zip(speeds, (one[0] for one in measured), strict=True), key=_first)]
    return found(name, min(speed.severity, run.severity), n, (speed, run), slowest, advice.speed())


def mapper_spill(job: JobFigures) -> Finding:
    """Records that maps wrote to disk against those that they gave."""
    name, n = "mapper-spill", len(job.maps)
    if (lack := lacking(job, "MAP")) is not None:
        return not_known(name, n, lack)
    spilled = sum(task.counted("SPILLED_RECORDS") for task in job.maps)
    given = sum(task.counted("MAP_OUTPUT_RECORDS") for task in job.maps)
    ratio = 0.0 if not spilled else spilled / given if given else float("inf")
    cut = ratio if ratio == float("inf") else int(ratio * SPILL_FACTOR) / SPILL_FACTOR
    share = Measure("spilled records per record", cut, "", SPILL_RATIO)
    tasks = Measure("tasks", n, "tasks", SPILL_TASKS)
    worst = _most(job.maps, lambda task: task.counted("SPILLED_RECORDS"))
    return found(name, min(share.severity, tasks.severity), n, (share, tasks), worst, advice.spill())


def shuffle_sort(job: JobFigures) -> Finding:
    """Time that reducers spend in shuffle and in sort against that in their own code."""
    name, n = "shuffle-sort", len(job.reduces)
    if (lack := untimed(job, "REDUCE")) is not None:
        return not_known(name, n, lack)
    timed = [task for task in job.reduces if task.run_ms is not None]
    if any(task.shuffle_ms is None or task.sort_ms is None for task in timed):
        return not_known(name, n, "no source tells how long a reducer shuffled and sorted")
    phases = [(task.run_ms or 0, task.shuffle_ms or 0, task.sort_ms or 0) for task in timed]
    code_ms = average([run - shuffle - sort for run, shuffle, sort in phases])
    parts: list[tuple[Severity, str, tuple[Measure, ...]]] = []
    for what, place in (("shuffle", 1), ("sort", 2)):
        took_ms = average([phase[place] for phase in phases])
        run = Measure(f"average {what} time", took_ms, "ms", SHUFFLE_RUN_MS)
        if code_ms <= 0:
            parts.append((run.severity, what, (run,)))
            continue
        ratio = Measure(f"twice {what} time by time in code", took_ms * 2 // code_ms, "", SHUFFLE_RATIO)
        parts.append((min(run.severity, ratio.severity), what, (run, ratio)))
    parts.sort(key=lambda part: -part[0])  # of equal ones the shuffle stays first
    severity, what, _ = parts[0]
    worst = _most(timed, lambda task: (task.shuffle_ms if what == "shuffle" else task.sort_ms) or 0)
    measures = tuple(measure for part in parts for measure in part[2])
    return found(name, severity, n, measures, worst, advice.shuffle(of_sort=what == "sort"))


def exception(job: JobFigures) -> Finding | None:
    """A failed job, with its diagnostics; None for one that succeeded."""
    if job.status != FAILED:
        return None
    told = job.diagnostics or "the history tells no diagnostics"
    return Finding("exception", Severity.MODERATE, 0, 0, advice=advice.exception(), note=told)


def _size_of(text: str) -> int:
    """0 of what is no number of the range of a long."""
    digits = text.lstrip("0")
    is_long = text.isascii() and text.isdigit() and 0 < len(digits) <= _LONG_DIGITS and int(digits) <= _MAX_LONG
    return int(digits) if is_long else 0


def distributed_cache(job: JobFigures) -> Finding | None:
    """Files and archives in the distributed cache; None for a job without any. The score stays 0."""
    name = "distributed-cache"
    if job.settings is None:
        return not_known(name, 0, CONF_MISSING)
    severity, large, measures, was_told = Severity.NONE, list[str](), list[Measure](), False
    limit = _above(CACHED_FILE_BYTES)
    for kind in ("files", "archives"):
        names = job.settings.get(f"mapreduce.job.cache.{kind}")
        sizes = job.settings.get(f"mapreduce.job.cache.{kind}.filesizes")
        if names is None or sizes is None:
            continue
        was_told = True
        files, counts = _split(names), _split(sizes)
        if len(files) != len(counts):
            note = f"{len(files)} cached {kind} stand beside {len(counts)} sizes"
            return Finding(name, Severity.MODERATE, 0, 0, advice=advice.cache(), note=note)
        for file, text in zip(files, counts, strict=True):
            size = _size_of(text)
            if size > CACHED_FILE_BYTES:
                severity = Severity.CRITICAL
                large.append(file)
                measures.append(Measure(f"size of {file}", size, "bytes", limit))
    if not was_told:
        return None
    measures.sort(key=lambda measure: -measure.value)
    return found(name, severity, 0, tuple(measures[:MAX_TASKS_TOLD]), large, advice.cache())


HEURISTICS: tuple[Heuristic, ...] = (
    mapper_skew, mapper_gc, mapper_time, mapper_speed, mapper_spill, mapper_memory, reducer_skew, reducer_gc,
    reducer_time, reducer_memory, shuffle_sort, distributed_cache,
)  # fmt: skip
"""Of jobs that succeeded, in the order of HeuristicConf.xml; Job Queue Limit is not registered there."""

OF_FAILED: tuple[Heuristic, ...] = (exception,)


def judge(job: JobFigures) -> list[Finding]:
    """What the heuristics find of a job; nothing of one that neither succeeded nor failed."""
    chosen = HEURISTICS if job.status == SUCCEEDED else OF_FAILED if job.status == FAILED else ()
    return [finding for heuristic in chosen if (finding := heuristic(job)) is not None]


# ---- the heuristics of both kinds --------------------------------------------------------------------------------


def _skew(job: JobFigures, name: str, kind: TaskKind, counters: tuple[str, ...]) -> Finding:
    tasks = job.tasks(kind)
    if (lack := lacking(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    timed = [(task.run_ms, task.task_id) for task in tasks if task.run_ms is not None]
    small, large = two_groups([run_ms for run_ms, _ in timed])
    deviation = _deviation(average(small) // 1000, average(large) // 1000)
    of_time = (
        Measure("deviation of run time", deviation, "", SKEW_DEVIATION),
        Measure("tasks of the shorter group", len(small), "tasks", SKEW_TASKS),
    )
    counted = [(task.counted(*counters), task.task_id) for task in tasks if task.counters is not None]
    few, many = two_groups([n_bytes for n_bytes, _ in counted])
    block = job.size_bytes(BLOCK_SIZE) or UNKNOWN_BLOCK_BYTES
    of_data = (
        Measure("deviation of bytes", _deviation(average(few), average(many)), "", SKEW_DEVIATION),
        Measure("average of the larger group", average(many), "bytes", SKEW_BLOCKS.scaled(block)),
        Measure("tasks of the smaller group", len(few), "tasks", SKEW_TASKS),
    )
    severity_data, severity_time = _least(of_data), _least(of_time)
    by_time = severity_time > severity_data
    measures = (*of_time, *of_data) if by_time else (*of_data, *of_time)
    worst = [task_id for _, task_id in sorted(timed if by_time else counted, key=lambda one: (-one[0], one[1]))]
    said = advice.skew(kind, of_time=by_time)
    n_behind = len(large if by_time else many)
    severity = max(severity_data, severity_time)
    return found(name, severity, len(tasks), measures, worst[:n_behind], said, scored=severity_data)


def _gc(job: JobFigures, name: str, kind: TaskKind) -> Finding:
    tasks = job.tasks(kind)
    if (lack := lacking(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    known = [task for task in tasks if _has_both(task)]
    gc_ms = average([task.counted("GC_TIME_MILLIS") for task in known])
    cpu_ms = average([task.counted("CPU_MILLISECONDS") for task in known])
    share = gc_ms / cpu_ms if cpu_ms else float("inf") if gc_ms else float("nan")
    ratio = Measure("average GC time by processor time", share, "", GC_RATIO)
    run = Measure("average run time", average([task.run_ms or 0 for task in known]), "ms", GC_RUN_MS)
    severity = min(ratio.severity, run.severity) if tasks else Severity.NONE
    worst = _most(known, lambda task: task.counted("GC_TIME_MILLIS"))
    return found(name, severity, len(tasks), (ratio, run), worst, advice.gc(kind))


def _time(job: JobFigures, name: str, kind: TaskKind, known: Sequence[TaskFigures]) -> Finding:
    tasks = job.tasks(kind)
    if (lack := lacking(job, kind) if kind == "MAP" else untimed(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    run_ms = average([task.run_ms or 0 for task in known])
    short = Measure("average run time", run_ms, "ms", SHORT_RUN_MS)
    count = Measure("tasks", len(tasks), "tasks", TIME_TASKS)
    long = Measure("average run time", run_ms, "ms", LONG_RUN_MS)
    severity_short = min(short.severity, count.severity)
    if long.severity > severity_short:
        measures: tuple[Measure, ...] = (long,)
    else:
        measures = (short, count)
    is_long = measures[0] is long
    worst = sorted(known, key=lambda task: ((task.run_ms or 0) * (-1 if is_long else 1), task.task_id))
    said = advice.long(kind) if is_long else advice.short(kind)
    ids = [task.task_id for task in worst]
    return found(name, max(severity_short, long.severity), len(tasks), measures, ids, said)


def _memory(job: JobFigures, name: str, kind: TaskKind) -> Finding:
    tasks = job.tasks(kind)
    if (lack := lacking(job, kind)) is not None:
        return not_known(name, len(tasks), lack)
    if job.settings is None:
        return not_known(name, len(tasks), CONF_MISSING)
    asked_mb = job.whole_number(MEMORY_MB[kind])
    container = (DEFAULT_CONTAINER_MB if asked_mb is None or asked_mb < 0 else asked_mb) * MIB
    known = [task for task in tasks if _has_both(task)]
    used = average([task.counted("PHYSICAL_MEMORY_BYTES") for task in known])
    share = used / container if container else float("inf") if used else float("nan")
    ratio = Measure("average physical memory by container", share, "", MEMORY_RATIO)
    size = Measure("container", container, "bytes", CONTAINER_BYTES)
    severity = min(ratio.severity, size.severity) if tasks else Severity.NONE
    least = sorted(known, key=lambda task: (task.counted("PHYSICAL_MEMORY_BYTES"), task.task_id))
    return found(name, severity, len(tasks), (ratio, size), [task.task_id for task in least], advice.memory(kind))


def _has_both(task: TaskFigures) -> bool:
    return task.run_ms is not None and task.counters is not None


def _parted(values: Sequence[int], middle: int) -> tuple[list[int], list[int]]:
    return [value for value in values if value < middle], [value for value in values if value >= middle]


def _deviation(first: int, second: int) -> int:
    return abs(first - second) // max(min(first, second), 1)


def _least(measures: Sequence[Measure]) -> Severity:
    return min(measure.severity for measure in measures)


def _most(tasks: Iterable[TaskFigures], value: Callable[[TaskFigures], int]) -> list[str]:
    return [task.task_id for task in sorted(tasks, key=lambda task: (-value(task), task.task_id))]


def _first(pair: tuple[int, TaskFigures]) -> tuple[int, str]:
    return pair[0], pair[1].task_id


def _above(n_bytes: int) -> Limits:
    """Critical from one more on."""
    return Limits(n_bytes + 1, n_bytes + 1, n_bytes + 1, n_bytes + 1)


def _split(text: str) -> list[str]:
    """As Java's String.split(","): empty texts at the end are left out."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


__all__ = [
    "HEURISTICS", "OF_FAILED", "average", "distributed_cache", "exception", "judge", "mapper_gc", "mapper_memory",
    "mapper_skew", "mapper_speed", "mapper_spill", "mapper_time", "median", "reducer_gc", "reducer_memory",
    "reducer_skew", "reducer_time", "shuffle_sort", "two_groups",
]  # fmt: skip
