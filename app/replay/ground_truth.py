"""Setting alerts beside the faults that were injected: found, missed, secondary, false alarms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.replay.recording import Fault, RecordedJob

_TASK_OR_ATTEMPT = re.compile(r"(?:task|attempt)_([0-9]+_[0-9]+)_.*")


@dataclass(frozen=True)
class SeenAlert:
    """What an alert says."""

    id: str
    query: str
    names: Mapping[str, Any]
    """Its key and RETURN values."""
    onset_ms: int
    last_seen_ms: int
    """From when until when the condition was seen to hold; both ends inclusive."""
    raised_ms: int
    confidence: float
    summary: str
    hosts: tuple[str, ...] = ()
    """That it names, suspects first."""

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
    """Further alerts on a fault's job or suspect during the fault."""
    false_alarms: list[SeenAlert] = field(default_factory=list)
    """Alerts that belong to no fault and concern a healthy job, or none that is known."""
    unexplained: list[SeenAlert] = field(default_factory=list)
    """Alerts on a job with a fault, but at another time."""

    @property
    def passed(self) -> bool:
        """True when nothing is missed and nothing is a false alarm."""
        return not self.missed and not self.false_alarms


def finds(alert: SeenAlert, fault: Fault) -> bool:
    """Whether the alert is of the query meant for the fault, overlaps it in time and names what it hit, its suspect
    first."""
    return (
        alert.query == fault.query
        and overlaps(alert, fault)
        and names_what_it_hit(alert, fault)
        and names_the_suspect(alert, fault)
    )


def _task_of(attempt_id: str) -> str:
    return "task" + attempt_id.removeprefix("attempt").rpartition("_")[0]


def overlaps(alert: SeenAlert, fault: Fault) -> bool:
    """Whether the closed intervals have a moment in common."""
    return alert.onset_ms <= fault.to_ms and fault.from_ms <= alert.last_seen_ms


def names_the_suspect(alert: SeenAlert, fault: Fault) -> bool:
    """Whether the first host that the alert names is one whose fault it was; a fault without hosts has no suspect."""
    return not fault.all_hosts or (alert.hosts[:1] != () and alert.hosts[0] in fault.all_hosts)


def names_what_it_hit(alert: SeenAlert, fault: Fault) -> bool:
    """Every job, application, task and attempt that the alert carries and the fault knows must agree, and there must be
    one.

    An attempt agrees as itself or by its task. Hosts count only where nothing else is named.
    """
    attempt_id = alert.names.get("attempt_id")
    checks = [
        (alert.job_id, frozenset({fault.job_id} if fault.job_id else ())),
        (alert.names.get("application_id"), frozenset({fault.application_id} if fault.application_id else ())),
        (alert.names.get("task_id"), frozenset(fault.task_ids)),
    ]
    known = [name in hit for name, hit in checks if name is not None and hit]
    if attempt_id is not None and fault.names:
        known.append(not fault.names.isdisjoint({attempt_id, _task_of(str(attempt_id))}))
    if not known and fault.all_hosts:
        known = [names_the_suspect(alert, fault)]
    return bool(known) and all(known)


def concerns(alert: SeenAlert, fault: Fault) -> bool:
    """Whether the alert is about the fault's job or application, or, where it names no job, about its suspect, during
    the fault."""
    if not overlaps(alert, fault):
        return False
    if fault.application_id and alert.names.get("application_id") == fault.application_id:
        return True
    if alert.job_id is None:
        return bool(fault.all_hosts) and names_the_suspect(alert, fault)
    return alert.job_id == fault.job_id


def judge(alerts: Iterable[SeenAlert], faults: Sequence[Fault], jobs: Iterable[RecordedJob]) -> Verdict:
    """Compare; every alert ends up in exactly one place, but one that finds several faults in each of them."""
    verdict = Verdict()
    by_fault: list[list[SeenAlert]] = [[] for _ in faults]
    unhealthy = {job.job_id for job in jobs if not job.healthy}
    for alert in sorted(alerts, key=lambda a: (a.raised_ms, a.onset_ms, a.id)):
        hits = [i for i, fault in enumerate(faults) if finds(alert, fault)]
        for i in hits:
            by_fault[i].append(alert)
        if hits:
            continue
        concerned = [fault for fault in faults if concerns(alert, fault)]
        if concerned:
            verdict.secondary.append((concerned[0], alert))
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
