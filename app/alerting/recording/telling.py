"""Who is told of a change of an alert: by a message to each receiver, or by the groups of the routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from app.alerting import lifecycle
from app.alerting.case import case_of
from app.alerting.dispatch.entering import enter
from app.alerting.dispatch.routes import Route, Routing
from app.alerting.lifecycle import State
from app.alerting.notices import Audience, decide
from app.alerting.payload import fingerprint, labels_of
from app.alerting.recording.incidents import IncidentMembers
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.outcome import Outcome
from app.alerting.snapshots import snapshot_of
from app.store.models import AlertGroupRow, AlertRow
from app.store.writing.writer import Writer


class Telling:
    """Writes the messages of one transaction."""

    def __init__(
        self, options: AlertingOptions, writer: Writer, members: IncidentMembers, outcome: Outcome, now_ms: int
    ) -> None:
        """`outcome`: what is done is counted there."""
        self._options = options
        self._writer = writer
        self._members = members
        self._outcome = outcome
        self._now_ms = now_ms

    def look_up(self, alerts: Sequence[AlertRow]) -> None:
        """Read at once what is asked of each receiver when these end."""
        self._writer.outbox.look_up_notified(
            self._options.receivers.keys(), {fingerprint(alert.labels) for alert in alerts}
        )

    def change(self, alert: AlertRow, before: str | None, *, again: bool = False) -> None:
        """Tell who wants to know of a change; `before`: the state that it came from; `again`: also who was told before,
        since the end of its incident seemed to be its own."""
        if alert.state == State.ACKNOWLEDGED or (alert.silenced and alert.state == State.RESOLVED):
            self._writer.groups.forget_untold(alert.id)
        if alert.state == State.ACKNOWLEDGED:
            self._writer.groups.stop_timers(alert.id)
        routing, receivers = self._options.routing, self._options.receivers
        if routing is not None and alert.state == State.FIRING:
            self._enter(routing, alert, before, again=again)
        if routing is not None and alert.state != State.RESOLVED:
            return
        snapshot = snapshot_of(alert)
        by_labels = fingerprint(labels_of(snapshot))
        if routing is not None:  # who was told without one that it fires is told so that it is over
            receivers = {name: of for name, of in receivers.items() if self._told(alert, before, name, by_labels)}
        if alert.is_incident and receivers:
            snapshot = snapshot_of(alert, case_of(self._writer.session, alert))
        is_known = bool(receivers) and before is not None and self._had_groups
        by_groups = self._writer.groups.receivers_of(alert.id) if is_known else set()
        key = lifecycle.idempotency_key(alert.id, State(alert.state), alert.revision)
        same = self._same_that_fire(alert) if receivers else []
        for name, receiver in receivers.items():
            if name in by_groups:
                self._outcome.tell(alert, f"{name} is told with a group")
                continue
            audience = Audience(
                snapshot,
                receiver,
                self._told(alert, before, name, by_labels, again=again),
                alert.silenced,
                self._now_ms,
                self._options.max_age_ms,
                inhibited=alert.inhibited,
                same_fires=bool(same) if alert.state == State.RESOLVED else self._knows_later(alert, same, name),
            )
            decision = decide(audience)
            if not decision.send:
                self._outcome.tell(alert, f"{name} is not told: {decision.reason}")
                continue
            message = {
                "idempotency_key": key,
                "receiver": name,
                "alert_id": alert.id,
                "group_id": None,
                "fingerprint": by_labels,
                "state": alert.state,
                "revision": alert.revision,
                "payload": replace(snapshot, thread=self._thread(alert, name)).as_json(),
                "status": "pending",
                "n_attempts": 0,
                "tried_since_ms": None,
                "next_attempt_ms": self._now_ms,
                "last_error": None,
                "created_ms": self._now_ms,
                "finished_ms": None,
            }
            self._outcome.n_notifications += self._writer.outbox.add(message, alert)

    @cached_property
    def _had_groups(self) -> bool:
        """Whether alerts that were there before belong to groups."""
        return self._writer.groups.n_groups() > 0

    def _enter(self, routing: Routing, alert: AlertRow, before: str | None, *, again: bool = False) -> None:
        """Put an alert that fires into its groups, but for those who were told without a group that it does, or who
        are told of an incident in its place."""
        hearing: frozenset[str] | None = frozenset()
        if alert.inhibited and before is None:
            hearing = None  # of a new alert the incident is about to come, and no group has it
        elif alert.inhibited:
            hearing = self._members.hearing(routing, alert)
            self._writer.groups.forget_untold(alert.id, hearing)

        def is_told(receiver: str) -> bool:
            if hearing is None or receiver in hearing:
                return True
            is_known = before == alert.state and not again
            return is_known and self._writer.outbox.was_notified_since_firing(alert.id, receiver)

        def goes_on(route: Route) -> AlertGroupRow | None:
            group = self._writer.groups.told_group(behind, route.receiver)
            known = None if group is None else routing.route(group.route)
            return group if known is not None and known.treats_alike(route) else None

        behind = [of.id for of in self._writer.incidents.members(alert.id)] if alert.is_incident else []
        options = self._options
        for said in enter(
            self._writer, routing, alert, self._now_ms, options.max_age_ms, leave_out=is_told, goes_on=goes_on
        ):
            self._outcome.tell(alert, said)

    def _thread(self, alert: AlertRow, receiver: str) -> str | None:
        """The key under which a receiver was told of the first alert behind an incident; None: that of its labels."""
        if not alert.is_incident:
            return None
        members = self._writer.incidents.members(alert.id)
        behind = [of.id for of in members if of.state != State.RESOLVED]  # of others their end was told in it
        return self._writer.outbox.thread(alert.id, behind, receiver)

    def _told(self, alert: AlertRow, before: str | None, receiver: str, by_labels: str, *, again: bool = False) -> bool:
        """See Audience.told_before."""
        if alert.state == State.FIRING:
            return (
                not again
                and before == alert.state
                and self._writer.outbox.was_notified_since_firing(alert.id, receiver)
            )
        return self._writer.outbox.last_notified_of_same(by_labels, receiver) == State.FIRING

    def _same_that_fire(self, alert: AlertRow) -> list[AlertRow]:
        """Other alerts with the same labels that are not over."""
        return [
            other
            for other in self._writer.alerts.open_of(alert.query, alert.key_text)
            if other.id != alert.id and other.labels == alert.labels and other.state != State.RESOLVED
        ]

    def _knows_later(self, alert: AlertRow, same: Sequence[AlertRow], receiver: str) -> bool:
        later = (other for other in same if other.start_ms > alert.start_ms)
        return any(self._writer.outbox.last_notified(other, receiver) == State.FIRING for other in later)


__all__ = ["Telling"]
