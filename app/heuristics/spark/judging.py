"""All heuristics of an application, in both modes, and what of it they could not be asked about."""

from __future__ import annotations

from app.heuristics.judgement import Judgement
from app.heuristics.spark import corrected, dr_elephant
from app.heuristics.spark.figures import SparkFigures


def judged(app: SparkFigures) -> Judgement[SparkFigures]:
    """An application by all heuristics; one that still runs by the corrected ones, over the tasks that have ended."""
    return Judgement(app, tuple(dr_elephant.judge(app)), tuple(corrected.judge(app)), tuple(_gaps(app)))


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


__all__ = ["judged"]
