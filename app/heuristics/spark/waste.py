"""What an application's executors held, and how much of that they did not use: memory times time."""

from __future__ import annotations

import re

from app.heuristics.figures import MIB
from app.heuristics.spark.figures import SUCCEEDED, SparkFigures, SparkTask
from app.heuristics.waste import HOUR_MS, Waste, gib_h

MEMORY, OVERHEAD = "spark.executor.memory", "spark.executor.memoryOverhead"
DEFAULT_MEMORY_BYTES = 1024 * MIB
LEAST_OVERHEAD_BYTES = 384 * MIB
OVERHEAD_SHARE = 0.1
"""Spark's own defaults, on YARN and Kubernetes."""

_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?", re.IGNORECASE)


def container_bytes(app: SparkFigures) -> int | None:
    """Heap and overhead of an executor; None where its settings are not stored."""
    if app.settings is None:
        return None
    heap = _mib(app.settings.get(MEMORY)) or DEFAULT_MEMORY_BYTES
    return heap + (_mib(app.settings.get(OVERHEAD)) or max(LEAST_OVERHEAD_BYTES, int(heap * OVERHEAD_SHARE)))


def waste_of(app: SparkFigures) -> Waste:
    """Not used is what executors held while their cores had no task; lost, the share of tasks that did not succeed."""
    size = container_bytes(app)
    held = idle = lost = n_unmeasured = 0
    lost_ms = sum(task.life_ms or 0 for task in app.tasks if task.status != SUCCEEDED)
    for executor in app.executors:
        end_ms = app.end_ms if executor.removed_ms is None else executor.removed_ms
        if executor.added_ms is None or end_ms is None:
            n_unmeasured += 1
            continue
        life_ms, cores = max(0, end_ms - executor.added_ms), max(1, executor.n_cores or 1)
        tasks = app.by_executor.get(executor.executor_id, [])
        busy_ms = min(life_ms, _lives(tasks) // cores)
        held += life_ms
        idle += life_ms - busy_ms
        lost += min(busy_ms, _lives([task for task in tasks if task.status != SUCCEEDED]) // cores)
    known = size is not None and bool(app.executors)
    return Waste(
        held_gib_h=gib_h((size or 0) * held) if known else None,
        unused_gib_h=gib_h((size or 0) * idle) if known else None,
        lost_gib_h=gib_h((size or 0) * lost) if known else None,
        lost_h=lost_ms / HOUR_MS,
        n_unmeasured=n_unmeasured,
    )


def _lives(tasks: list[SparkTask]) -> int:
    return sum(task.life_ms or 0 for task in tasks)


def _mib(text: str | None) -> int | None:
    """A size as Spark reads these settings: in MiB where it has no unit."""
    found = _SIZE.fullmatch(text or "")
    return None if found is None else int(found[1]) << (10 * " kmgtp".index(found[2].lower() or "m"))


__all__ = ["container_bytes", "waste_of"]
