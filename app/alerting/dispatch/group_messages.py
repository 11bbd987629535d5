"""Messages of groups, for the outbox."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from app.alerting.case import Cases
from app.alerting.dispatch.flush import Flush, Member, place
from app.alerting.dispatch.known import Known
from app.alerting.dispatch.notice import MAX_ALERTS, GroupNotice, common
from app.alerting.dispatch.telling import Telling
from app.alerting.lifecycle import State
from app.alerting.notices import Snapshot
from app.alerting.payload import fingerprint, labels_of
from app.alerting.recording.episodes import digest
from app.alerting.snapshots import snapshot_of
from app.store.models import AlertGroupRow
from app.store.writing.writer import Writer

Message = dict[str, Any]


class Found(Protocol):
    """A group that has something to tell."""

    @property
    def group(self) -> AlertGroupRow:
        """Which one."""
        ...

    @property
    def flush(self) -> Flush:
        """What it tells."""
        ...


class GroupMessages:
    """What one transaction, or a look before it, writes of groups: nothing is written here."""

    def __init__(self, writer: Writer, known: Known) -> None:
        """What is read adds to `known`."""
        self._writer = writer
        self._known = known

    def of(self, looks: Sequence[Found], telling: Telling, now_ms: int) -> list[Message]:
        """Of each one message."""
        pending = self.look_up(looks)
        return [self._message(look, pending.get(look.group.id, ()), telling, now_ms) for look in looks]

    def look_up(self, looks: Sequence[Found]) -> dict[str, list[tuple[str, str]]]:
        """Read at once what the messages tell, as far as it is not known; returns the messages that were not delivered
        yet, by group."""
        known, groups = self._known, self._writer.groups
        shown = [member for look in looks for member in in_order(look.flush)]
        missing = [member.alert_id for member in shown if (member.alert_id, member.revision) not in known.snapshots]
        alerts = groups.alerts(missing)
        cases = Cases(self._writer.session, (alert for alert in alerts.values() if alert.is_incident))
        for alert in alerts.values():
            case = cases.of(alert) if alert.is_incident else None
            known.snapshots[alert.id, alert.revision] = snapshot_of(alert, case)
        pending = groups.pending({look.group.receiver for look in looks}, [look.group.id for look in looks])
        unread = [message for of_group in pending.values() for message in of_group if message not in known.messages]
        for message, payload in groups.contents(unread).items():
            alerts_of = GroupNotice.from_json(payload).alerts
            known.messages[message] = [(fingerprint(labels_of(alert)), alert) for alert in alerts_of]
        return pending

    def _message(self, look: Found, pending: Sequence[tuple[str, str]], telling: Telling, now_ms: int) -> Message:
        group, found = look.group, look.flush
        assert found.reason is not None, "asked of groups that have something to tell"
        firing = {member.alert_id for member in found.firing}
        shown = in_order(found)
        snapshots = [
            _as_told(self._known.snapshots[member.alert_id, member.revision], fires=member.alert_id in firing)
            for member in shown
        ]
        members = [*found.firing, *found.resolved]
        before = self._resolved_before(pending, members)[:MAX_ALERTS]
        route = telling.route(group.route)
        notice = GroupNotice(
            key=group.key,
            labels=dict(group.labels),
            common_labels=common([member.labels for member in (*members, *found.later)]),
            reason=found.reason.value,
            alerts=[*snapshots, *before],
            n_firing=len(found.firing),
            n_resolved=len(found.resolved) + len(found.later) + len(before),
            n_left_out=len(members) + len(found.later) - len(snapshots),
            route_labels={} if route is None else dict(route.labels),
        )
        content = sorted(f"{member.alert_id} {member.alert_id in firing} {member.revision}" for member in shown)
        return {
            "idempotency_key": digest("group message", group.id, group.receiver, str(group.n_told), *content),
            "receiver": group.receiver,
            "alert_id": shown[0].alert_id,
            "group_id": group.id,
            "fingerprint": group.id,
            "state": notice.status,
            "revision": group.n_told + 1,
            "payload": notice.as_json(),
            "status": "pending",
            "n_attempts": 0,
            "tried_since_ms": None,
            "next_attempt_ms": now_ms,
            "last_error": None,
            "created_ms": now_ms,
            "finished_ms": None,
        }

    def _resolved_before(self, pending: Sequence[tuple[str, str]], told: Sequence[Member]) -> list[Snapshot]:
        """What messages that were not delivered yet tell to be over: this one may be told in their place."""
        known = {member.fingerprint for member in told}
        found: dict[str, Snapshot] = {}
        for message in pending:
            for by_labels, alert in self._known.messages[message]:
                if alert.state != State.RESOLVED:
                    found.pop(by_labels, None)  # it fired again, though a silence may hide it by now
                elif by_labels not in known:
                    found[by_labels] = alert
        return list(found.values())


def in_order(found: Flush) -> list[Member]:
    """What a message shows: news first, then what is over, then the rest; of each the most urgent first, then the
    latest."""
    news = {member.alert_id for member in found.news}
    going_on = (member for member in found.firing if member.alert_id not in news)
    shown = [*sorted(found.news, key=place), *sorted(found.resolved, key=place)][:MAX_ALERTS]
    return [*shown, *heapq.nsmallest(MAX_ALERTS - len(shown), going_on, key=place)]


def _as_told(snapshot: Snapshot, *, fires: bool) -> Snapshot:
    """What is over before it was told is told to fire; that it is over comes with a later message."""
    if fires and snapshot.state == State.RESOLVED:
        return replace(snapshot, state=State.FIRING.value)
    return snapshot


__all__ = ["GroupMessages", "in_order"]
