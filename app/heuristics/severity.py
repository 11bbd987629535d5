"""Severities, thresholds, scores, and what one heuristic found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

MAX_TASKS_TOLD = 10
"""Tasks behind a finding that it names, the worst first."""


class Severity(IntEnum):
    """As Dr. Elephant orders and numbers them."""

    NONE = 0
    LOW = 1
    MODERATE = 2
    SEVERE = 3
    CRITICAL = 4


class Limits(NamedTuple):
    """The values from which on a measure is low, moderate, severe and critical."""

    low: float
    moderate: float
    severe: float
    critical: float
    falling: bool = False
    """Whether smaller values are worse; the limit itself counts in both directions."""

    def severity_of(self, value: float) -> Severity:
        """NONE for what passes no limit, and for NaN."""
        for severity in (Severity.CRITICAL, Severity.SEVERE, Severity.MODERATE, Severity.LOW):
            limit = self[severity - 1]
            if (value <= limit) if self.falling else (value >= limit):
                return severity
        return Severity.NONE

    def scaled(self, factor: float) -> Limits:
        """The same limits in another unit."""
        low, moderate, severe, critical, falling = self
        return Limits(low * factor, moderate * factor, severe * factor, critical * factor, falling)


def score(severity: Severity, n_tasks: int) -> int:
    """Severity times tasks; 0 for NONE and LOW."""
    return 0 if severity <= Severity.LOW else int(severity) * n_tasks


@dataclass(frozen=True, slots=True)
class Measure:
    """One measured value beside its limits."""

    name: str
    value: float
    unit: str
    """ms, bytes, bytes/s, tasks, share (1 is all), or empty for another ratio."""
    limits: Limits

    @property
    def severity(self) -> Severity:
        """By this value alone."""
        return self.limits.severity_of(self.value)

    @property
    def passed(self) -> float | None:
        """The worst limit that the value passed; None when it passed none."""
        severity = self.severity
        return None if severity == Severity.NONE else self.limits[severity - 1]

    def to_json(self) -> dict[str, Any]:
        """As reports print it; what is no finite number is a text."""
        limits = dict(zip(("low", "moderate", "severe", "critical"), self.limits[:4], strict=True))
        return {
            "name": self.name, "value": finite(self.value), "unit": self.unit, "severity": self.severity.name,
            "passed": self.passed, "limits": limits, "worse": "below" if self.limits.falling else "above",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """What one heuristic says of a job."""

    heuristic: str
    severity: Severity | None
    """None: it cannot be told; `note` says why."""
    score: int
    n_tasks: int
    """Of a Spark application: the stages, executors or jobs that were judged."""
    measures: tuple[Measure, ...] = ()
    """Those that decided first; all of them took part."""
    tasks: tuple[str, ...] = field(default=())
    """Ids of tasks, or names of cached files, stages, executors or jobs, behind it, the worst first; at most
    MAX_TASKS_TOLD."""
    advice: str = ""
    note: str = ""
    """Why the severity is not known, what was left out, or a failed job's diagnostics."""

    def to_json(self) -> dict[str, Any]:
        """As reports print it."""
        return {
            "heuristic": self.heuristic,
            "severity": None if self.severity is None else self.severity.name,
            "score": self.score,
            "n_tasks": self.n_tasks,
            "measures": [measure.to_json() for measure in self.measures],
            "tasks": list(self.tasks),
            "advice": self.advice,
            "note": self.note,
        }


def not_known(heuristic: str, n_tasks: int, why: str, measures: Sequence[Measure] = ()) -> Finding:
    """A finding without a severity."""
    return Finding(heuristic, None, 0, n_tasks, tuple(measures), note=f"not known: {why}")


def found(
    name: str,
    severity: Severity,
    n_tasks: int,
    measures: tuple[Measure, ...],
    worst: Iterable[str],
    what_to_change: str,
    scored: Severity | None = None,
) -> Finding:
    """A finding; one of no severity has neither tasks nor advice. `scored`: the severity of its score."""
    points = score(severity if scored is None else scored, n_tasks)
    if severity == Severity.NONE:
        return Finding(name, severity, points, n_tasks, measures)
    return Finding(name, severity, points, n_tasks, measures, tuple(worst)[:MAX_TASKS_TOLD], what_to_change)


def finite(value: float) -> float | str:
    """A number that JSON has; "infinite" or "not a number" else."""
    if math.isnan(value):
        return "not a number"
    return "infinite" if math.isinf(value) else value


__all__ = ["MAX_TASKS_TOLD", "Finding", "Limits", "Measure", "Severity", "finite", "found", "not_known", "score"]
