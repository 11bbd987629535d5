"""What a step did to alerts and reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from app.alerting.recording.episodes import CreatedAlert
from app.store.models import AlertRow


@dataclass(frozen=True, slots=True)
class AlertLine:
    """Something that happened to an alert, for the log."""

    query: str
    alert: str
    job: str | None
    what: str

    def fields(self) -> dict[str, str]:
        """What the line of the log names; the job when there is one."""
        fields = {"query": self.query, "alert": self.alert, "what": self.what}
        return fields if self.job is None else {**fields, "job": self.job}


@dataclass
class Outcome:
    """What a step did to alerts and reports."""

    n_new_alerts: int = 0
    n_resolved: int = 0
    n_reports: int = 0
    n_notifications: int = 0
    n_changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Changes of state by (query, state that the alert went to)."""
    log: list[AlertLine] = field(default_factory=list)
    created: list[CreatedAlert] = field(default_factory=list)

    def __iadd__(self, other: Outcome) -> Self:
        """With what another transaction of the step did."""
        self.n_new_alerts += other.n_new_alerts
        self.n_resolved += other.n_resolved
        self.n_reports += other.n_reports
        self.n_notifications += other.n_notifications
        self.n_changes.update(other.n_changes)
        self.log += other.log
        self.created += other.created
        return self

    def tell(self, alert: AlertRow, what: str) -> None:
        """Something happened to an alert."""
        self.log.append(AlertLine(alert.query, alert.id, alert.job_id, what))


class NewSilence(NamedTuple):
    """A silence that was made."""

    id: int
    n_alerts: int
    """Open alerts that it silenced."""


__all__ = ["AlertLine", "NewSilence", "Outcome"]
