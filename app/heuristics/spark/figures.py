"""What heuristics judge: a Spark application, its jobs, stages, tasks and executors, as plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"

DRIVER = "driver"
"""The id of the driver where it is an executor, too (local mode)."""


@dataclass(frozen=True, slots=True)
class SparkTask:
    """One attempt of a task that has ended; None is not known."""

    task: str
    """Index and attempt, as Spark writes them: 3.1."""
    executor_id: str | None = None
    host: str | None = None
    status: str | None = None
    reason: str | None = None
    life_ms: int | None = None
    """From its launch to its finish, as the driver saw it."""
    run_ms: int | None = None
    """What the executor ran it; None for tasks of lost executors, as all that follow."""
    gc_ms: int | None = None
    memory_spilled_bytes: int | None = None
    """Size in memory of what was spilled; stores from before it was kept have none."""
    input_bytes: int | None = None
    output_bytes: int | None = None
    shuffle_read_bytes: int | None = None
    shuffle_write_bytes: int | None = None
    storage_bytes: int | None = None
    """The most that its executor held in cached blocks while it ran."""
    heap_bytes: int | None = None
    """The most that its executor's heap held while it ran."""


@dataclass(frozen=True, slots=True)
class SparkStage:
    """One attempt of a stage, with its tasks; None is not known."""

    stage: str
    """Stage and attempt, as Spark writes them: 2.0."""
    n_tasks: int | None = None
    status: str | None = None
    """None: it is not over."""
    reason: str | None = None
    start_ms: int | None = None
    period_ms: int | None = None
    tasks: tuple[SparkTask, ...] = ()

    @property
    def number(self) -> int:
        """Its id without the attempt."""
        return int(self.stage.partition(".")[0])

    @property
    def succeeded(self) -> list[SparkTask]:
        """Tasks that succeeded and whose run time is known."""
        return [task for task in self.tasks if task.status == SUCCEEDED and task.run_ms is not None]

    @property
    def n_planned(self) -> int:
        """How many tasks it has; as many as are known where it does not say."""
        return len({task.task.partition(".")[0] for task in self.tasks}) if self.n_tasks is None else self.n_tasks

    def n_of(self, status: str) -> int:
        """Attempts of tasks that ended so."""
        return sum(task.status == status for task in self.tasks)

    def total(self, name: str) -> int:
        """The sum of a figure of its tasks; one that is not known counts 0."""
        return sum(getattr(task, name) or 0 for task in self.tasks)

    @property
    def most_bytes(self) -> int:
        """The largest of what it read, wrote, fetched from and wrote to shuffles."""
        return max(self.total(name) for name in DATA)


DATA = ("input_bytes", "output_bytes", "shuffle_read_bytes", "shuffle_write_bytes")


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job of an application; None is not known."""

    number: int
    status: str | None = None
    """None: it is not over."""
    reason: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    stages: frozenset[int] | None = None
    """Ids of its stages; stores from before they were kept have none."""

    def has(self, stage: SparkStage) -> bool:
        """Whether a stage ran for it: later jobs name the same stage where its output is still there, and skip it."""
        if self.stages is None or stage.number not in self.stages:
            return False
        if stage.start_ms is None:
            return True
        return (self.start_ms or 0) <= stage.start_ms and (self.end_ms is None or stage.start_ms <= self.end_ms)


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """An executor; None is not known."""

    executor_id: str
    host: str | None = None
    n_cores: int | None = None
    added_ms: int | None = None
    removed_ms: int | None = None
    """None: it was there until the application's end."""
    reason: str | None = None
    is_lost: bool = False
    """Whether the driver had not let it go."""


@dataclass(frozen=True)
class SparkFigures:
    """An application, by its last attempt; None is not known."""

    application_id: str
    application_attempt: str | None = None
    application_name: str | None = None
    user: str | None = None
    queue: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    """None: its end has not been seen."""
    exit_code: int | None = None
    jobs: tuple[SparkJob, ...] = ()
    stages: tuple[SparkStage, ...] = ()
    executors: tuple[SparkExecutor, ...] = ()
    """Without the driver."""
    settings: Mapping[str, str] | None = None
    """Of the allow-list in collectors.spark.settings; None: not stored."""
    problems: tuple[str, ...] = field(default=())

    def facts(self) -> dict[str, Any]:
        """What a report of it begins with."""
        names = (
            "application_id", "application_attempt", "application_name", "user", "queue", "start_ms", "end_ms",
            "exit_code",
        )  # fmt: skip
        lengths = {"n_jobs": len(self.jobs), "n_stages": len(self.stages), "n_executors": len(self.executors)}
        return {**{name: getattr(self, name) for name in names}, **lengths}

    @property
    def tasks(self) -> Iterator[SparkTask]:
        """Of all stages."""
        return (task for stage in self.stages for task in stage.tasks)

    @cached_property
    def by_executor(self) -> Mapping[str, list[SparkTask]]:
        """Tasks by the executor that ran them; executors without any are among them, the driver where it ran some."""
        found: dict[str, list[SparkTask]] = defaultdict(list)
        for executor in self.executors:
            found[executor.executor_id] = []
        for task in self.tasks:
            if task.executor_id is not None:
                found[task.executor_id].append(task)
        return dict(found)

    def tells(self, name: str) -> bool:
        """Whether any task has a figure."""
        return any(getattr(task, name) is not None for task in self.tasks)

    @property
    def has_run(self) -> bool:
        """Whether any task has told how long it ran."""
        return self.tells("run_ms")

    @cached_property
    def _by_number(self) -> Mapping[int, list[SparkStage]]:
        found: dict[int, list[SparkStage]] = defaultdict(list)
        for stage in self.stages:
            found[stage.number].append(stage)
        return dict(found)

    def stages_of(self, job: SparkJob) -> list[SparkStage]:
        """The attempts of stages that ran for a job."""
        numbers = sorted(job.stages or ())
        return [stage for number in numbers for stage in self._by_number.get(number, ()) if job.has(stage)]

    @cached_property
    def _hosts(self) -> Mapping[str, str]:
        return {one.executor_id: one.host for one in self.executors if one.host}

    def executor_name(self, executor_id: str) -> str:
        """As findings name it, with its host where that is known."""
        host = self._hosts.get(executor_id)
        return f"executor {executor_id}" if host is None else f"executor {executor_id} on {host}"


__all__ = [
    "DATA", "DRIVER", "FAILED", "SUCCEEDED", "SparkExecutor", "SparkFigures", "SparkJob", "SparkStage", "SparkTask",
]  # fmt: skip
