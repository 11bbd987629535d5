"""What a run showed, as lines for a person."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.replay.ground_truth import Verdict
from app.replay.recording import Fault
from app.store.models import ProblemRow
from tests.live.daemon_scenario import DaemonsObserved
from tests.live.scenario import Observed


def lines(observed: Observed) -> Iterator[str]:
    """Per fault: how long after it began, and before its job ended, the alert was stored and the webhook called."""
    kept = observed.kept
    if kept is None:
        return
    yield f"{'fault':<18}{'query':<27}{'stored after':>13}{'webhook after':>14}{'before job end':>15}"
    for fault, alert in kept.verdict.found:
        delivery = next((d for d in observed.deliveries if d.alert_id == alert.id), None)
        told = _seconds(delivery.received_ms - fault.from_ms) if delivery else "-"
        left = observed.ended_ms(fault.job_id) - alert.raised_ms
        stored = _seconds(alert.raised_ms - fault.from_ms)
        yield f"{fault.fault:<18}{fault.query:<27}{stored:>13}{told:>14}{_seconds(left):>15}"
    yield from _verdict_lines(kept.verdict)
    n_again = len(observed.deliveries) - len({delivery.key for delivery in observed.deliveries})
    yield f"{len(kept.notifications)} notifications, {len(observed.deliveries)} deliveries, {n_again} of them again"
    yield from _cost_lines(observed.last_metrics)
    yield from _problem_lines(kept.problems, len(kept.late_events))


def daemon_lines(observed: DaemonsObserved) -> Iterator[str]:
    """Per fault and query: how long after it began the alert was stored, and what it says; or that an alert of a fault
    before it, about the same, goes on."""
    yield f"{'fault':<22}{'query':<32}{'stored after':>13}  says"
    for fault, alert in observed.verdict.found:
        after_ms = alert.raised_ms - fault.from_ms
        stored = _seconds(after_ms) if after_ms >= 0 else "goes on"
        yield f"{fault.fault:<22}{fault.query:<32}{stored:>13}  {alert.summary}"
    yield from _verdict_lines(observed.verdict)
    for of, further in observed.verdict.secondary:
        yield f"further, of {of.fault}: {further.query}: {further.summary}"
    for row in observed.alerts:
        if row.is_incident:
            yield f"incident {row.query}: {row.summary}"
    yield from _cost_lines(observed.last_metrics)
    yield from _problem_lines(observed.problems, len(observed.late_events))


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    for fault in verdict.missed:
        yield f"{fault.fault:<18}{fault.query:<27}{'MISSED':>13} {_hit(fault)}"
    for alert in verdict.false_alarms:
        yield f"FALSE ALARM {alert.query}: {alert.summary}"
    yield (
        f"{len(verdict.found)} of {len(verdict.found) + len(verdict.missed)} faults found,"
        f" {len(verdict.false_alarms)} false alarms, {len(verdict.secondary)} further alerts on jobs with a fault,"
        f" {len(verdict.unexplained)} unexplained"
    )
    for alert in verdict.unexplained:
        yield f"unexplained: {alert.query}: {alert.summary}"


def _cost_lines(metrics: str) -> Iterator[str]:
    for name, unit in (("process_cpu_seconds_total", "s"), ("process_resident_memory_bytes", "bytes")):
        yield f"clustercep since its last start: {name} {value_of(metrics, name):.0f} {unit}"


def _problem_lines(problems: list[ProblemRow], n_late: int) -> Iterator[str]:
    for problem in problems:
        yield f"problem {problem.source} {problem.kind} x{problem.n_times} at {problem.place}: {problem.message}"
    yield f"{n_late} late events, {len(problems)} problems"


def value_of(metrics: str, name: str) -> float:
    """The value of a metric without labels; NaN when it is not there."""
    found = re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)
    return float(found[1]) if found else float("nan")


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1000:.1f} s"


def _hit(fault: Fault) -> str:
    return ", ".join(sorted(fault.names)) or str(fault.job_id)
