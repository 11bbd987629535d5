"""Alerts, their changes of state, the events that they show and the hosts that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, and_, bindparam, or_, select

from app.store.alert_pages import filtered_later, longest_ms
from app.store.bulk import Row, in_chunks
from app.store.models import AlertChangeRow, AlertRow, EvidenceRow, EvidenceValues
from app.store.writing.gathered import GatheredRows
from app.store.writing.incidents import has_open_members
from app.store.writing.known_alerts import Span

# Made once: each in_() of a list of values would be looked at value by value.
_TO_CLOSE = select(AlertRow.query, AlertRow.key_text, AlertRow.start_ms, AlertRow.end_ms, AlertRow.id).where(
    AlertRow.id.in_(bindparam("ids", expanding=True)), AlertRow.open.is_(True)
)

_OF_SILENCES = select(
    AlertRow.id, AlertRow.start_ms, AlertRow.state, AlertRow.silenced, AlertRow.open,
    AlertRow.query, AlertRow.key, AlertRow.severity, AlertRow.labels,
)  # fmt: skip


class Host(Protocol):
    """A host that an alert names."""

    @property
    def host(self) -> str:
        """Its name."""
        ...

    @property
    def role(self) -> str:
        """suspect or affected."""
        ...

    @property
    def value_name(self) -> str | None:
        """The RETURN value that is shown beside it."""
        ...

    @property
    def value(self) -> Any:
        """That value."""
        ...


class Alerts:
    """Alerts as one transaction reads and writes them."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def get(self, alert_id: str) -> AlertRow | None:
        """By id."""
        if self._rows.known is not None:
            if (known := self._rows.known.alert(alert_id)) is not None:
                return known
            if self._rows.known.is_absent(alert_id):
                return None
        return self._rows.session.get(AlertRow, alert_id)

    def near(self, query: str, key_text: str, start_ms: int, end_ms: int, gap_ms: int) -> list[AlertRow]:
        """Alerts of a query and key within the gap of a closed interval, the earliest first; not merged ones."""
        if self._rows.known is not None and self._rows.known.covers(query, key_text):
            return self._rows.known.near(query, key_text, start_ms - gap_ms, end_ms + gap_ms)
        # Without a bound below, all earlier alerts of the key would be looked at.
        earliest_ms = start_ms - gap_ms - longest_ms(self._rows.session)
        statement = (
            select(AlertRow)
            .where(
                AlertRow.query == query,
                AlertRow.key_text == key_text,
                AlertRow.start_ms >= earliest_ms,
                AlertRow.start_ms <= end_ms + gap_ms,
                AlertRow.end_ms >= start_ms - gap_ms,
                AlertRow.merged_into.is_(None),
            )
            .order_by(AlertRow.start_ms, AlertRow.id)
        )
        return list(self._rows.session.scalars(statement))

    def open_over(self, watermark_ms: int) -> list[str]:
        """Ids of open alerts whose end and gap the watermark has passed, the earliest first; of incidents those of
        which no alert goes on."""
        over = AlertRow.end_ms + AlertRow.group_gap_ms < watermark_ms
        statement = select(AlertRow.id).where(AlertRow.open.is_(True), over, ~has_open_members())
        return list(self._rows.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def look_up_to_close(self, alert_ids: Sequence[str]) -> list[AlertRow]:
        """Those of these alerts that are open, in their order, with what has to be known to close them."""
        spans = []
        for chunk in in_chunks(alert_ids):
            found = self._rows.session.execute(_TO_CLOSE, {"ids": chunk})
            spans += [Span(*of_alert, is_closing=True) for of_alert in found]
        self._rows.look_up(spans)
        alerts = [self.get(alert_id) for alert_id in alert_ids] if spans else []
        return [alert for alert in alerts if alert is not None and alert.open]

    def open_of(self, query: str, key_text: str | None) -> list[AlertRow]:
        """Open alerts of a query, and key unless None."""
        if key_text is not None and self._rows.known is not None and self._rows.known.covers(query, key_text):
            return self._rows.known.open(query, key_text)
        statement = select(AlertRow).where(AlertRow.open.is_(True), AlertRow.query == query)
        if key_text is not None:
            statement = statement.where(AlertRow.key_text == key_text)
        return list(self._rows.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def open_of_other_meanings(self, known: Mapping[str, str]) -> list[AlertRow]:
        """Open alerts of queries that are none of these (name -> hash of the meaning), or had another meaning."""
        other = or_(AlertRow.query.not_in(sorted(known)), AlertRow.query_hash.not_in(sorted(set(known.values()))))
        statement = select(AlertRow).where(AlertRow.open.is_(True), other)
        return list(self._rows.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def concerned_by_silences(self, *, open_too: bool, behind: str = "", at_most: int | None = None) -> list[Row]:
        """Columns of the alerts that were silenced when they were looked at last, also those that are over since; with
        `open_too`, of all that are not over as well; in order of their ids, from behind one on, at most so many."""
        ids: set[str] = set()
        in_order = AlertRow.id.concat("")  # which no index has: the database sorts what few are wanted of
        for condition in _concerned_by_silences(open_too=open_too):
            wanted = select(AlertRow.id).where(condition, filtered_later(AlertRow.id > behind))
            if at_most is not None:
                wanted = wanted.order_by(in_order).limit(at_most)
            ids.update(self._rows.session.scalars(wanted))
        return self.of_silences(sorted(ids)[:at_most])

    def of_silences(self, alert_ids: Sequence[str]) -> list[Row]:
        """Columns by which silences cover alerts, in the order of these ids, which is an ascending one."""
        rows: list[Row] = []
        for chunk in in_chunks(alert_ids):
            found = self._rows.session.execute(_OF_SILENCES.where(AlertRow.id.in_(chunk)))
            rows += sorted((row._asdict() for row in found), key=lambda row: str(row["id"]))
        return rows

    def n_concerned_by_silences(self, *, open_too: bool, at_most: int) -> int:
        """How many those are, counted up to `at_most`."""
        ids: set[str] = set()
        for condition in _concerned_by_silences(open_too=open_too):
            ids.update(self._rows.session.scalars(select(AlertRow.id).where(condition).limit(at_most)))
        return min(len(ids), at_most)

    def to_tell(self, at_most: int) -> list[str]:
        """Ids of alerts that somebody changed by hand, of which receivers are still to be told, in order."""
        statement = select(AlertRow.id).where(AlertRow.to_tell.is_(True)).order_by(AlertRow.id).limit(at_most)
        return list(self._rows.session.scalars(statement))

    def acknowledged_until(self, now_ms: int, at_most: int) -> list[str]:
        """Ids of alerts whose acknowledgement has come to its end, in order; by the index of states, of which few are
        acknowledged."""
        over = (AlertRow.state == "acknowledged", filtered_later(AlertRow.acknowledged_until_ms <= now_ms))
        return list(self._rows.session.scalars(select(AlertRow.id).where(*over).order_by(AlertRow.id).limit(at_most)))

    def by_ids(self, alert_ids: Sequence[str]) -> list[AlertRow]:
        """Alerts in this order."""
        found: dict[str, AlertRow] = {}
        for chunk in in_chunks(alert_ids):
            alerts = self._rows.session.scalars(select(AlertRow).where(AlertRow.id.in_(chunk)))
            found |= {alert.id: alert for alert in alerts}
        return [found[alert_id] for alert_id in alert_ids if alert_id in found]

    def add(self, alert: AlertRow) -> None:
        """A new alert, at once."""
        self._rows.session.add(alert)
        self._rows.session.flush()

    def add_gathered(self, columns: Row) -> AlertRow:
        """A new alert, with all its columns; it is written with what becomes of it until rows are forgotten."""
        alert = AlertRow()
        vars(alert).update(columns)  # nobody has to be told of changes of what is not there yet
        self._rows.add_alert(alert)
        return alert

    def add_change(self, change: Row) -> None:
        """A change of state that was made on its alert: the columns of AlertChangeRow."""
        self._rows.changes.append(change)

    def last_change_to(self, alert_id: str, state: str) -> AlertChangeRow:
        """The last change of an alert to a state that it had, from another one: what happened to it in it is none."""
        statement = select(AlertChangeRow).where(
            AlertChangeRow.alert_id == alert_id,
            AlertChangeRow.to_state == state,
            AlertChangeRow.from_state.is_distinct_from(state),
        )
        return self._rows.session.scalars(statement.order_by(AlertChangeRow.revision.desc()).limit(1)).one()

    def replace_evidence(self, alert_id: str, rows: Sequence[EvidenceValues]) -> None:
        """The events of the match that the alert shows."""
        self._rows.evidence[alert_id] = rows

    def copy_evidence(self, from_alert: str, to_alert: str) -> None:
        """The alert shows the match that the other one shows."""
        found = self._rows.session.execute(
            select(*EvidenceRow.__table__.columns).where(EvidenceRow.alert_id == from_alert)
        )
        self.replace_evidence(to_alert, [(to_alert, *values) for _, *values in found])

    def replace_hosts(self, alert_id: str, start_ms: int, hosts: Sequence[Host]) -> None:
        """The hosts that an alert names, in order."""
        self._rows.hosts[alert_id] = [
            {
                "alert_id": alert_id,
                "position": position,
                "host": named.host,
                "role": named.role,
                "value_name": named.value_name,
                "value": named.value,
                "start_ms": start_ms,
            }
            for position, named in enumerate(hosts)
        ]


def _concerned_by_silences(*, open_too: bool) -> list[ColumnElement[bool]]:
    """One of these; an index each: ids in order would be read by the primary key, all of them."""
    silenced = AlertRow.silenced.is_(True)
    return [silenced, and_(AlertRow.open.is_(True), AlertRow.state != "resolved")] if open_too else [silenced]


__all__ = ["Alerts"]
