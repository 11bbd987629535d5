"""What several stages, executors or jobs come to in one finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.heuristics.severity import MAX_TASKS_TOLD, Finding, Limits, Measure, Severity, score
from app.heuristics.spark.figures import FAILED, SUCCEEDED, SparkFigures, SparkStage, SparkTask

EXECUTOR_GC, EXECUTORS, JOBS, STAGES = "spark-executor-gc", "spark-executors", "spark-jobs", "spark-stages"
SKEW, SPILL = "spark-stage-skew", "spark-stage-spill"
LONG_TASKS, TASK_FAILURES = "spark-long-tasks", "spark-task-failures"

Heuristic = Callable[[SparkFigures], Finding]

_T = TypeVar("_T")

NO_FIGURES = "no task has told its figures"
INGEST_AGAIN = (
    "the store does not say {what}: delete its events (`clustercep store delete --source spark_events --from --to`) "
    "and ingest its event log again"
)
"""A second copy of an event does not count: those without the attribute have to go first."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a heuristic says of one stage."""

    stage: SparkStage
    measure: Measure
    n_scored: int
    """Tasks that its score counts."""


def of_stages(
    name: str, n_stages: int, results: Sequence[StageResult], advice: Callable[[SparkStage], str], note: str = ""
) -> Finding:
    """The worst stage's severity and measure; the score is the sum of those of all stages."""
    ordered = worst_first(results, lambda one: one.measure)
    if not ordered:
        return Finding(name, Severity.NONE, 0, n_stages, note=note)
    worst = ordered[0]
    passed = [one for one in ordered if one.measure.severity]
    return Finding(
        name,
        worst.measure.severity,
        sum(score(one.measure.severity, one.n_scored) for one in passed),
        n_stages,
        (worst.measure,),
        tuple(f"stage {one.stage.stage}" for one in passed[:MAX_TASKS_TOLD]),
        advice(worst.stage) if passed else "",
        note,
    )


def of_parts(
    name: str, n_parts: int, measures: Sequence[Measure], parts: Iterable[str], advice: str, points: int, note: str = ""
) -> Finding:
    """The worst measure's severity; one of no severity has neither parts nor advice."""
    severity = max((measure.severity for measure in measures), default=Severity.NONE)
    if severity == Severity.NONE:
        return Finding(name, severity, 0, n_parts, tuple(measures), note=note)
    told = tuple(dict.fromkeys(parts))[:MAX_TASKS_TOLD]
    return Finding(name, severity, points, n_parts, tuple(measures), told, advice, note)


def worst_first(ones: Iterable[_T], measure: Callable[[_T], Measure]) -> list[_T]:
    """By severity, then by value; a value that is not a number comes last."""

    def standing(one: _T) -> tuple[int, float]:
        value = measure(one).value
        return int(measure(one).severity), -1.0 if math.isnan(value) else value

    return sorted(ones, key=standing, reverse=True)


def ratio(upper: float, lower: float) -> float:
    """As doubles are divided in Java: infinite by 0, and 0 by 0 is not a number."""
    if lower:
        return upper / lower
    return float("inf") if upper else float("nan")


def rate(n_failed: int, n_succeeded: int) -> float:
    """Failed of all that ended; 0 of nothing."""
    return n_failed / (n_failed + n_succeeded) if n_failed or n_succeeded else 0.0


def total(tasks: Iterable[SparkTask], figure: str) -> int:
    """The sum of a figure; one that is not known counts 0."""
    return sum(getattr(task, figure) or 0 for task in tasks)


def ended(stages: Iterable[SparkStage]) -> tuple[int, int]:
    """Attempts of tasks that failed, and that succeeded."""
    counts = [(stage.n_of(FAILED), stage.n_of(SUCCEEDED)) for stage in stages]
    return sum(failed for failed, _ in counts), sum(good for _, good in counts)


def greatest(name: str, values: Iterable[float], unit: str, limits: Limits) -> Measure:
    """A measure of the greatest value; 0 of nothing."""
    return Measure(name, max(values, default=0.0), unit, limits)


__all__ = [
    "EXECUTORS", "EXECUTOR_GC", "INGEST_AGAIN", "JOBS", "LONG_TASKS", "NO_FIGURES", "SKEW", "SPILL", "STAGES",
    "TASK_FAILURES", "Heuristic", "StageResult", "ended", "greatest", "of_parts", "of_stages", "rate", "ratio",
    "total", "worst_first",
]  # fmt: skip
