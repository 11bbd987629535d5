"""Alerts become part of incidents, and are told by themselves when these are over; inside one transaction.

An alert is inhibited while an incident that is told in its place goes on. What it does meanwhile is told afterwards, to
those who believe otherwise. An incident goes on as long as one of its alerts does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from app.alerting import lifecycle
from app.alerting.catalog import QueryInfo
from app.alerting.dispatch.entering import hears_of
from app.alerting.dispatch.routes import Routing
from app.alerting.lifecycle import Change, State
from app.alerting.recording.episodes import BoundMatch, Episode
from app.settings import Severity
from app.store.models import AlertRow
from app.store.writing.writer import Writer

ChangeAlert = Callable[[AlertRow, Change], object]
"""Makes a change, records and tells it."""


def severity_of(episode: Episode, info: QueryInfo, queries: Mapping[str, QueryInfo]) -> Severity:
    """That of a new alert: of an incident at least as severe as the alerts behind it."""
    assert info.severity is not None, "reports have no severity"
    named = {bound.query for bound in episode.bound}
    behind = [severity for name in named if name in queries and (severity := queries[name].severity) is not None]
    return max((info.severity, *behind), key=lambda severity: severity.rank)


def _age(incident: AlertRow) -> tuple[int, str]:
    return incident.raised_ms, incident.id


def _with(incident: AlertRow) -> str:
    return f"(with the incident {incident.id[:8]})"


class IncidentMembers:
    """The members of incidents, as one step changes them."""

    def __init__(self, writer: Writer, change: ChangeAlert, now_ms: int) -> None:
        self._writer = writer
        self._change = change
        self._now_ms = now_ms

    def bind(self, incident: AlertRow, matches: Iterable[BoundMatch]) -> None:
        """The alerts to which these matches belong are part of the incident."""
        times: dict[tuple[str, str], list[int]] = {}
        for match in sorted(matches):
            times.setdefault((match.query, match.key_text), []).append(match.at_ms)
        for (query, key_text), at in times.items():
            for alert in self._writer.alerts.near(query, key_text, at[0], at[-1], 0):
                if any(alert.start_ms <= at_ms <= alert.end_ms for at_ms in at):
                    self._join(incident, alert)
        if incident.open:
            self._nest(incident)

    def _nest(self, incident: AlertRow) -> None:
        """Of two incidents that go on, one that explains nothing beyond the other is part of it; of equal ones the
        later is part of the earlier."""
        alerts = self._writer.incidents.sharing(incident.id)
        mine = alerts.pop(incident.id, set())
        for other in sorted(self._writer.alerts.by_ids(sorted(alerts)), key=_age):
            theirs = alerts[other.id] - {incident.id}
            if mine - {other.id} == theirs:
                outer, inner = sorted((incident, other), key=_age)
            elif mine - {other.id} < theirs:
                outer, inner = other, incident
            elif theirs < mine:
                outer, inner = incident, other
            else:
                continue
            self._join(outer, inner)

    def _join(self, incident: AlertRow, alert: AlertRow) -> None:
        if alert.id == incident.id:
            return
        known = self._writer.incidents.get(incident.id, alert.id)
        if known is None:
            if alert.is_incident and alert.id in self._writer.incidents.above(incident.id):
                return  # else neither would ever end
            covered = Severity(alert.severity).rank <= Severity(incident.severity).rank
            self._writer.incidents.add(incident.id, alert.id, self._now_ms, covered=covered)
            alert.incident_id = incident.id
        else:
            covered = known.covered
        state, is_new = State(alert.state), known is None
        if state is State.RESOLVED:
            return
        if not incident.open or incident.state == State.RESOLVED:  # it is told in nobody's place any more
            if alert.inhibited and not self._writer.incidents.covering([alert.id]):
                self._change(alert, lifecycle.on_leaving(state))
        elif (is_new or covered != alert.inhibited) and (covered or not self._writer.incidents.covering([alert.id])):
            joining = lifecycle.on_joining(state, incident.id[:8], covered=covered, inhibited=alert.inhibited)
            self._change(alert, joining)

    def is_covered(self, alert: AlertRow) -> bool:
        """Whether an incident that goes on is told in place of an alert."""
        return bool(self._writer.incidents.covering([alert.id]))

    def merge(self, into: AlertRow, other: AlertRow) -> None:
        """An alert became part of another one of its query and key."""
        if not (other.is_incident or other.incident_id or other.inhibited):
            return
        into.inhibited = into.inhibited or other.inhibited
        into.incident_id = into.incident_id or other.incident_id
        other.inhibited = False
        self._writer.incidents.move(other.id, into.id)
        self._settle(into)

    def _settle(self, alert: AlertRow) -> None:
        """What has just taken over the parts of another one, and its place in incidents: none may be part of itself by
        others, which would never end, and none hides what is more severe."""
        incidents = self._writer.incidents
        for row, _, _ in incidents.around(alert.id):
            if row.alert_id == alert.id and alert.id in incidents.above(row.incident_id):
                incidents.leave(row.incident_id, alert.id)
                if alert.incident_id == row.incident_id:
                    alert.incident_id = None
        for row, of_incident, of_part in incidents.around(alert.id):
            row.covered = Severity(of_part).rank <= Severity(of_incident).rank

    def complete(self, incident: AlertRow, lane: str, change: Change) -> None:
        """Alerts of a lane that waited for their incident are over."""
        for alert in self._writer.incidents.members(incident.id):
            if alert.open and alert.lane == lane:
                if alert.state != State.RESOLVED:
                    self._change(alert, change)
                alert.open = False

    def release(self, at_most: int) -> int:
        """Alerts of which no incident goes on any more are told as they are; returns how many there were."""
        alone = self._writer.incidents.no_longer_covered(at_most)
        for alert in self._writer.alerts.by_ids(alone):
            self._change(alert, lifecycle.on_leaving(State(alert.state)))
        return len(alone)

    def acknowledge(self, incident: AlertRow, actor: str, note: str, until_ms: int | None) -> None:
        """Whoever looks after an incident looks after the alerts that it is told in place of, for as long."""
        for alert in self._hidden_behind(incident, State.FIRING):
            said = f"{note or 'acknowledged'} {_with(incident)}"
            self._change(alert, lifecycle.on_acknowledge(State(alert.state), actor, said, until_ms))

    def unacknowledge(self, incident: AlertRow, actor: str, note: str) -> None:
        """And no longer after those which were acknowledged with it."""
        for alert in self._hidden_behind(incident, State.ACKNOWLEDGED):
            if self._writer.alerts.last_change_to(alert.id, State.ACKNOWLEDGED).reason.endswith(_with(incident)):
                said = f"{note or 'acknowledged no longer'} {_with(incident)}"
                self._change(alert, lifecycle.on_unacknowledge(State(alert.state), actor, said))
                alert.to_tell = True  # whom the incident does not reach

    def close(self, incident: AlertRow, actor: str, note: str) -> None:
        """What is over with an incident are the alerts that it is told in place of: else they would all be told now."""
        for alert in self._hidden_behind(incident, State.FIRING, State.ACKNOWLEDGED):
            said = f"{note or 'closed by hand'} {_with(incident)}"
            self._change(alert, lifecycle.on_close(State(alert.state), actor, said))

    def _hidden_behind(self, incident: AlertRow, *states: State) -> list[AlertRow]:
        """Alerts told of by this incident alone, also those of incidents that are told of by it alone; those of another
        one that goes on are its."""
        told_by, members = {incident.id}, self._covered_by(incident.id)
        while inner := [alert for alert in members.values() if alert.is_incident and alert.id not in told_by]:
            covering = self._writer.incidents.covering([alert.id for alert in inner])
            alone = [alert.id for alert in inner if {of.id for of in covering.get(alert.id, ())} <= told_by]
            if not alone:
                break
            told_by.update(alone)
            for incident_id in alone:
                members |= self._covered_by(incident_id)
        covering = self._writer.incidents.covering(list(members))
        return [
            alert
            for alert in members.values()
            if State(alert.state) in states and {of.id for of in covering.get(alert.id, ())} <= told_by
        ]

    def _covered_by(self, incident_id: str) -> dict[str, AlertRow]:
        return {alert.id: alert for alert in self._writer.incidents.members(incident_id) if alert.inhibited}

    def hearing(self, routing: Routing, alert: AlertRow) -> frozenset[str] | None:
        """The receivers that are told of incidents in place of an alert; None: all (the incident is about to come)."""
        incidents = self._writer.incidents.covering([alert.id]).get(alert.id)
        if incidents is None:
            return None
        return frozenset().union(*(hears_of(routing, of.labels, of.severity, self._now_ms) for of in incidents))


__all__ = ["IncidentMembers", "severity_of"]
