"""Which alerts are part of which incidents, read by few statements, as the writing of many incidents needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import BindParameter, bindparam, select
from sqlalchemy.orm import Session

from app.store.bulk import in_chunks
from app.store.models import AlertRow, IncidentMemberRow

# Made once: each in_() of a list of values would be looked at value by value.
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_OF_INCIDENTS = select(IncidentMemberRow).where(IncidentMemberRow.incident_id.in_(_IDS))
_OF_PARTS = select(IncidentMemberRow).where(IncidentMemberRow.alert_id.in_(_IDS))
_BY_ID = select(AlertRow).where(AlertRow.id.in_(_IDS))


class KnownIncidents:
    """Incidents and their parts, as far as a number of alerts has to do with them.

    What lies below an incident that is here, or above an alert, is here whole. What is asked of others is None, and the
    database has to be asked.
    """

    def __init__(self, session: Session, alerts: Mapping[str, AlertRow]) -> None:
        """`alerts`: by id incidents, and those that may become part of them."""
        self._below: dict[str, dict[str, IncidentMemberRow]] = {}
        self._above: dict[str, dict[str, IncidentMemberRow]] = {}
        self._alerts = dict(alerts)
        self._read_below(session, alerts.keys())
        todo = {*alerts, *(part for of in self._below.values() for part in of)}
        while todo:  # upwards: an incident may be part of another one
            self._read_above(session, todo)
            todo = {of for alert_id in todo for of in self._above[alert_id]} - self._above.keys()
        incidents = {of for above in self._above.values() for of in above}
        self._read_below(session, incidents - self._below.keys())
        for chunk in in_chunks(sorted(incidents - self._alerts.keys())):
            self._alerts |= {alert.id: alert for alert in session.scalars(_BY_ID, {"ids": chunk})}

    def _read_below(self, session: Session, incident_ids: Collection[str]) -> None:
        self._below |= {incident_id: {} for incident_id in incident_ids}
        for chunk in in_chunks(sorted(incident_ids)):
            for row in session.scalars(_OF_INCIDENTS, {"ids": chunk}):
                self._below[row.incident_id][row.alert_id] = row

    def _read_above(self, session: Session, alert_ids: Collection[str]) -> None:
        self._above |= {alert_id: {} for alert_id in alert_ids}
        for chunk in in_chunks(sorted(alert_ids)):
            for row in session.scalars(_OF_PARTS, {"ids": chunk}):
                self._above[row.alert_id][row.incident_id] = row

    # ------------------------------------------------------------------ what is written meanwhile

    def add_alert(self, alert: AlertRow) -> None:
        """A new alert, which is part of nothing yet, and of which nothing is."""
        self._alerts[alert.id] = alert
        self._below[alert.id], self._above[alert.id] = {}, {}

    def add(self, row: IncidentMemberRow) -> None:
        """An alert becomes part of an incident."""
        for known, mine, other in (
            (self._below, row.incident_id, row.alert_id),
            (self._above, row.alert_id, row.incident_id),
        ):
            if mine in known:
                known[mine][other] = row

    # ------------------------------------------------------------------ what is asked

    def knows(self, incident_id: str, alert_id: str) -> bool:
        """Whether `get` can tell."""
        return incident_id in self._below or alert_id in self._above

    def get(self, incident_id: str, alert_id: str) -> IncidentMemberRow | None:
        """An alert as part of an incident; None: it is not, if that can be told."""
        if incident_id in self._below:
            return self._below[incident_id].get(alert_id)
        return self._above[alert_id].get(incident_id)

    def below(self, incident_id: str) -> Collection[str] | None:
        """Ids of the parts of an incident."""
        found = self._below.get(incident_id)
        return None if found is None else found.keys()

    def of(self, alert_id: str) -> list[IncidentMemberRow] | None:
        """The incidents that an alert is part of, in order of their ids."""
        found = self._above.get(alert_id)
        return None if found is None else [found[incident_id] for incident_id in sorted(found)]

    def covering(self, alert_id: str) -> list[AlertRow] | None:
        """The incidents that go on and are told in place of an alert, the earliest first."""
        if (rows := self._above.get(alert_id)) is None:
            return None
        found = [self._alerts.get(incident_id) for incident_id, row in rows.items() if row.covered]
        if None in found:
            return None
        return sorted(
            (alert for alert in found if alert is not None and goes_on(alert)),
            key=lambda alert: (alert.start_ms, alert.id),
        )

    def sharing(self, incident_id: str) -> dict[str, set[str]] | None:
        """Of the incidents that go on and have a part in common with one, itself among them: the ids of the parts of
        each."""
        if (parts := self._below.get(incident_id)) is None or not self._above.keys() >= parts.keys():
            return None
        sharing = {of for part in parts for of in self._above[part]}
        if not (self._below.keys() >= sharing and self._alerts.keys() >= sharing):
            return None
        return {of: {*self._below[of]} for of in sharing if goes_on(self._alerts[of])}


def goes_on(incident: AlertRow) -> bool:
    """Whether it is an incident, and not over: one that was closed by hand is open while matches can join it."""
    return incident.is_incident and incident.open and incident.state != "resolved"


__all__ = ["KnownIncidents", "goes_on"]
