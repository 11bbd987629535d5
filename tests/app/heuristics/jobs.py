"""Jobs to be judged, made of few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.heuristics.figures import JobFigures, TaskFigures

MINUTE, MIB = 60_000, 1 << 20


def task(number: int, run_ms: int | None = 1, *, kind: str = "m", shuffle_ms: int = 0, sort_ms: int = 0, **counters: int) -> TaskFigures:  # fmt: skip  # noqa: E501
    """A task with these counters."""
    return TaskFigures(f"task_1_0001_{kind}_{number:06d}", run_ms, shuffle_ms, sort_ms, counters)


def tasks(values: Iterable[Mapping[str, Any]], kind: str = "m") -> tuple[TaskFigures, ...]:
    """Tasks, each by what `task` takes."""
    return tuple(task(number, kind=kind, **value) for number, value in enumerate(values))


def job(maps: Iterable[Mapping[str, Any]] = (), reduces: Iterable[Mapping[str, Any]] = (), **facts: Any) -> JobFigures:
    """A job that succeeded, with settings that say nothing unless `facts` has others."""
    of_maps, of_reduces = tasks(maps), tasks(reduces, "r")
    known = {"status": "SUCCEEDED", "settings": {}, "n_maps": len(of_maps), "n_reduces": len(of_reduces)}
    return JobFigures("job_1_0001", maps=of_maps, reduces=of_reduces, **{**known, **facts})
