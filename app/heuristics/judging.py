"""All heuristics of a job, in both modes, and what of the job they could not be asked about."""

from __future__ import annotations

from app.heuristics import corrected, dr_elephant
from app.heuristics.figures import FAILED, SUCCEEDED, JobFigures
from app.heuristics.judgement import Judgement
from collectors.hadoop_ids import TaskKind

KINDS: tuple[tuple[TaskKind, str], ...] = (("MAP", "maps"), ("REDUCE", "reduces"))


def judged(job: JobFigures) -> Judgement[JobFigures]:
    """A job by all heuristics."""
    return Judgement(job, tuple(dr_elephant.judge(job)), tuple(corrected.judge(job)), tuple(_gaps(job)))


def judged_so_far(job: JobFigures, why: str = "it still runs") -> Judgement[JobFigures]:
    """A job by the corrected heuristics, over the tasks that are done (`figures_so_far`); `why` no more is known."""
    parts = []
    for kind, name in KINDS:
        n_done, n_planned = len(job.tasks(kind)), job.n_planned(kind)
        if n_planned is None or n_planned:
            parts.append(f"{n_done:,} of {'?' if n_planned is None else f'{n_planned:,}'} {name}")
    gaps = (
        f"{why}: so far these are findings about the {' and '.join(parts)} that have succeeded",
        "memory and cached files are judged when it has ended: until then nobody tells them",
    )
    return Judgement(job, (), tuple(corrected.judge_so_far(job)), gaps)


def _gaps(job: JobFigures) -> list[str]:
    gaps = list(job.problems)
    if job.status is None:
        gaps.append("its end is not known: heuristics judge jobs that have ended")
    elif job.status not in (SUCCEEDED, FAILED):
        gaps.append(f"it ended as {job.status}: heuristics judge jobs that succeeded or failed")
    for kind, name in KINDS:
        tasks, planned = job.tasks(kind), job.n_planned(kind)
        if planned is not None and len(tasks) < planned:
            gaps.append(f"only {len(tasks):,} of its {planned:,} {name} are known")
        n_without = sum(task.counters is None for task in tasks)
        if n_without:
            gaps.append(
                f"the counters of {n_without:,} of {len(tasks):,} {name} are not known: ingest its history again"
            )
    if job.settings is None:
        gaps.append("its configuration is not known: ingest its _conf.xml")
    return gaps


__all__ = ["judged", "judged_so_far"]
