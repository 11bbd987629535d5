"""Writing, inside one transaction that `Store.transaction` opened."""

from __future__ import annotations

from sqlalchemy.orm import Session

from app.settings import Retention
from app.store import retention as retention_of_rows
from app.store.writing.alerts import Alerts
from app.store.writing.gathered import GatheredRows
from app.store.writing.groups import Groups
from app.store.writing.incidents import Incidents
from app.store.writing.outbox import Outbox
from app.store.writing.problems import Problems
from app.store.writing.progress import Progress
from app.store.writing.receivers import Receivers
from app.store.writing.reports import Reports
from app.store.writing.silences import Silences


class Writer:
    """The write operations of one transaction, by what they write.

    Rows that come in numbers are gathered, and written before anything is read that might depend on them;
    `rows.look_up` lets most of what alerting reads be answered from memory.
    """

    def __init__(self, session: Session) -> None:
        self.rows = GatheredRows(session)
        self.alerts = Alerts(self.rows)
        self.reports = Reports(self.rows)
        self.silences = Silences(self.rows)
        self.outbox = Outbox(self.rows)
        self.groups = Groups(self.rows)
        self.incidents = Incidents(self.rows)
        self.receivers = Receivers(self.rows)
        self.problems = Problems(self.rows)
        self.progress = Progress(self.rows)

    @property
    def session(self) -> Session:
        """For everything else; what was written so far is in it, and follows what is changed of it later."""
        return self.rows.session

    def apply_retention(self, retention: Retention, now_ms: int) -> dict[str, int]:
        """Delete a bounded part of what is over and older than its retention; returns how many rows went, by table."""
        self.session.flush()
        return retention_of_rows.apply_retention(self.session, retention, now_ms)


__all__ = ["Writer"]
