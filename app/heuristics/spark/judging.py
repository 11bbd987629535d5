"""All heuristics of an application, in both modes, and what of it they could not be asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.heuristics.severity import Finding, Severity
from app.heuristics.spark import corrected, dr_elephant
from app.heuristics.spark.figures import SparkFigures


@dataclass(frozen=True)
class SparkJudgement:
    """What the heuristics say of one application."""

    application: SparkFigures
    dr_elephant: tuple[Finding, ...]
    """As Dr. Elephant computes them; empty for an application that still runs."""
    corrected: tuple[Finding, ...]
    gaps: tuple[str, ...]
    """What is missing, in words."""

    @property
    def severity(self) -> Severity | None:
        """The worst of the corrected findings; None where none is known."""
        known = [finding.severity for finding in self.corrected if finding.severity is not None]
        return max(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """As `clustercep report job` prints it."""
        app = self.application
        names = (
            "application_id", "application_attempt", "application_name", "user", "queue", "start_ms", "end_ms",
            "exit_code",
        )  # fmt: skip
        return {
            **{name: getattr(app, name) for name in names},
            "n_jobs": len(app.jobs),
            "n_stages": len(app.stages),
            "n_executors": len(app.executors),
            "severity": None if self.severity is None else self.severity.name,
            "corrected": [finding.to_json() for finding in self.corrected],
            "dr_elephant": [finding.to_json() for finding in self.dr_elephant],
            "gaps": list(self.gaps),
        }


def judged(app: SparkFigures) -> SparkJudgement:
    """An application by all heuristics; one that still runs by the corrected ones, over the tasks that have ended."""
    return SparkJudgement(app, tuple(dr_elephant.judge(app)), tuple(corrected.judge(app)), tuple(_gaps(app)))


def _gaps(app: SparkFigures) -> list[str]:
    gaps = list(app.problems)
    if app.end_ms is None:
        n_tasks = sum(1 for _ in app.tasks)
        gaps.append(f"its end is not known: so far these are findings about the {n_tasks:,} tasks that have ended")
    n_short = sum(
        stage.status is not None and len(stage.tasks) < stage.n_planned and stage.reason is None for stage in app.stages
    )
    if n_short:
        gaps.append(f"of {n_short:,} of its {len(app.stages):,} stages not all tasks are known")
    return gaps


__all__ = ["SparkJudgement", "judged"]
