"""What a run showed, as lines for a person."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.replay.recording import Fault
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
    for fault in kept.verdict.missed:
        yield f"{fault.fault:<18}{fault.query:<27}{'MISSED':>13} {_hit(fault)}"
    for alert in kept.verdict.false_alarms:
        yield f"FALSE ALARM {alert.query}: {alert.summary}"
    verdict = kept.verdict
    yield (
        f"{len(verdict.found)} of {len(verdict.found) + len(verdict.missed)} faults found,"
        f" {len(verdict.false_alarms)} false alarms, {len(verdict.secondary)} further alerts on jobs with a fault,"
        f" {len(verdict.unexplained)} unexplained"
    )
    for alert in kept.verdict.unexplained:
        yield f"unexplained: {alert.query}: {alert.summary}"
    n_again = len(observed.deliveries) - len({delivery.key for delivery in observed.deliveries})
    yield f"{len(kept.notifications)} notifications, {len(observed.deliveries)} deliveries, {n_again} of them again"
    for name, unit in (("process_cpu_seconds_total", "s"), ("process_resident_memory_bytes", "bytes")):
        yield f"clustercep after its restart: {name} {value_of(observed.last_metrics, name):.0f} {unit}"
    for problem in kept.problems:
        yield f"problem {problem.source} {problem.kind} x{problem.n_times} at {problem.place}: {problem.message}"
    yield f"{len(kept.late_events)} late events, {len(kept.problems)} problems"


def value_of(metrics: str, name: str) -> float:
    """The value of a metric without labels; NaN when it is not there."""
    found = re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)
    return float(found[1]) if found else float("nan")


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1000:.1f} s"


def _hit(fault: Fault) -> str:
    return ", ".join(sorted(fault.names)) or str(fault.job_id)
