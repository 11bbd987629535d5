"""Incidents: which alerts are part of which."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import ColumnElement, Select, and_, delete, exists, literal_column, or_, select, update
from sqlalchemy.orm import aliased

from app.store.alert_pages import filtered_later
from app.store.bulk import in_chunks
from app.store.models import AlertRow, IncidentMemberRow
from app.store.writing.gathered import GatheredRows

_GOES_ON = AlertRow.is_incident.is_(True), filtered_later(AlertRow.open.is_(True)), AlertRow.state != "resolved"
"""Of an incident that still is one (there are far more open alerts than incidents of a few): one that was closed by
hand is open while matches can still join it."""
_INCIDENT, _PART, _OTHER = aliased(AlertRow), aliased(AlertRow), aliased(IncidentMemberRow)
"""Made once, as what is asked in every step below: to make one took as long as to ask."""


class Incidents:
    """Incidents as one transaction reads and writes them."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def get(self, incident_id: str, alert_id: str) -> IncidentMemberRow | None:
        """An alert as part of an incident; None: it is not."""
        if (known := self._rows.known_incidents) is not None and known.knows(incident_id, alert_id):
            return known.get(incident_id, alert_id)
        return self._rows.session.get(IncidentMemberRow, (incident_id, alert_id))

    def add(self, incident_id: str, alert_id: str, now_ms: int, *, covered: bool) -> None:
        """An alert becomes part of an incident, if it is not yet; `covered`: see IncidentMemberRow."""
        if self.get(incident_id, alert_id) is None:
            part = IncidentMemberRow(incident_id=incident_id, alert_id=alert_id, covered=covered, joined_ms=now_ms)
            self._rows.add_part(part)

    def members(self, incident_id: str) -> list[AlertRow]:
        """The alerts of an incident, the earliest first."""
        if (known := self._known_members(incident_id)) is not None:
            return sorted(known, key=lambda alert: (alert.start_ms, alert.id))
        of = select(AlertRow).join(IncidentMemberRow, IncidentMemberRow.alert_id == AlertRow.id)
        found = of.where(IncidentMemberRow.incident_id == incident_id).order_by(AlertRow.start_ms, AlertRow.id)
        return list(self._rows.session.scalars(found))

    def _known_members(self, incident_id: str) -> list[AlertRow] | None:
        alerts, incidents = self._rows.known, self._rows.known_incidents
        if alerts is None or incidents is None or (ids := incidents.below(incident_id)) is None:
            return None
        found = [alert for alert_id in ids if (alert := alerts.alert(alert_id)) is not None]
        return found if len(found) == len(ids) else None

    def of(self, alert_id: str) -> list[IncidentMemberRow]:
        """The incidents that an alert is part of, whether they are over or not."""
        known = self._rows.known_incidents
        if known is not None and (found := known.of(alert_id)) is not None:
            return found
        rows = select(IncidentMemberRow).where(IncidentMemberRow.alert_id == alert_id)
        return list(self._rows.session.scalars(rows.order_by(IncidentMemberRow.incident_id)))

    def sharing(self, incident_id: str) -> dict[str, set[str]]:
        """Of the incidents that go on and have an alert in common with this one, itself among them: the ids of the
        alerts of each."""
        known = self._rows.known_incidents
        if known is not None and (found := known.sharing(incident_id)) is not None:
            return found
        shared = (
            select(IncidentMemberRow.incident_id)
            .join(_OTHER, _OTHER.alert_id == IncidentMemberRow.alert_id)
            .join(AlertRow, AlertRow.id == IncidentMemberRow.incident_id)
            .where(_OTHER.incident_id == incident_id, *_GOES_ON)
        )
        found = {}
        rows = select(IncidentMemberRow.incident_id, IncidentMemberRow.alert_id)
        for incident, alert in self._rows.session.execute(rows.where(IncidentMemberRow.incident_id.in_(shared))):
            found.setdefault(incident, set()).add(alert)
        return found

    def around(self, alert_id: str) -> list[tuple[IncidentMemberRow, str, str]]:
        """Where an alert is an incident, or part of one: with the severities of the incident and of its part."""
        rows = (
            select(IncidentMemberRow, _INCIDENT.severity, _PART.severity)
            .join(_INCIDENT, _INCIDENT.id == IncidentMemberRow.incident_id)
            .join(_PART, _PART.id == IncidentMemberRow.alert_id)
            .where(or_(IncidentMemberRow.incident_id == alert_id, IncidentMemberRow.alert_id == alert_id))
        )
        return [(row, of_incident, of_part) for row, of_incident, of_part in self._rows.session.execute(rows)]

    def leave(self, incident_id: str, alert_id: str) -> None:
        """An alert is part of an incident no longer."""
        self._rows.forget_incidents()
        of = (IncidentMemberRow.incident_id == incident_id, IncidentMemberRow.alert_id == alert_id)
        self._rows.session.execute(delete(IncidentMemberRow).where(*of))

    def above(self, alert_id: str) -> set[str]:
        """The incidents that an alert is part of, directly or by another one."""
        found: set[str] = set()
        todo = [alert_id]
        while todo:
            new = {row.incident_id for row in self.of(todo.pop())} - found
            found |= new
            todo += sorted(new)
        return found

    def covering(self, alert_ids: Sequence[str]) -> dict[str, list[AlertRow]]:
        """By alert, the incidents that go on and are told in its place; alerts without any are not among them."""
        found, asked = self._known_covering(alert_ids)
        for chunk in in_chunks(asked):
            rows = select(IncidentMemberRow.alert_id, AlertRow).join(
                AlertRow, AlertRow.id == IncidentMemberRow.incident_id
            )
            rows = rows.where(
                IncidentMemberRow.alert_id.in_(chunk),
                IncidentMemberRow.covered.is_(True),
                *_GOES_ON,
            )
            for alert_id, incident in self._rows.session.execute(rows.order_by(AlertRow.start_ms, AlertRow.id)):
                found.setdefault(alert_id, []).append(incident)
        return found

    def _known_covering(self, alert_ids: Sequence[str]) -> tuple[dict[str, list[AlertRow]], Sequence[str]]:
        """What is known, and the alerts of which the database has to be asked."""
        if (known := self._rows.known_incidents) is None:
            return {}, alert_ids
        of_each = {alert_id: known.covering(alert_id) for alert_id in alert_ids}
        asked = [alert_id for alert_id, found in of_each.items() if found is None]
        return {alert_id: found for alert_id, found in of_each.items() if found}, asked

    def no_longer_covered(self, at_most: int) -> list[str]:
        """Ids of inhibited alerts of which no incident goes on any more, in order of their ids, at most so many; those
        that are silenced wait until they are not, since who was told before is told again."""
        return list(self._rows.session.scalars(_alone().limit(at_most)))

    def open_of_other_kind(self, queries: Sequence[str]) -> list[AlertRow]:
        """Open alerts that are incidents and not of these queries, or are of these and no incidents."""
        is_of = AlertRow.query.in_(sorted(queries))
        other = or_(and_(AlertRow.is_incident.is_(True), ~is_of), and_(AlertRow.is_incident.is_(False), is_of))
        statement = select(AlertRow).where(AlertRow.open.is_(True), other)
        return list(self._rows.session.scalars(statement.order_by(AlertRow.start_ms, AlertRow.id)))

    def open_of(self, queries: Sequence[str]) -> list[AlertRow]:
        """Incidents of these queries that are open."""
        found = select(AlertRow).where(
            AlertRow.open.is_(True), AlertRow.query.in_(sorted(queries)), filtered_later(AlertRow.is_incident.is_(True))
        )
        return list(self._rows.session.scalars(found.order_by(AlertRow.start_ms, AlertRow.id)))

    def move(self, from_id: str, to_id: str) -> None:
        """One alert became part of another: what one of them has, as incident or as member, the other one has now."""
        self._rows.forget_incidents()
        session = self._rows.session
        for column, other in (
            (IncidentMemberRow.incident_id, IncidentMemberRow.alert_id),
            (IncidentMemberRow.alert_id, IncidentMemberRow.incident_id),
        ):
            mine = getattr(_OTHER, column.key)
            doubled = exists().where(mine == to_id, getattr(_OTHER, other.key) == other)
            session.execute(delete(IncidentMemberRow).where(column == from_id, doubled))
            moved = update(IncidentMemberRow).where(column == from_id).values({column.key: to_id})
            session.execute(moved.execution_options(synchronize_session=False))
        of_itself = (IncidentMemberRow.incident_id == to_id, IncidentMemberRow.alert_id == to_id)
        session.execute(delete(IncidentMemberRow).where(*of_itself).execution_options(synchronize_session=False))
        points = update(AlertRow).where(AlertRow.incident_id == from_id).values(incident_id=to_id)
        session.execute(points.execution_options(synchronize_session="fetch"))
        session.expire_all()


@cache
def _alone() -> Select[str]:
    """Ids of inhibited alerts that are not silenced, of which no incident goes on."""
    covered = exists(literal_column("1")).where(  # of all columns it would read the rows themselves
        IncidentMemberRow.alert_id == AlertRow.id,
        IncidentMemberRow.covered.is_(True),
        _INCIDENT.id == IncidentMemberRow.incident_id,
        _INCIDENT.is_incident.is_(True),
        filtered_later(_INCIDENT.open.is_(True)),
        _INCIDENT.state != "resolved",
    )
    is_heard = filtered_later(AlertRow.silenced.is_(False))
    return select(AlertRow.id).where(AlertRow.inhibited.is_(True), is_heard, ~covered).order_by(AlertRow.id)


@cache
def has_open_members() -> ColumnElement[bool]:
    """Of an incident: alerts that are part of it go on, so that it does."""
    return and_(
        AlertRow.is_incident.is_(True),
        exists().where(
            IncidentMemberRow.incident_id == AlertRow.id,
            IncidentMemberRow.covered.is_(True),
            _PART.id == IncidentMemberRow.alert_id,
            _PART.open.is_(True),
        ),
    )


__all__ = ["Incidents", "has_open_members"]
