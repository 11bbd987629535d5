"""What heuristics judge: a job, its tasks with their times and counters, and its settings, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.hadoop_ids import TaskKind

SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"

MIB = 1 << 20

_LONG = re.compile(r"[+-]?[0-9]{1,18}")
_SIZE = re.compile(r"([0-9]{1,18})([kmgtpe]?)b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """One task, by the attempt that counts: the successful one, else the one that failed first."""

    task_id: str
    run_ms: int | None = None
    """From start to finish; None: not known."""
    shuffle_ms: int | None = None
    sort_ms: int | None = None
    counters: Mapping[str, int] | None = None
    """Values of Hadoop's own counters by name; None: they are not known at all."""

    def counted(self, *names: str) -> int:
        """The sum of these counters; one that is not there counts 0, as in Hadoop."""
        counters = self.counters or {}
        return sum(counters.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True)
class AttemptUse:
    """What one attempt held, however it ended."""

    kind: TaskKind
    is_success: bool
    run_ms: int | None
    peak_bytes: int | None
    """Its greatest physical memory, as far as counters tell."""


@dataclass(frozen=True)
class JobFigures:
    """A job that has ended; None is not known."""

    job_id: str
    job_name: str | None = None
    user: str | None = None
    queue: str | None = None
    status: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    n_maps: int | None = None
    n_reduces: int | None = None
    maps: tuple[TaskFigures, ...] = ()
    reduces: tuple[TaskFigures, ...] = ()
    attempts: tuple[AttemptUse, ...] = ()
    settings: Mapping[str, str] | None = None
    """Of the allow-list in collectors.history.job_conf; None: its configuration has not been read."""
    diagnostics: str | None = None
    problems: tuple[str, ...] = field(default=())
    """What of the job could not be read as expected."""

    def facts(self) -> dict[str, Any]:
        """What a report of it begins with."""
        names = ("job_id", "job_name", "user", "queue", "status", "start_ms", "end_ms", "n_maps", "n_reduces")
        return {name: getattr(self, name) for name in names}

    def tasks(self, kind: TaskKind) -> tuple[TaskFigures, ...]:
        """Its maps or reduces."""
        return self.maps if kind == "MAP" else self.reduces

    def n_planned(self, kind: TaskKind) -> int | None:
        """How many tasks of a kind it was to have."""
        return self.n_maps if kind == "MAP" else self.n_reduces

    def whole_number(self, setting: str) -> int | None:
        """A setting's value as Java's Long.parseLong reads it; None for one that is not there or no number."""
        text = (self.settings or {}).get(setting)
        return int(text) if text is not None and _LONG.fullmatch(text) else None

    def size_bytes(self, setting: str) -> int | None:
        """A setting's value as Hadoop reads sizes (64m, 1g); None for one that is not there or no size."""
        found = _SIZE.fullmatch((self.settings or {}).get(setting, "").strip())
        return None if found is None else int(found[1]) << (10 * " kmgtpe".index(found[2].lower() or " "))


MEMORY_MB: Mapping[TaskKind, str] = {"MAP": "mapreduce.map.memory.mb", "REDUCE": "mapreduce.reduce.memory.mb"}
"""The setting with the size of a container, in MiB."""

BLOCK_SIZE = "dfs.blocksize"

__all__ = ["BLOCK_SIZE", "FAILED", "MEMORY_MB", "MIB", "SUCCEEDED", "AttemptUse", "JobFigures", "TaskFigures"]
