"""The same Spark heuristics, with the same thresholds, without the faults of the original.

What is corrected, and why:

- GC is compared with the time that executors ran tasks, not with the tasks' life times, which have waiting for results
  in them, and tasks of lost executors, of which no GC is known. Less than 5 minutes in all say nothing.
- Executors are compared with each other: the driver, which runs no tasks and pulls the median down, is left out, as
  are executors that ran nothing; these are told of by themselves. In local mode, where the driver is the only executor,
  there is nothing to compare. Task time is what they ran.
- A stage's run time is divided by the cores of the executors that ran its tasks, not by the executors that were asked
  for (with dynamic allocation there is no such number, and an executor runs as many tasks at once as it has cores).
- The median of an even number of tasks is the mean of both in the middle: of a stage of two tasks the upper one is the
  greatest, and there would be no skew.
- A stage whose time is not known is left out of skew, in place of having none.
- Failures of tasks are those of all attempts that succeeded or failed: against the number of tasks, the original's
  rate can be above 1. Attempts that were killed because another one won are no failures.
- What is not known is not 0.
- Scores: that of each heuristic is its severity times the executors, jobs or tasks behind it; the original has 0 for
  those of executors, jobs and stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median

from app.heuristics.severity import Finding, Measure, Severity, not_known, score
from app.heuristics.spark import advice, both_modes
from app.heuristics.spark.figures import DATA, DRIVER, FAILED, SparkFigures, SparkJob, SparkStage, SparkTask
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
    ended,
    of_parts,
    of_stages,
    rate,
    ratio,
    total,
    worst_first,
)
from app.heuristics.spark.thresholds import (
    GC_RATIO,
    GC_TOO_LOW,
    IGNORED_BELOW_MS,
    SKEW_RATIO,
    SPILL_EXPECTED_BYTES,
    SPILL_RATIO,
    TASK_FAILURE_RATE,
)


def executor_gc(app: SparkFigures) -> Finding:
    """Garbage collection of all executors against the time that they ran tasks."""
    if not app.tells("gc_ms"):
        return not_known(EXECUTOR_GC, len(app.executors), NO_FIGURES)
    sums = {}
    for name, tasks in app.by_executor.items():
        known = [task for task in tasks if task.gc_ms is not None and task.run_ms is not None]
        if known:
            sums[name] = (total(known, "gc_ms"), total(known, "run_ms"))
    run_ms = sum(run for _, run in sums.values())
    measure = Measure("GC / run time", ratio(sum(gc for gc, _ in sums.values()), run_ms), "share", GC_RATIO)
    if run_ms < IGNORED_BELOW_MS:
        return Finding(EXECUTOR_GC, Severity.NONE, 0, len(sums), note="less than 5 minutes of run time in all")
    own = {name: ratio(*figures) for name, figures in sums.items() if figures[1]}
    worst = [name for name in sorted(own, key=lambda name: -own[name]) if GC_RATIO.severity_of(own[name])]
    note = advice.gc_too_low() if GC_TOO_LOW.severity_of(measure.value) > Severity.LOW else ""
    points = score(measure.severity, len(sums))
    return of_parts(EXECUTOR_GC, len(sums), (measure,), map(app.executor_name, worst), advice.gc(), points, note)


def executors(app: SparkFigures) -> Finding:
    """The executor with most against the median one, of those that ran any task."""
    if not app.has_run:
        return not_known(EXECUTORS, len(app.executors), NO_FIGURES)
    by_executor = {name: tasks for name, tasks in app.by_executor.items() if tasks and name != DRIVER}
    n_idle = sum(not tasks for name, tasks in app.by_executor.items() if name != DRIVER)
    note = f"{n_idle:,} of {len(by_executor) + n_idle:,} executors ran no task" if n_idle else ""
    return both_modes.executor_balance(app, by_executor, "run_ms", _held, median, is_scored=True, note=note)


def jobs(app: SparkFigures) -> Finding:
    """Jobs that failed, and the job of whose tasks most did."""
    return both_modes.failed_jobs(app, is_scored=True, note=_reason_of_failed(app.jobs))


def stages(app: SparkFigures) -> Finding:
    """Stages that failed, the one of whose tasks most did, and the one that kept its cores longest."""
    if app.stages and not app.has_run:
        return not_known(STAGES, len(app.stages), NO_FIGURES)
    cores = {one.executor_id: one.n_cores or 1 for one in app.executors}

    def run_ms(stage: SparkStage) -> float:
        return stage.total("run_ms") / _cores(stage, cores)

    failures, note = both_modes.failed_stages(app), _reason_of_failed(app.stages)
    return both_modes.slow_stages(app, failures, run_ms, "per core", is_scored=True, note=note)


def stage_skew(app: SparkFigures) -> Finding:
    """The longest task of a stage against its median one, where it is long and most of the stage's time."""
    n = len(app.stages)
    if app.stages and not app.has_run:
        return not_known(SKEW, n, NO_FIGURES)
    if app.stages and all(stage.period_ms is None for stage in app.stages):
        return not_known(SKEW, n, "the end of none of its stages has been seen")
    results = both_modes.skewed_stages(app, median)
    worst = worst_first(results, lambda one: one.measure)[:1]
    note = _slowest(app, worst[0].stage) if worst and worst[0].measure.severity else ""
    return of_stages(SKEW, n, results, lambda stage: advice.skew(by_data=_is_by_data(stage)), note)


def stage_spill(app: SparkFigures) -> Finding:
    """What a stage spilled against the most that it read or wrote."""
    n = len(app.stages)
    if app.stages and not app.has_run:
        return not_known(SPILL, n, NO_FIGURES)
    if app.stages and not app.tells("memory_spilled_bytes"):
        return not_known(SPILL, n, INGEST_AGAIN.format(what="how much memory its tasks spilled"))
    results, n_large = [], 0
    for stage in app.stages:
        spilled, most = stage.total("memory_spilled_bytes"), stage.most_bytes
        if most >= SPILL_EXPECTED_BYTES:
            n_large += bool(spilled)
        elif spilled:
            results.append(StageResult(stage, Measure("spilled / data", ratio(spilled, most), "", SPILL_RATIO), stage.n_planned))  # fmt: skip  # noqa: E501
    note = f"{n_large:,} stages of 3 TiB and more spilled, as is to be expected" if n_large else ""
    return of_stages(SPILL, n, results, lambda _: advice.spill(), note)


def long_tasks(app: SparkFigures) -> Finding:
    """The median task of a stage."""
    if app.stages and not app.has_run:
        return not_known(LONG_TASKS, len(app.stages), NO_FIGURES)
    return both_modes.long_tasks(app, median)


def task_failures(app: SparkFigures) -> Finding:
    """Attempts of a stage's tasks that failed, against those that succeeded or failed."""
    results = []
    for stage in app.stages:
        failed, good = ended([stage])
        if failed or good:
            measure = Measure("failed attempts", rate(failed, good), "share", TASK_FAILURE_RATE)
            results.append(StageResult(stage, measure, failed))
    worst = worst_first(results, lambda one: one.measure)[:1]
    note = _reason_of_failed(task for one in worst if one.measure.severity for task in one.stage.tasks)
    return of_stages(TASK_FAILURES, len(app.stages), results, lambda _: advice.task_failures(), note)


HEURISTICS: tuple[Heuristic, ...] = (
    executor_gc, executors, jobs, stages, stage_skew, stage_spill, long_tasks, task_failures,
)  # fmt: skip


def judge(app: SparkFigures) -> Iterator[Finding]:
    """All, also of an application that still runs: over the tasks that have ended."""
    return (heuristic(app) for heuristic in HEURISTICS)


def _held(tasks: list[SparkTask], figure: str) -> int | None:
    """Of an executor: the most blocks that it held; of everything else the sum over its tasks."""
    values: list[int] = [value for task in tasks if (value := getattr(task, figure)) is not None]
    if not values:
        return None
    return max(values) if figure == "storage_bytes" else sum(values)


def _cores(stage: SparkStage, cores: dict[str, int]) -> int:
    """Of the executors that ran its tasks, as far as they are known; at least 1, at most one for each task."""
    names = {task.executor_id for task in stage.tasks if task.executor_id is not None}
    return max(1, min(sum(cores.get(name, 1) for name in names), len(stage.tasks)))


def _data(task: SparkTask) -> int:
    return max(getattr(task, name) or 0 for name in DATA)


def _data_ratio(stage: SparkStage) -> float | None:
    """Data of the slowest task against that of the median one; None where there is none."""
    tasks = stage.succeeded
    if not tasks:
        return None
    middle, slowest = median(map(_data, tasks)), max(tasks, key=lambda task: task.run_ms or 0)
    return None if not middle else _data(slowest) / middle


def _is_by_data(stage: SparkStage) -> bool | None:
    found = _data_ratio(stage)
    return None if found is None else found >= SKEW_RATIO.low


def _slowest(app: SparkFigures, stage: SparkStage) -> str:
    slowest, found = max(stage.succeeded, key=lambda task: task.run_ms or 0), _data_ratio(stage)
    where = "" if slowest.executor_id is None else f" on {app.executor_name(slowest.executor_id)}"
    data = "" if found is None else f", with {found:,.3g} times the data of the median one"
    return f"task {slowest.task} of stage {stage.stage} took longest{where}{data}"


def _reason_of_failed(ones: Iterable[SparkJob | SparkStage | SparkTask]) -> str:
    """The reason that is told most often."""
    counts = Counter(one.reason for one in ones if one.status == FAILED and one.reason)
    return next((reason for reason, _ in counts.most_common(1)), "")


__all__ = [
    "HEURISTICS", "executor_gc", "executors", "jobs", "judge", "long_tasks", "stage_skew", "stage_spill",
    "stages", "task_failures",
]  # fmt: skip
