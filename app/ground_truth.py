"""Setting alerts beside the faults that were injected: found, missed, secondary, false alarms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.recording import Fault, RecordedJob

_TASK_OR_ATTEMPT = re.compile(r"(?:task|attempt)_([0-9]+_[0-9]+)_.*")


@dataclass(frozen=True)
class SeenAlert:
    """What an alert says."""

    id: str
    query: str
    names: Mapping[str, Any]
    """Its key and RETURN values."""
    start_ms: int
    end_ms: int
    created_ms: int
    confidence: float
    summary: str

    @property
    def job_id(self) -> str | None:
        """The job it concerns, from the job's id or that of a task or attempt."""
        if self.names.get("job_id"):
            return str(self.names["job_id"])
        for name in ("task_id", "attempt_id"):
            match = _TASK_OR_ATTEMPT.fullmatch(str(self.names.get(name) or ""))
            if match:
                return f"job_{match[1]}"
        return None


@dataclass
class Verdict:
    """How alerts and faults relate."""

    found: list[tuple[Fault, SeenAlert]] = field(default_factory=list)
    """Each fault with the first alert that finds it."""
    missed: list[Fault] = field(default_factory=list)
    secondary: list[tuple[Fault, SeenAlert]] = field(default_factory=list)
    """Further alerts on a fault's job during the fault."""
    false_alarms: list[SeenAlert] = field(default_factory=list)
    """Alerts that belong to no fault and concern a healthy job, or none that is known."""
    unexplained: list[SeenAlert] = field(default_factory=list)
    """Alerts on a job with a fault, but at another time."""

    @property
    def passed(self) -> bool:
        """True when nothing is missed and nothing is a false alarm."""
        return not self.missed and not self.false_alarms


def finds(alert: SeenAlert, fault: Fault) -> bool:
    """Whether the alert is of the query meant for the fault, names what it hit and overlaps it in time."""
    return alert.query == fault.query and overlaps(alert, fault) and names_what_it_hit(alert, fault)


def overlaps(alert: SeenAlert, fault: Fault) -> bool:
    """Whether the closed intervals have a moment in common."""
    return alert.start_ms <= fault.to_ms and fault.from_ms <= alert.end_ms


def names_what_it_hit(alert: SeenAlert, fault: Fault) -> bool:
    """Every name that the alert carries and the fault knows must agree, and there must be one.

    The host of a task says where the task ran, not what was hit, unless nothing else is named.
    """
    checks = [
        (alert.job_id, frozenset({fault.job_id} if fault.job_id else ())),
        (alert.names.get("task_id"), frozenset(fault.task_ids)),
        (alert.names.get("attempt_id"), frozenset(fault.attempt_ids)),
        (alert.names.get("source_host"), fault.all_hosts),
    ]
    known = [name in hit for name, hit in checks if name is not None and hit]
    if not known and alert.names.get("host") is not None and fault.all_hosts:
        known = [alert.names["host"] in fault.all_hosts]
    return bool(known) and all(known)


def judge(alerts: Iterable[SeenAlert], faults: Sequence[Fault], jobs: Iterable[RecordedJob]) -> Verdict:
    """Compare; every alert ends up in exactly one place, but one that finds several faults in each of them."""
    verdict = Verdict()
    by_fault: list[list[SeenAlert]] = [[] for _ in faults]
    unhealthy = {job.job_id for job in jobs if not job.healthy}
    for alert in sorted(alerts, key=lambda a: (a.created_ms, a.start_ms, a.id)):
        hits = [i for i, fault in enumerate(faults) if finds(alert, fault)]
        for i in hits:
            by_fault[i].append(alert)
        if hits:
            continue
        same_job = [f for f in faults if f.job_id is not None and f.job_id == alert.job_id and overlaps(alert, f)]
        if same_job:
            verdict.secondary.append((same_job[0], alert))
        elif alert.job_id in unhealthy:
            verdict.unexplained.append(alert)
        else:
            verdict.false_alarms.append(alert)
    for fault, found in zip(faults, by_fault, strict=True):
        if not found:
            verdict.missed.append(fault)
            continue
        verdict.found.append((fault, found[0]))
        verdict.secondary += [(fault, alert) for alert in found[1:]]
    return verdict
