"""A judged job in the terminal. Names from the cluster are never read as markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from app.console import inert
from app.durations import format_duration
from app.heuristics.figures import JobFigures
from app.heuristics.judgement import Judged, Judgement
from app.heuristics.severity import Finding, Measure, Severity, finite
from app.heuristics.spark.figures import SparkFigures
from app.heuristics.waste import Waste
from app.tables import Column, Fit, number, print_table

STYLES = {
    Severity.NONE: "dim", Severity.LOW: "", Severity.MODERATE: "yellow", Severity.SEVERE: "red",
    Severity.CRITICAL: "bold red",
}  # fmt: skip
MAX_NOTE_CHARS = 1_000
_FINDINGS = (
    Column("heuristic", Fit.WRAP, 12), Column("severity", Fit.WHOLE), number("score", spare=1),
    Column("measured", Fit.WRAP, 24), Column("behind it", Fit.WRAP, 16, spare=2),
)  # fmt: skip


def print_judgement(console: Console, judgement: Judgement[JobFigures], waste: Waste, *, compatible: bool) -> None:
    """The findings of a job, the worst first; `compatible`: those of Dr. Elephant in place of the corrected ones."""
    job = judgement.figures
    facts = (("name", job.job_name), ("user", job.user), ("queue", job.queue), ("status", job.status))
    _print_facts(console, job.job_id, facts)
    if waste.held_gib_h is not None:
        wasted = "an unknown part" if waste.wasted_gib_h is None else f"{waste.wasted_gib_h:,.2f} GiB h"
        console.print(_text(f"Held {waste.held_gib_h:,.2f} GiB h of memory; not used: {wasted}."))
    _print_findings_of(console, judgement, compatible=compatible)


def print_application(console: Console, judgement: Judgement[SparkFigures], waste: Waste, *, compatible: bool) -> None:
    """As `print_judgement`, of a Spark application."""
    app = judgement.figures
    facts = (("name", app.application_name), ("user", app.user), ("queue", app.queue), ("exit code", app.exit_code))
    _print_facts(console, app.application_id, facts)
    if waste.held_gib_h is not None:
        console.print(_text(
            f"Held {waste.held_gib_h:,.2f} GiB h of memory; without a task, or for tasks that did not succeed: "
            f"{waste.wasted_gib_h or 0.0:,.2f} GiB h."
        ))  # fmt: skip
    _print_findings_of(console, judgement, compatible=compatible)


def _print_facts(console: Console, name: str, facts: Sequence[tuple[str, object]]) -> None:
    told = ", ".join(f"{fact} {_line('unknown' if value is None else value, 80)}" for fact, value in facts)
    console.print(_text(f"{_line(name, 200)}: {told}"))


def _print_findings_of(console: Console, judgement: Judgement[Judged], *, compatible: bool) -> None:
    findings = judgement.findings(compatible=compatible)
    if compatible and not findings and judgement.corrected:
        console.print(_text("What Dr. Elephant computes is there once it has ended."))
    title = "as Dr. Elephant computes it" if compatible else "heuristics"
    if findings:
        _print_findings(console, title, sorted(findings, key=_standing))
    for finding in sorted(findings, key=_standing):
        if finding.advice and finding.severity:
            console.print(_text(f"{finding.heuristic}: {finding.advice}"))
    for gap in judgement.gaps:
        console.print(_text(f"Note: {_line(gap, 300)}"))


def measure_text(measure: Measure) -> str:
    """A measure with the limit that it passed."""
    value = value_text(measure.value, measure.unit)
    if measure.passed is None:
        first = value_text(measure.limits.low, measure.unit)
        return f"{measure.name} {value} (low {'up to' if measure.limits.falling else 'from'} {first})"
    side = "at most" if measure.limits.falling else "at least"
    return f"{measure.name} {value} ({side} {value_text(measure.passed, measure.unit)})"


def value_text(value: float, unit: str) -> str:
    """A value with its unit."""
    shown = finite(value)
    if isinstance(shown, str):
        return shown
    if unit == "ms":
        return format_duration(round(shown))
    if unit.startswith("bytes"):
        return _size(shown) + unit.removeprefix("bytes")
    if unit == "share":
        return f"{100 * shown:,.3g} %"
    return f"{shown:,.0f}" if unit == "tasks" else f"{shown:,.4g}"


def severity_text(finding: Finding) -> str:
    """In lower case; "not known" where it is not."""
    return "not known" if finding.severity is None else finding.severity.name.lower()


def _print_findings(console: Console, title: str, findings: list[Finding]) -> None:
    rows = []
    for finding in findings:
        told = [measure_text(measure) for measure in finding.measures]
        if finding.note:
            told.append(finding.note[:MAX_NOTE_CHARS])
        style = "" if finding.severity is None else STYLES[finding.severity]
        more = f" (of {finding.n_tasks:,})" if finding.tasks and finding.n_tasks else ""
        rows.append((
            finding.heuristic, Text(severity_text(finding), style), f"{finding.score:,}", "\n".join(told),
            "\n".join(_line(task, 80) for task in finding.tasks[:3]) + more,
        ))  # fmt: skip
    print_table(console, _FINDINGS, rows, title=title)


def _standing(finding: Finding) -> int:
    """The worst first, then what is not known, then the rest."""
    if finding.severity is None:
        return -1
    return 0 if finding.severity == Severity.NONE else -1 - int(finding.severity)


def _size(n_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n_bytes) < 1024:
            return f"{n_bytes:,.0f} {unit}" if unit == "B" else f"{n_bytes:,.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} TiB"


def _line(text: object, most: int) -> str:
    return inert(text).replace("\n", " ")[:most]


def _text(text: str) -> Text:
    return Text(inert(text))


__all__ = ["measure_text", "print_application", "print_judgement", "severity_text", "value_text"]
