"""What one transaction has gathered: rows that come in numbers, written before anything is read that may need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain

from sqlalchemy import delete
from sqlalchemy.orm import Session, make_transient_to_detached

from app.store.bulk import Row, in_chunks, insert_rows, insert_values
from app.store.models import (
    AlertChangeRow,
    AlertHostRow,
    AlertRow,
    Base,
    EvidenceRow,
    EvidenceValues,
    IncidentMemberRow,
)
from app.store.writing.known_alerts import KnownAlerts, Span
from app.store.writing.known_incidents import KnownIncidents


class GatheredRows:
    """Rows that have not been written yet, and what is known of alerts without asking the database."""

    def __init__(self, session: Session) -> None:
        self.bare_session = session
        """Without what is gathered: for what cannot depend on it."""
        self.known: KnownAlerts | None = None
        """What `look_up` has read, with what was gathered since."""
        self.known_incidents: KnownIncidents | None = None
        """The same of incidents and their parts."""
        self.new_alerts: dict[str, AlertRow] = {}
        self.new_parts: list[IncidentMemberRow] = []
        self.changes: list[Row] = []
        """The columns of AlertChangeRow."""
        self.evidence: dict[str, Sequence[EvidenceValues]] = {}
        self.hosts: dict[str, Sequence[Row]] = {}
        """What replaces the evidence and the hosts of alerts, by their ids."""
        self._write_last: list[Callable[[], None]] = []

    @property
    def session(self) -> Session:
        """For everything else; what was written so far is in it, and follows what is changed of it later."""
        for row in self.flush():
            make_transient_to_detached(row)
            self.bare_session.add(row)
        return self.bare_session

    def look_up(self, spans: Sequence[Span], *, with_incidents: bool = False) -> None:
        """Read what is known of these alerts; what is asked of their queries and keys is then answered from memory.

        `with_incidents`: also what they are part of, and what is part of them.
        """
        self.forget()
        self.known = KnownAlerts(self.bare_session, spans) if spans else None
        if self.known is not None and with_incidents:
            self.known_incidents = KnownIncidents(self.bare_session, self.known.by_id)

    def forget(self) -> None:
        """Ask the database from now on."""
        self.flush()
        self.known = None
        self.forget_incidents()

    def forget_incidents(self) -> None:
        """Ask the database of incidents from now on."""
        self.known_incidents = None

    def add_alert(self, alert: AlertRow) -> None:
        """A new one."""
        self.new_alerts[alert.id] = alert
        if self.known is not None:
            self.known.add(alert)
        if self.known_incidents is not None:
            self.known_incidents.add_alert(alert)

    def add_part(self, part: IncidentMemberRow) -> None:
        """An alert becomes part of an incident."""
        self.new_parts.append(part)
        if self.known_incidents is not None:
            self.known_incidents.add(part)

    def known_with_messages(self, alert: AlertRow | None) -> KnownAlerts | None:
        """What is known, where all of this alert is: its messages, too."""
        return self.known if alert is not None and self.known is not None and self.known.has_all_of(alert) else None

    def write_last(self, write: Callable[[], None]) -> None:
        """Have this called by `flush`, behind all rows of alerts."""
        self._write_last.append(write)

    def flush(self) -> list[AlertRow | IncidentMemberRow]:
        """Write what was gathered; returns the new alerts and parts of incidents, of which later changes are not
        written."""
        new, self.new_alerts = self.new_alerts, {}
        insert_rows(self.bare_session, AlertRow, [vars(alert) for alert in new.values()])
        parts, self.new_parts = self.new_parts, []
        insert_rows(self.bare_session, IncidentMemberRow, [vars(part) for part in parts])
        evidence, self.evidence = self.evidence, {}
        self._remove(EvidenceRow, evidence.keys() - new.keys())
        insert_values(self.bare_session, EvidenceRow, [*chain.from_iterable(evidence.values())])
        hosts, self.hosts = self.hosts, {}
        self._remove(AlertHostRow, hosts.keys() - new.keys())
        insert_rows(self.bare_session, AlertHostRow, [*chain.from_iterable(hosts.values())])
        changes, self.changes = self.changes, []
        insert_rows(self.bare_session, AlertChangeRow, changes)
        for write in self._write_last:
            write()
        return [*new.values(), *parts]

    def _remove(self, model: type[Base], alert_ids: Collection[str]) -> None:
        table = model.metadata.tables[model.__tablename__]
        for chunk in in_chunks(sorted(alert_ids)):
            self.bare_session.execute(delete(table).where(table.c.alert_id.in_(chunk)))


__all__ = ["GatheredRows"]
