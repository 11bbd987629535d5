"""What the heuristics find of a job, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from app.heuristics.figures import JobFigures
from app.heuristics.from_events import COLUMNS, COLUMNS_SO_FAR, TYPES, figures_so_far, job_figures
from app.heuristics.judgement import Judgement
from app.heuristics.judging import judged, judged_so_far
from app.heuristics.printing import measure_text, severity_text, value_text
from app.heuristics.severity import Finding, Measure, Severity
from collectors.hadoop_ids import cluster_start_ms, is_job
from dashboard.events.source import EventSource
from dashboard.jobs.reading import SLACK_MS, JobEvents
from dashboard.text import inert

SIGNS = {
    Severity.NONE: "✓ none", Severity.LOW: "○ low", Severity.MODERATE: "◔ moderate", Severity.SEVERE: "◑ severe",
    Severity.CRITICAL: "● critical",
}  # fmt: skip
"""Readable without colours."""

MAX_TASKS_SHOWN = 5


def judge(log: EventSource, found: JobEvents) -> Judgement[JobFigures]:
    """A job by what the event log has of it; of one that still runs what can be told of the tasks that are done."""
    job_id = str(found.job["job_id"])
    begin_ms, end_ms = (int(edge) for edge in found.span_ms)
    span: dict[str, int] = {"from_ms": begin_ms - SLACK_MS, "to_ms": end_ms + SLACK_MS}
    if found.is_running:
        mine = log.read(types=TYPES, **span, equal={"job_id": job_id}, columns=COLUMNS_SO_FAR)
        return judged_so_far(figures_so_far(job_id, mine))
    mine = log.read(types=TYPES, **span, equal={"job_id": job_id}, columns=COLUMNS)
    start_ms = cluster_start_ms(job_id) if is_job(job_id) else None
    if start_ms is not None and not span["from_ms"] <= start_ms <= span["to_ms"]:
        # Settings are of no time: they lie where the id says that the cluster started.
        own = log.read(
            types=("JobSettings",), from_ms=start_ms, to_ms=start_ms, equal={"job_id": job_id}, columns=COLUMNS
        )
        mine = pa.concat_tables([mine, own], promote_options="permissive")
    return judged(job_figures(job_id, mine))


def rows(findings: Sequence[Finding]) -> list[dict[str, str | int]]:
    """One per finding, the worst first, then what is not known: Heuristic, Severity, Score, Measured, Limit, Tasks."""
    return [
        {
            "Heuristic": finding.heuristic,
            "Severity": "? not known" if finding.severity is None else SIGNS[finding.severity],
            "Score": finding.score,
            "Measured": _measured(finding),
            "Limit passed": "; ".join(filter(None, map(_limit, finding.measures))) if finding.severity else "",
            "Tasks": inert(", ".join(finding.tasks[:MAX_TASKS_SHOWN]), 300) if finding.tasks else "",
        }
        for finding in ordered(findings)
    ]


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """The worst first, then what is not known, then what is none."""
    return sorted(findings, key=lambda one: 0.5 if one.severity is None else float(one.severity), reverse=True)


def advised(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """(heuristic, severity, what was measured and advised) of those that passed a limit, the worst first."""
    told = []
    for finding in ordered(findings):
        if finding.severity and finding.advice:
            measured = "; ".join(inert(measure_text(measure), 120) for measure in finding.measures)
            text = f"{measured}. {finding.advice}" if measured else finding.advice
            told.append((finding.heuristic, severity_text(finding), text))
    return told


def _measured(finding: Finding) -> str:
    told = [f"{inert(measure.name, 80)} {value_text(measure.value, measure.unit)}" for measure in finding.measures]
    return "; ".join([*told, *([inert(finding.note, 400)] if finding.note else [])])


def _limit(measure: Measure) -> str:
    if measure.passed is None:
        return ""
    return f"{'≤' if measure.limits.falling else '≥'} {value_text(measure.passed, measure.unit)}"


__all__ = ["SIGNS", "advised", "judge", "ordered", "rows"]
