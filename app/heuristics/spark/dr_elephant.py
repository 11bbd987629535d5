"""The Spark heuristics as Dr. Elephant computes them (linkedin/dr-elephant, master 916c25d), its faults included.

Formulas and thresholds are its; what it takes from a history server is read from the event log's own figures as the
history server adds them up. Where that leaves a choice (which median, which executors, which tasks), docs/heuristics.md
says what is taken: there exactness is by our reading. What its score counts as 0 is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.heuristics.severity import Finding, Measure, Severity, not_known
from app.heuristics.spark import advice, both_modes
from app.heuristics.spark.figures import DRIVER, FAILED, SparkFigures, SparkStage, SparkTask
from app.heuristics.spark.found import (
    EXECUTOR_GC,
    EXECUTORS,
    INGEST_AGAIN,
    LONG_TASKS,
    NO_FIGURES,
    SKEW,
    SPILL,
    STAGES,
    TASK_FAILURES,
    Heuristic,
    StageResult,
    of_parts,
    of_stages,
    ratio,
    total,
)
from app.heuristics.spark.thresholds import (
    GC_RATIO,
    GC_TOO_LOW,
    SPILL_EXPECTED_BYTES,
    SPILL_RATIO,
    TASK_FAILURE_RATE,
)

INSTANCES = "spark.executor.instances"


def executor_gc(app: SparkFigures) -> Finding:
    """Garbage collection of all executors against the life times of their tasks; of the driver nothing."""
    if not app.tells("gc_ms"):
        return not_known(EXECUTOR_GC, len(app.executors), NO_FIGURES)
    by_executor = {name: tasks for name, tasks in app.by_executor.items() if name != DRIVER}
    sums = {name: (total(tasks, "gc_ms"), total(tasks, "life_ms")) for name, tasks in by_executor.items()}
    whole = ratio(sum(gc for gc, _ in sums.values()), sum(life for _, life in sums.values()))
    measure = Measure("GC / task time", whole, "share", GC_RATIO)
    worst = sorted(sums, key=lambda name: -ratio(*sums[name]) if sums[name][1] else 0.0)
    is_low = GC_TOO_LOW.severity_of(whole) > Severity.LOW
    note = advice.gc_too_low() if is_low else ""
    return of_parts(EXECUTOR_GC, len(sums), (measure,), map(app.executor_name, worst), advice.gc(), 0, note)


def executors(app: SparkFigures) -> Finding:
    """The executor with most against the median one, the driver among them."""
    if not app.has_run:
        return not_known(EXECUTORS, len(app.executors), NO_FIGURES)
    by_executor = {DRIVER: [], **app.by_executor}
    return both_modes.executor_balance(app, by_executor, "life_ms", _held, median_of_both, is_scored=False)


def jobs(app: SparkFigures) -> Finding:
    """Jobs that failed, and the job of whose tasks most did."""
    return both_modes.failed_jobs(app, is_scored=False)


def stages(app: SparkFigures) -> Finding:
    """Stages that failed, the one of whose tasks most did, and the one that took the executors longest."""
    n = len(app.stages)
    if app.stages and not app.has_run:
        return not_known(STAGES, n, NO_FIGURES)
    if app.settings is None:
        return not_known(STAGES, n, INGEST_AGAIN.format(what=f"whether {INSTANCES} was set"))
    instances, failures = _instances(app), both_modes.failed_stages(app)
    if instances == 0:
        why = f"{INSTANCES} is 0; Dr. Elephant ends in a division by zero there"
        return not_known(STAGES, n, why, (failures.whole,))

    def run_ms(stage: SparkStage) -> int:
        return stage.total("run_ms") // instances

    return both_modes.slow_stages(app, failures, run_ms, "/ executors", is_scored=False)


def stage_skew(app: SparkFigures) -> Finding:
    """The longest task of a stage against its median one, where it is long and most of the stage's time."""
    if app.stages and not app.has_run:
        return not_known(SKEW, len(app.stages), NO_FIGURES)
    results = both_modes.skewed_stages(app, upper_median)
    return of_stages(SKEW, len(app.stages), results, lambda _: advice.skew(by_data=None))


def stage_spill(app: SparkFigures) -> Finding:
    """What a stage spilled against the most that it read or wrote."""
    n = len(app.stages)
    if app.stages and not app.has_run:
        return not_known(SPILL, n, NO_FIGURES)
    if app.stages and not app.tells("memory_spilled_bytes"):
        return not_known(SPILL, n, INGEST_AGAIN.format(what="how much memory its tasks spilled"))
    results = []
    for stage in app.stages:
        if stage.most_bytes < SPILL_EXPECTED_BYTES:
            value = ratio(stage.total("memory_spilled_bytes"), stage.most_bytes)
            results.append(StageResult(stage, Measure("spilled / data", value, "", SPILL_RATIO), stage.n_planned))
    return of_stages(SPILL, n, results, lambda _: advice.spill())


def long_tasks(app: SparkFigures) -> Finding:
    """The median task of a stage."""
    if app.stages and not app.has_run:
        return not_known(LONG_TASKS, len(app.stages), NO_FIGURES)
    return both_modes.long_tasks(app, upper_median)


def task_failures(app: SparkFigures) -> Finding:
    """Attempts of a stage's tasks that failed, against how many tasks it has."""
    results = []
    for stage in app.stages:
        n_failed = stage.n_of(FAILED)
        measure = Measure("failed attempts / tasks", ratio(n_failed, stage.n_planned), "share", TASK_FAILURE_RATE)
        results.append(StageResult(stage, measure, n_failed))
    return of_stages(TASK_FAILURES, len(app.stages), results, lambda _: advice.task_failures())


HEURISTICS: tuple[Heuristic, ...] = (
    executor_gc, executors, jobs, stages, stage_skew, stage_spill, long_tasks, task_failures,
)  # fmt: skip


def judge(app: SparkFigures) -> Iterator[Finding]:
    """All of an application that has ended; of one that has not Dr. Elephant knows nothing."""
    if app.end_ms is not None:
        for heuristic in HEURISTICS:
            yield heuristic(app)


def upper_median(values: list[int]) -> int:
    """The median as Spark's history server takes it: of an even number the upper one of both in the middle."""
    return sorted(values)[len(values) // 2]


def median_of_both(values: list[int]) -> int:
    """The median as Dr. Elephant's own statistics take it: of an even number the mean of both, cut."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def _instances(app: SparkFigures) -> int:
    told = (app.settings or {}).get(INSTANCES)
    return len({DRIVER, *app.by_executor}) if told is None else int(told)


def _held(tasks: list[SparkTask], figure: str) -> int:
    """Of an executor: the most blocks that it held; of everything else the sum over its tasks."""
    values = (getattr(task, figure) or 0 for task in tasks)
    return max(values, default=0) if figure == "storage_bytes" else sum(values)


__all__ = [
    "HEURISTICS", "INSTANCES", "executor_gc", "executors", "jobs", "judge", "long_tasks", "median_of_both",
    "stage_skew", "stage_spill", "stages", "task_failures", "upper_median",
]  # fmt: skip
