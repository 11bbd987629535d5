"""Whether enough is known of a job's tasks to be judged; if not, why."""

from __future__ import annotations

from collections.abc import Callable

from app.heuristics.figures import JobFigures
from app.heuristics.severity import Finding
from collectors.hadoop_ids import TaskKind

Heuristic = Callable[[JobFigures], Finding | None]

INGEST_AGAIN = "the counters of its attempts are not stored; ingest its history again"
CONF_MISSING = "its configuration is not stored; ingest its _conf.xml"


def untimed(job: JobFigures, kind: TaskKind) -> str | None:
    """Why nothing can be said of the times of tasks of a kind; None where something can."""
    tasks, planned = job.tasks(kind), job.n_planned(kind)
    if not tasks:
        if planned == 0:
            return None
        return "no task of this kind is known" if planned is None else f"none of its {planned:,} tasks is known"
    if all(task.run_ms is None for task in tasks):
        return "no source tells how long a task ran"
    return None


def lacking(job: JobFigures, kind: TaskKind) -> str | None:
    """Why nothing can be said of the counters of tasks of a kind; None where something can."""
    why = untimed(job, kind)
    if why is None and job.tasks(kind) and all(task.counters is None for task in job.tasks(kind)):
        return INGEST_AGAIN
    return why


__all__ = ["CONF_MISSING", "INGEST_AGAIN", "Heuristic", "lacking", "untimed"]
