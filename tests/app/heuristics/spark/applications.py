"""Applications to be judged, made of few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.heuristics.spark.figures import SparkExecutor, SparkFigures, SparkJob, SparkStage, SparkTask

MINUTE, MIB = 60_000, 1 << 20


def task(number: int, **facts: Any) -> SparkTask:
    """A task that succeeded on executor 1 after 1 ms, and says so of all its figures that `facts` does not name."""
    known = {"executor_id": "1", "status": "SUCCEEDED", "life_ms": 1, "run_ms": 1, "gc_ms": 0,
             "memory_spilled_bytes": 0}  # fmt: skip
    return SparkTask(f"{number}.0", **{**known, **facts})


def stage(tasks: Iterable[dict[str, Any]] = (), name: str = "0.0", **facts: Any) -> SparkStage:
    """A stage that succeeded, of these tasks."""
    made = tuple(task(number, **one) for number, one in enumerate(tasks))
    return SparkStage(name, **{"n_tasks": len(made), "status": "SUCCEEDED", "start_ms": 10, "tasks": made, **facts})


def application(*stages: SparkStage, **facts: Any) -> SparkFigures:
    """One that has ended, with a job per stage."""
    known = {
        "end_ms": 1_000_000_000,
        "settings": {},
        "executors": (SparkExecutor("1", "n1", 1),),
        "jobs": tuple(SparkJob(n, "SUCCEEDED", stages=frozenset({one.number})) for n, one in enumerate(stages)),
    }
    return SparkFigures("application_1_0001", stages=stages, **{**known, **facts})
