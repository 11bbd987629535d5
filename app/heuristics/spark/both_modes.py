"""What both modes compute alike; where they differ, they say how.

`is_scored`: whether executors, jobs and stages count in the score; as Dr. Elephant computes it they are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.heuristics.severity import Finding, Limits, Measure, Severity, not_known, score
from app.heuristics.spark import advice
from app.heuristics.spark.figures import FAILED, SUCCEEDED, SparkFigures, SparkJob, SparkStage, SparkTask
from app.heuristics.spark.found import (
    EXECUTORS,
    INGEST_AGAIN,
    JOBS,
    LONG_TASKS,
    STAGES,
    StageResult,
    ended,
    greatest,
    of_parts,
    of_stages,
    rate,
    ratio,
    worst_first,
)
from app.heuristics.spark.thresholds import (
    EXECUTOR_RATIO,
    FAILURE_RATE,
    IGNORED_BELOW_BYTES,
    IGNORED_BELOW_MS,
    SKEW_LEAST_MS,
    SKEW_RATIO,
    SKEW_STAGE_SHARE,
    STAGE_RUN_MS,
    TASK_RUN_MS,
)

Median = Callable[[list[int]], float]
"""Of at least one value."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Jobs or stages that failed, and those of whose tasks many did."""

    whole: Measure
    """The share of them that failed."""
    worst: Measure
    """The greatest share of failed tasks of one of them."""
    parts: tuple[str, ...]
    """Names of those that failed, where these are many, and of those of whose tasks many did, the worst first."""

    @property
    def severity(self) -> Severity:
        """The worse of both."""
        return max(self.whole.severity, self.worst.severity)


def executor_balance(
    app: SparkFigures,
    by_executor: Mapping[str, list[SparkTask]],
    task_time: str,
    held: Callable[[list[SparkTask], str], int | None],
    middle: Median,
    *,
    is_scored: bool,
    note: str = "",
) -> Finding:
    """The executor with most against the median one.

    `by_executor`: tasks of those that are compared; `task_time`: the figure that is a task's time; `held`: what an
    executor comes to by a figure of its tasks, None for not known.
    """
    measures, greatest_of = list[Measure](), dict[str, str]()
    for name, unit, figure in (
        ("storage memory", "bytes", "storage_bytes"),
        ("task time", "ms", task_time),
        ("input", "bytes", "input_bytes"),
        ("shuffle read", "bytes", "shuffle_read_bytes"),
        ("shuffle write", "bytes", "shuffle_write_bytes"),
    ):
        values = {one: value for one, tasks in by_executor.items() if (value := held(tasks, figure)) is not None}
        most = max(values, key=lambda one: values[one], default=None)
        if most is None or values[most] < (IGNORED_BELOW_MS if unit == "ms" else IGNORED_BELOW_BYTES):
            continue
        of_median = ratio(values[most], middle(list(values.values())))
        measures.append(Measure(f"{name}, max / median", of_median, "", EXECUTOR_RATIO))
        greatest_of[measures[-1].name] = most
    ordered = worst_first(measures, lambda one: one)
    parts = [app.executor_name(greatest_of[one.name]) for one in ordered if one.severity]
    what = advice.executors(ordered[0].name.partition(",")[0]) if ordered else ""
    points = score(ordered[0].severity, len(by_executor)) if ordered and is_scored else 0
    return of_parts(EXECUTORS, len(by_executor), ordered, parts, what, points, note)


def failed_jobs(app: SparkFigures, *, is_scored: bool, note: str = "") -> Finding:
    """Jobs that failed, and the job of whose tasks most did."""
    found = _failures("job", app.jobs, {f"job {job.number}": rate(*ended(app.stages_of(job))) for job in app.jobs})
    if found.whole.severity < Severity.CRITICAL and any(job.stages is None for job in app.jobs):
        return not_known(JOBS, len(app.jobs), INGEST_AGAIN.format(what="which stages its jobs had"), (found.whole,))
    points = score(found.severity, len({*found.parts})) if is_scored else 0
    return of_parts(JOBS, len(app.jobs), (found.whole, found.worst), found.parts, advice.failures("jobs"), points, note)


def failed_stages(app: SparkFigures) -> Failures:
    """Stages that failed, and those of whose tasks many did."""
    return _failures("stage", app.stages, {_name(stage): rate(*ended([stage])) for stage in app.stages})


def slow_stages(
    app: SparkFigures,
    failures: Failures,
    run_ms: Callable[[SparkStage], float],
    per: str,
    *,
    is_scored: bool,
    note: str = "",
) -> Finding:
    """Stages that failed, and the one that kept what it ran on longest. `run_ms`: a stage's time, `per` core, say."""
    times = {_name(stage): run_ms(stage) for stage in app.stages}
    longest = greatest(f"run time of a stage {per}", times.values(), "ms", STAGE_RUN_MS)
    what = advice.stage_time() if longest.severity > failures.severity else advice.failures("stages")
    parts = (*failures.parts, *_descending(times, STAGE_RUN_MS))
    points = score(max(failures.severity, longest.severity), len({*parts})) if is_scored else 0
    measures = (failures.whole, failures.worst, longest)
    return of_parts(STAGES, len(app.stages), measures, parts, what, points, note)


def skewed_stages(app: SparkFigures, median: Median) -> list[StageResult]:
    """The longest task of a stage against its median one, where it is long and most of the stage's time."""
    results = []
    for stage in app.stages:
        times = [task.run_ms or 0 for task in stage.succeeded]
        longest = max(times, default=0)
        if stage.period_ms is None or longest <= SKEW_LEAST_MS or longest <= SKEW_STAGE_SHARE * stage.period_ms:
            continue
        measure = Measure("max / median run time", ratio(longest, median(times)), "", SKEW_RATIO)
        results.append(StageResult(stage, measure, stage.n_planned))
    return results


def long_tasks(app: SparkFigures, median: Median) -> Finding:
    """The median task of a stage."""
    results = []
    for stage in app.stages:
        if times := [task.run_ms or 0 for task in stage.succeeded]:
            measure = Measure("median run time", median(times), "ms", TASK_RUN_MS)
            results.append(StageResult(stage, measure, stage.n_planned))

    def what_to_change(stage: SparkStage) -> str:
        return advice.long_tasks(reads_input=stage.total("input_bytes") > 0)

    return of_stages(LONG_TASKS, len(app.stages), results, what_to_change)


def _failures(kind: str, ones: Sequence[SparkJob] | Sequence[SparkStage], rates: Mapping[str, float]) -> Failures:
    """`rates`: shares of failed tasks by name, in the order of `ones`."""
    statuses = [one.status for one in ones]
    failed = [name for name, status in zip(rates, statuses, strict=True) if status == FAILED]
    whole = Measure(f"failed {kind}s", rate(len(failed), statuses.count(SUCCEEDED)), "share", FAILURE_RATE)
    worst = greatest(f"failed tasks of a {kind}", rates.values(), "share", FAILURE_RATE)
    return Failures(whole, worst, (*(failed if whole.severity else ()), *_descending(rates, FAILURE_RATE)))


def _descending(values: Mapping[str, float], limits: Limits) -> list[str]:
    """Of those that pass a limit the names, the greatest value first."""
    return [name for name in sorted(values, key=lambda name: -values[name]) if limits.severity_of(values[name])]


def _name(stage: SparkStage) -> str:
    return f"stage {stage.stage}"


__all__ = [
    "Failures", "executor_balance", "failed_jobs", "failed_stages", "long_tasks", "skewed_stages", "slow_stages",
]  # fmt: skip
