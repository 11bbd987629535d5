"""What one transaction has gathered: rows that come in numbers, written before anything is read that may need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain

from sqlalchemy import delete
from sqlalchemy.orm import Session, make_transient_to_detached

from app.store.bulk import Row, in_chunks, insert_rows, insert_values
from app.store.known_alerts import KnownAlerts, Span
from app.store.models import AlertChangeRow, AlertHostRow, AlertRow, Base, EvidenceRow, EvidenceValues


class GatheredRows:
    """Rows that have not been written yet, and what is known of alerts without asking the database."""

    def __init__(self, session: Session) -> None:
        self.bare_session = session
        """Without what is gathered: for what cannot depend on it."""
        self.known: KnownAlerts | None = None
        """What `look_up` has read, with what was gathered since."""
        self.new_alerts: dict[str, AlertRow] = {}
        self.changes: list[Row] = []
        """The columns of AlertChangeRow."""
        self.evidence: dict[str, Sequence[EvidenceValues]] = {}
        self.hosts: dict[str, Sequence[Row]] = {}
        """What replaces the evidence and the hosts of alerts, by their ids."""
        self._write_last: list[Callable[[], None]] = []

    @property
    def session(self) -> Session:
        """For everything else; what was written so far is in it, and follows what is changed of it later."""
        for alert in self.flush():
            make_transient_to_detached(alert)
            self.bare_session.add(alert)
        return self.bare_session

    def look_up(self, spans: Sequence[Span]) -> None:
        """Read what is known of these alerts; what is asked of their queries and keys is then answered from memory."""
        self.flush()
        self.known = KnownAlerts(self.bare_session, spans) if spans else None

    def forget(self) -> None:
        """Ask the database from now on."""
        self.flush()
        self.known = None

    def known_with_messages(self, alert: AlertRow | None) -> KnownAlerts | None:
        """What is known, where all of this alert is: its messages, too."""
        return self.known if alert is not None and self.known is not None and self.known.has_all_of(alert) else None

    def write_last(self, write: Callable[[], None]) -> None:
        """Have this called by `flush`, behind all rows of alerts."""
        self._write_last.append(write)

    def flush(self) -> list[AlertRow]:
        """Write what was gathered; returns the new alerts, of which later changes are not written."""
        new, self.new_alerts = self.new_alerts, {}
        insert_rows(self.bare_session, AlertRow, [vars(alert) for alert in new.values()])
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
        return list(new.values())

    def _remove(self, model: type[Base], alert_ids: Collection[str]) -> None:
        table = model.metadata.tables[model.__tablename__]
        for chunk in in_chunks(sorted(alert_ids)):
            self.bare_session.execute(delete(table).where(table.c.alert_id.in_(chunk)))


__all__ = ["GatheredRows"]
