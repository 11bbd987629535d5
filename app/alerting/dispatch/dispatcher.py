"""Groups are looked at when their timers are over; what they have to tell goes to the outbox.

All state is in the store, and a look is one transaction: messages with their Idempotency-Keys, what receivers believe
from now on, and the next timers. A crash anywhere repeats or loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from app.alerting.case import Cases
from app.alerting.dispatch.entering import enter, hears_of
from app.alerting.dispatch.flush import Flush, Member, Now, flush, place
from app.alerting.dispatch.inhibition import Inhibitions
from app.alerting.dispatch.matchers import Matcher
from app.alerting.dispatch.notice import MAX_ALERTS, GroupNotice, common
from app.alerting.dispatch.routes import Route, Routing, Timing, target_of
from app.alerting.lifecycle import State
from app.alerting.notices import Snapshot
from app.alerting.payload import fingerprint, labels_of
from app.alerting.recording.episodes import digest
from app.alerting.silencing import Holding
from app.alerting.snapshots import snapshot_of
from app.clock import Clock
from app.settings import Receiver, Severity
from app.store.api import Store
from app.store.models import AlertGroupRow, AlertRow, NotificationRow
from app.store.writing.groups import Member as Stored
from app.store.writing.writer import Writer
from collectors.time_units import DAY_MS

log = structlog.get_logger(__name__)

MOST_GROUPS = 250
"""That one transaction looks at."""
MOST_MEMBERS = 5_000
"""Of all groups that one transaction looks at, unless it is one group: steps wait for it."""
MOST_ALERTS = 1_000
"""That one transaction puts into the groups of another tree."""
MOST_LOGGED = 20
"""Groups of one transaction that have a line of their own in the log."""
NO_ROUTING = "none"


@dataclass(frozen=True)
class Telling:
    """How alerts are told, as configured."""

    routing: Routing | None
    """None: each by itself; groups that are left tell what they have still to tell, and of its end."""
    receivers: Mapping[str, Receiver]
    max_age_ms: int = DAY_MS


@dataclass(frozen=True)
class _Look:
    """What a look at a group has found."""

    group: AlertGroupRow
    found: Flush
    now_ms: int
    is_empty: bool
    """No alert is left in it."""


class Dispatcher:
    """Looks at the groups of one store."""

    def __init__(
        self, store: Store, telling: Telling, clock: Clock, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """`stopping`: whether another one takes its place; it looks at no further groups then."""
        self._store = store
        self._stopping = stopping
        self._telling = telling
        self._clock = clock
        self._is_settled = False
        self._behind = ""
        """Alerts up to this id were put into groups."""

    def dispatch_due(self) -> int:
        """Look at the groups whose time has come; returns how many messages that gave. Raises StoreError."""
        self._settle()
        n_messages = 0
        while not self._stopping():
            next_ms = self._store.next_flush_ms()
            if next_ms is None or self._wait_of(next_ms) > 0:
                break
            n_messages += self._look()
        return n_messages

    def wait_ms(self) -> int | None:
        """How long until a group is looked at; None: there is none. Raises StoreError."""
        next_ms = self._store.next_flush_ms()
        return None if next_ms is None else self._wait_of(next_ms)

    def tell_all(self) -> int:
        """Look at every group now, until none has news: nothing further will happen. Returns how many messages that
        gave; raises StoreError."""
        self._settle()
        n_messages = 0
        while n_new := self._look_at_all():
            n_messages += n_new
        return n_messages

    def _look_at_all(self) -> int:
        n_messages, behind = 0, ""
        while True:
            with self._store.transaction() as writer:
                groups = writer.groups.all_after(behind, MOST_GROUPS)
                if not groups:
                    return n_messages
                n_new, behind = self._look_at(writer, groups)
                n_messages += n_new

    def _wait_of(self, next_ms: int) -> int:
        """0 for what is past, and for what lies further ahead than any timer: the clock was set back."""
        ahead_ms = next_ms - self._clock.now_ms()
        return ahead_ms if 0 < ahead_ms <= self._longest_wait_ms else 0

    @property
    def _longest_wait_ms(self) -> int:
        timing = Timing()
        routing = self._telling.routing
        least_ms = max(timing.group_wait_ms, timing.group_interval_ms)
        return least_ms if routing is None else max(least_ms, routing.longest_wait_ms)

    def _look(self) -> int:
        """One transaction."""
        now_ms = self._clock.now_ms()
        with self._store.transaction() as writer:
            groups = writer.groups.due(now_ms, now_ms + self._longest_wait_ms, MOST_GROUPS)
            return self._look_at(writer, groups)[0] if groups else 0

    def _look_at(self, writer: Writer, groups: Sequence[AlertGroupRow]) -> tuple[int, str]:
        """(messages, id of the last group that was looked at); others are left for the next transaction."""
        counted = writer.groups.n_members([group.id for group in groups])
        taken: list[AlertGroupRow] = []
        n_members = 0
        for group in groups:
            n_members += counted.get(group.id, 0)
            if taken and n_members > MOST_MEMBERS:  # a large one has a transaction of its own
                break
            taken.append(group)
        members = self._silenced_now(writer, writer.groups.members([group.id for group in taken]))
        members = self._inhibited_for(writer, taken, members)
        inhibitions = self._inhibitions(writer)
        looks = [self._flush(writer, group, members[group.id], inhibitions) for group in taken]
        told = [look for look in looks if look is not None and look.found.reason is not None]
        self._tell(writer, told)
        self._keep(writer, [look for look in looks if look is not None])
        going_on = [look for look in looks if look is not None and not look.is_empty]
        self._escalate(writer, [(look, members[look.group.id]) for look in going_on])
        return len(told), taken[-1].id

    def _silenced_now(self, writer: Writer, members: dict[str, list[Stored]]) -> dict[str, list[Stored]]:
        """A silence that has begun since the last step hides as well: what it covers is settled by steps, and one may
        be late, or the process has just started."""
        now_ms = self._clock.now_ms()
        holding = Holding(writer.silences.not_over(now_ms), now_ms)
        if not holding:
            return members
        return {
            group: [
                replace(member, silenced=True) if not member.silenced and holding.covering(member.labels) else member
                for member in found
            ]
            for group, found in members.items()
        }

    def _inhibited_for(
        self, writer: Writer, groups: Sequence[AlertGroupRow], members: dict[str, list[Stored]]
    ) -> dict[str, list[Stored]]:
        """An incident hides its alerts from the receivers that hear of it, and from no others."""
        inhibited = {member.alert_id for found in members.values() for member in found if member.inhibited}
        routing = self._telling.routing
        if not inhibited or routing is None:
            return members
        incidents, now_ms = writer.incidents.covering(sorted(inhibited)), self._clock.now_ms()
        hearing = {
            alert_id: frozenset().union(*(hears_of(routing, of.labels, of.severity, now_ms) for of in found))
            for alert_id, found in incidents.items()
        }
        receivers = {group.id: group.receiver for group in groups}

        def as_for(group: str, member: Stored) -> Stored:
            is_told = not member.inhibited or receivers[group] in hearing.get(member.alert_id, ())
            return member if is_told else replace(member, inhibited=False)

        return {group: [as_for(group, member) for member in found] for group, found in members.items()}

    @staticmethod
    def _keep(writer: Writer, looks: Sequence[_Look]) -> None:
        """Write what has become of the members of all groups."""

        def pairs(name: str) -> list[tuple[str, str]]:
            return [(look.group.id, alert_id) for look in looks for alert_id in getattr(look.found, name)]

        writer.groups.set_told(pairs("told"))
        writer.groups.set_hidden(pairs("hidden"))
        writer.groups.leave(pairs("gone"))
        for look in looks:
            if look.is_empty:
                writer.groups.remove(look.group)

    def _inhibitions(self, writer: Writer) -> Inhibitions:
        routing = self._telling.routing
        if routing is None or not routing.rules:
            return Inhibitions((), ())
        named = [_query_of(rule.source) for rule in routing.rules]
        queries = None if None in named else {name for name in named if name is not None}
        return Inhibitions(routing.rules, writer.groups.going_on(queries))

    def _flush(
        self, writer: Writer, group: AlertGroupRow, members: Sequence[Member], inhibitions: Inhibitions
    ) -> _Look | None:
        """Look at a group; None: it is none any more."""
        now_ms, receiver = self._clock.now_ms(), self._telling.receivers.get(group.receiver)
        route = None if self._telling.routing is None else self._telling.routing.route(group.route)
        timing = Timing() if route is None else route.timing
        if not members or receiver is None:
            writer.groups.remove(group)
            return None
        if group.told_ms is not None and group.told_ms > now_ms:  # the clock was set back
            group.told_ms = now_ms
        is_muted = not receiver.enabled or (route is not None and route.muted(now_ms) is not None)
        found = flush(
            members,
            Now(
                time_ms=now_ms,
                told_ms=group.told_ms,
                repeat_interval_ms=timing.repeat_interval_ms,
                max_age_ms=self._telling.max_age_ms,
                send_resolved=receiver.send_resolved,
                min_severity=receiver.min_severity,
                is_muted=is_muted,
                inhibited_by=inhibitions.by,
            ),
        )
        group.flush_ms = now_ms + timing.group_interval_ms
        return _Look(group, found, now_ms, is_empty=len(found.gone) == len(members))

    def _escalate(self, writer: Writer, looks: Sequence[tuple[_Look, Sequence[Stored]]]) -> None:
        """Begin the timers of what was told, and tell the second receivers of what nobody has acknowledged since: of
        all groups at once, each write costs the same for one as for many."""
        timers: list[tuple[str, str, int]] = []
        due: list[tuple[_Look, Route, Stored]] = []
        for look, members in looks:
            route = None if self._telling.routing is None else self._telling.routing.route(look.group.route)
            if route is not None and route.escalation is not None:
                begun, over = self._timers(look, route.escalation.after_ms, members)
                timers += ((look.group.id, alert_id, at_ms) for alert_id, at_ms in begun.items())
                second = route.escalation.route
                due += ((look, second, member) for member in over if self._is_escalated(second, member))
        writer.groups.set_timers(timers)
        if not due:
            return
        alerts = writer.groups.alerts([member.alert_id for _, _, member in due])
        for look, second, member in due:
            alert, target, now_ms = alerts[member.alert_id], target_of(second, member.labels), look.now_ms
            writer.groups.enter(target, second.identity, second.receiver, alert, member.fingerprint, now_ms, now_ms)
            log.info("escalated", alert=alert.id, query=alert.query, receiver=second.receiver)
        writer.groups.set_escalated([(look.group.id, member.alert_id) for look, _, member in due])
        writer.rows.flush()

    @staticmethod
    def _timers(look: _Look, after_ms: int, members: Sequence[Stored]) -> tuple[dict[str, int], list[Stored]]:
        """(by alert the timers that begin, members whose timers are over); the group is looked at when the next one
        is."""
        gone, told, now_ms = set(look.found.gone), set(look.found.told), look.now_ms
        waiting = [
            member
            for member in members
            if member.state == State.FIRING and not member.escalated and member.alert_id not in gone
            and (member.told or member.alert_id in told) and not member.silenced and not member.inhibited
        ]  # fmt: skip
        begun = {  # one further ahead than it can be was set before the clock was set back
            member.alert_id: now_ms + after_ms
            for member in waiting
            if member.escalate_ms is None or member.escalate_ms > now_ms + after_ms
        }
        over, next_ms = [], look.group.flush_ms
        for member in waiting:
            at_ms = begun.get(member.alert_id, member.escalate_ms)
            if member.alert_id not in begun and at_ms is not None and at_ms <= now_ms:
                over.append(member)
            elif at_ms is not None:
                next_ms = min(next_ms, at_ms)
        look.group.flush_ms = next_ms
        return begun, over

    def _is_escalated(self, second: Route, member: Stored) -> bool:
        """Whether the second receiver wants to hear of a member; else it stays due: looks of the group find what was
        changed since."""
        assert self._telling.routing is not None, "asked of routes"
        receiver = self._telling.routing.receivers[second.receiver]
        if not receiver.enabled:
            reason = "the receiver is disabled"
        elif Severity(member.severity).rank < receiver.min_severity.rank:
            reason = f"{member.severity} is below {receiver.min_severity}"
        else:
            return True
        log.debug("not escalated", alert=member.alert_id, receiver=second.receiver, reason=reason)
        return False

    def _tell(self, writer: Writer, looks: Sequence[_Look]) -> None:
        """Write the messages of groups into the outbox."""
        if not looks:
            return
        receivers = {look.group.receiver for look in looks}
        pending = writer.groups.pending(receivers, [look.group.id for look in looks])
        orders = [_in_order(look.found) for look in looks]
        alerts = writer.groups.alerts([member.alert_id for in_order in orders for member in in_order[:MAX_ALERTS]])
        cases = Cases(writer.session, (alert for alert in alerts.values() if alert.is_incident))
        messages = [
            self._message(cases, look, in_order, alerts, pending.get(look.group.id, ()))
            for look, in_order in zip(looks, orders, strict=True)
        ]
        are_new = writer.outbox.add_all(messages)
        told: list[tuple[str, str, str]] = []
        for n, (look, message, is_new) in enumerate(zip(looks, messages, are_new, strict=True)):
            of_message = {member.alert_id for member in (*look.found.news, *look.found.resolved)}
            if is_new:
                key, receiver = message["idempotency_key"], look.group.receiver
                told += ((key, receiver, alert_id) for alert_id in sorted(of_message))
            # In a storm each message is told of with its delivery; a line here would cost as much as writing it.
            tell = log.info if n < MOST_LOGGED else log.debug
            tell(
                "group", receiver=look.group.receiver, group=look.group.key, what=str(look.found.reason),
                firing=len(look.found.firing), resolved=len(look.found.resolved),
            )  # fmt: skip
        writer.groups.add_told(told)

    def _route_labels(self, group: AlertGroupRow) -> dict[str, str]:
        routing = self._telling.routing
        route = None if routing is None else routing.route(group.route)
        return {} if route is None else dict(route.labels)

    def _message(
        self,
        cases: Cases,
        look: _Look,
        in_order: Sequence[Member],
        alerts: Mapping[str, AlertRow],
        pending: Sequence[NotificationRow],
    ) -> dict[str, Any]:
        """The message of a group, for the outbox."""
        group, found, now_ms = look.group, look.found, look.now_ms
        assert found.reason is not None, "asked of groups that have something to tell"
        firing = {member.alert_id for member in found.firing}
        snapshots = [
            _as_told(_snapshot(cases, alerts[member.alert_id]), fires=member.alert_id in firing)
            for member in in_order[:MAX_ALERTS]
        ]
        before = self._resolved_before(pending, in_order)[:MAX_ALERTS]
        notice = GroupNotice(
            key=group.key,
            labels=dict(group.labels),
            common_labels=common([member.labels for member in (*in_order, *found.later)]),
            reason=found.reason.value,
            alerts=[*snapshots, *before],
            n_firing=len(found.firing),
            n_resolved=len(found.resolved) + len(found.later) + len(before),
            n_left_out=len(in_order) + len(found.later) - len(snapshots),
            route_labels=self._route_labels(group),
        )
        content = sorted(f"{member.alert_id} {member.alert_id in firing} {member.revision}" for member in in_order)
        key = digest("group message", group.id, group.receiver, str(group.n_told), *content)
        group.n_told, group.told_ms = group.n_told + 1, now_ms
        return {
            "idempotency_key": key,
            "receiver": group.receiver,
            "alert_id": in_order[0].alert_id,
            "group_id": group.id,
            "fingerprint": group.id,
            "state": notice.status,
            "revision": group.n_told,
            "payload": notice.as_json(),
            "status": "pending",
            "n_attempts": 0,
            "tried_since_ms": None,
            "next_attempt_ms": now_ms,
            "last_error": None,
            "created_ms": now_ms,
            "finished_ms": None,
        }

    @staticmethod
    def _resolved_before(pending: Sequence[NotificationRow], told: Sequence[Member]) -> list[Snapshot]:
        """What messages that were not delivered yet tell to be over: this one may be told in their place."""
        known = {member.fingerprint for member in told}
        found: dict[str, Snapshot] = {}
        for message in pending:
            for alert in GroupNotice.from_json(message.payload).alerts:
                by_labels = fingerprint(labels_of(alert))
                if alert.state != State.RESOLVED:
                    found.pop(by_labels, None)  # it fired again, though a silence may hide it by now
                elif by_labels not in known:
                    found[by_labels] = alert
        return list(found.values())

    # ------------------------------------------------------------------ another tree

    def _settle(self) -> None:
        """With another tree, alerts that fire belong to its groups, except those of which their receiver was told.

        Without one, what waits to be told is told by the groups it is in.
        """
        if self._is_settled:
            return
        routing = self._telling.routing
        wanted = NO_ROUTING if routing is None else routing.digest
        is_through = False
        while not is_through:
            with self._store.transaction() as writer:
                known = writer.groups.routing()
                if known == wanted or (known is None and routing is None):
                    break
                if routing is not None and not self._behind:
                    writer.groups.leave_routes_but([route.identity for route in routing.root.all()])
                is_last, behind = (True, "") if routing is None else self._enter_some(writer, routing)
                if is_last:
                    writer.groups.put_routing(wanted, self._clock.now_ms())
            is_through, self._behind = is_last, behind  # not before it is committed
        self._is_settled, self._behind = True, ""

    def _enter_some(self, writer: Writer, routing: Routing) -> tuple[bool, str]:
        """Put open alerts into the groups of the tree; (whether there are no more, id of the last one)."""
        alerts = writer.groups.open_alerts(self._behind, MOST_ALERTS)
        told = writer.groups.told_by([alert.id for alert in alerts])
        prints = {alert.id: fingerprint(labels_of(snapshot_of(alert))) for alert in alerts}
        writer.outbox.look_up_notified(self._telling.receivers.keys(), set(prints.values()))
        now_ms = self._clock.now_ms()
        for alert in alerts:

            def is_told(receiver: str, alert_id: str = alert.id) -> bool:
                last = writer.outbox.last_notified_of_same(prints[alert_id], receiver)
                return (alert_id, receiver) in told or last == State.FIRING

            enter(writer, routing, alert, now_ms, self._telling.max_age_ms, leave_out=is_told)
        return len(alerts) < MOST_ALERTS, alerts[-1].id if alerts else self._behind


def _in_order(found: Flush) -> list[Member]:
    """News first, then what is over, then the rest; of each the most urgent first, then the latest."""
    news = {member.alert_id for member in found.news}
    going_on = [member for member in found.firing if member.alert_id not in news]
    return [*sorted(found.news, key=place), *sorted(found.resolved, key=place), *sorted(going_on, key=place)]


def _snapshot(cases: Cases, alert: AlertRow) -> Snapshot:
    return snapshot_of(alert, cases.of(alert) if alert.is_incident else None)


def _as_told(snapshot: Snapshot, *, fires: bool) -> Snapshot:
    """What is over before it was told is told to fire; that it is over comes with a later message."""
    if fires and snapshot.state == State.RESOLVED:
        return replace(snapshot, state=State.FIRING.value)
    return snapshot


def _query_of(source: Sequence[Matcher]) -> str | None:
    """The query whose alerts alone can be sources; None: those of any."""
    names = [matcher.value for matcher in source if matcher.name == "alertname" and matcher.operator == "="]
    return names[0] if names else None


__all__ = ["Dispatcher", "Telling"]
