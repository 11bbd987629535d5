"""A look at groups: what each has to tell is found by reading alone, and then written.

So it can be tried before its transaction begins: what that has read which cannot change is known in it (`Known`), and
a group of thousands holds the store for a moment only. The transaction reads all else anew, and decides by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from app.alerting.dispatch.entering import hears_of
from app.alerting.dispatch.flush import Flush, Now, flush
from app.alerting.dispatch.group_messages import GroupMessages
from app.alerting.dispatch.inhibition import Inhibitions
from app.alerting.dispatch.known import Known
from app.alerting.dispatch.matchers import Matcher
from app.alerting.dispatch.routes import Route, Timing, target_of
from app.alerting.dispatch.telling import Telling
from app.alerting.lifecycle import State
from app.alerting.silencing import Holding
from app.settings import Severity
from app.store.models import AlertGroupRow
from app.store.writing.groups import Member as Stored
from app.store.writing.writer import Writer

log = structlog.get_logger(__name__)

MOST_LOGGED = 20
"""Groups of one transaction, and alerts that are escalated, that have a line of their own in the log."""


@dataclass
class Found:
    """What a look at a group has found."""

    group: AlertGroupRow
    members: Sequence[Stored]
    flush: Flush
    flush_ms: int
    """When it is looked at next."""
    timers: Mapping[str, int]
    """Of alerts that somebody else is told of, unless they are acknowledged: those that begin."""
    escalated: Sequence[Stored]
    """Those of which somebody else is told now."""
    is_over: bool
    """No alert is left in it."""


class Look:
    """One look at some groups."""

    def __init__(self, writer: Writer, telling: Telling, now_ms: int, known: Known) -> None:
        """What is read adds to `known`."""
        self._writer = writer
        self._telling = telling
        self._now_ms = now_ms
        self._known = known

    def at(self, groups: Sequence[AlertGroupRow]) -> list[Found]:
        """What the groups have to tell: nothing is written."""
        members = self._writer.groups.members([group.id for group in groups], self._known.alerts)
        members = self._inhibited_for(groups, self._silenced_now(members))
        inhibitions = self._inhibitions()
        return [self._at(group, members[group.id], inhibitions) for group in groups]

    def foresee(self, groups: Sequence[AlertGroupRow]) -> None:
        """Read what a transaction that begins now will most likely need."""
        told = [found for found in self.at(groups) if found.flush.reason is not None]
        GroupMessages(self._writer, self._known).look_up(told)

    def write(self, looks: Sequence[Found]) -> int:
        """What was found, in the same transaction; returns how many messages that gave."""
        told = [found for found in looks if found.flush.reason is not None]
        self._tell(told)
        groups = self._writer.groups
        for found in looks:
            found.group.flush_ms = found.flush_ms
        for set_members, name in ((groups.set_told, "told"), (groups.set_hidden, "hidden"), (groups.leave, "gone")):
            set_members([(one.group.id, alert_id) for one in looks for alert_id in getattr(one.flush, name)])
        groups.remove([found.group for found in looks if found.is_over])
        self._escalate(looks)
        return len(told)

    # ------------------------------------------------------------------ finding

    def _silenced_now(self, members: dict[str, list[Stored]]) -> dict[str, list[Stored]]:
        """A silence that has begun since the last step hides as well: what it covers is settled by steps, and one may
        be late, or the process has just started."""
        holding = Holding(self._writer.silences.not_over(self._now_ms), self._now_ms)
        if not holding:
            return members
        return {
            group: [
                member._replace(silenced=True) if not member.silenced and holding.covering(member.labels) else member
                for member in found
            ]
            for group, found in members.items()
        }

    def _inhibited_for(
        self, groups: Sequence[AlertGroupRow], members: dict[str, list[Stored]]
    ) -> dict[str, list[Stored]]:
        """An incident hides its alerts from the receivers that hear of it, and from no others."""
        inhibited = {member.alert_id for found in members.values() for member in found if member.inhibited}
        routing = self._telling.routing
        if not inhibited or routing is None:
            return members
        incidents = self._writer.incidents.covering(sorted(inhibited))
        hearing = {
            alert_id: frozenset().union(*(hears_of(routing, of.labels, of.severity, self._now_ms) for of in found))
            for alert_id, found in incidents.items()
        }
        receivers = {group.id: group.receiver for group in groups}

        def as_for(group: str, member: Stored) -> Stored:
            is_told = not member.inhibited or receivers[group] in hearing.get(member.alert_id, ())
            return member if is_told else member._replace(inhibited=False)

        return {group: [as_for(group, member) for member in found] for group, found in members.items()}

    def _inhibitions(self) -> Inhibitions:
        routing = self._telling.routing
        if routing is None or not routing.rules:
            return Inhibitions((), ())
        named = [_query_of(rule.source) for rule in routing.rules]
        queries = None if None in named else {name for name in named if name is not None}
        return Inhibitions(routing.rules, self._writer.groups.going_on(queries, self._known.labels))

    def _at(self, group: AlertGroupRow, members: Sequence[Stored], inhibitions: Inhibitions) -> Found:
        now_ms, receiver = self._now_ms, self._telling.receivers.get(group.receiver)
        route = self._telling.route(group.route)
        timing = Timing() if route is None else route.timing
        flush_ms = now_ms + timing.group_interval_ms
        if not members or receiver is None:
            return Found(group, members, Flush(), flush_ms, {}, (), is_over=True)
        found = flush(
            members,
            Now(
                time_ms=now_ms,
                told_ms=None if group.told_ms is None else min(group.told_ms, now_ms),  # the clock was set back
                repeat_interval_ms=timing.repeat_interval_ms,
                max_age_ms=self._telling.max_age_ms,
                send_resolved=receiver.send_resolved,
                min_severity=receiver.min_severity,
                is_muted=not receiver.enabled or (route is not None and route.muted(now_ms) is not None),
                inhibited_by=inhibitions.by,
            ),
        )
        is_over = len(found.gone) == len(members)
        if is_over or route is None or route.escalation is None:
            return Found(group, members, found, flush_ms, {}, (), is_over)
        begun, over, next_ms = self._timers(found, route.escalation.after_ms, members)
        second = route.escalation.route
        escalated = [member for member in over if self._is_escalated(second, member)]
        return Found(group, members, found, min(flush_ms, next_ms or flush_ms), begun, escalated, is_over)

    def _timers(
        self, found: Flush, after_ms: int, members: Sequence[Stored]
    ) -> tuple[dict[str, int], list[Stored], int | None]:
        """(by alert the timers that begin, members whose timers are over, when the next one is)."""
        gone, told, now_ms = set(found.gone), set(found.told), self._now_ms
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
        over, ahead = [], set(begun.values())
        for member in waiting:
            if member.alert_id in begun or member.escalate_ms is None:
                continue
            if member.escalate_ms <= now_ms:
                over.append(member)
            else:
                ahead.add(member.escalate_ms)
        return begun, over, min(ahead, default=None)

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

    # ------------------------------------------------------------------ writing

    def _tell(self, looks: Sequence[Found]) -> None:
        """Write the messages of groups into the outbox."""
        if not looks:
            return
        messages = GroupMessages(self._writer, self._known).of(looks, self._telling, self._now_ms)
        are_new = self._writer.outbox.add_all(messages)
        told: list[tuple[str, str, str]] = []
        for n, (look, message, is_new) in enumerate(zip(looks, messages, are_new, strict=True)):
            group, found = look.group, look.flush
            group.n_told, group.told_ms = group.n_told + 1, self._now_ms
            if is_new:
                of_message = {member.alert_id for member in (*found.news, *found.resolved)}
                told += ((message["idempotency_key"], group.receiver, alert_id) for alert_id in sorted(of_message))
            # In a storm each message is told of with its delivery; a line here would cost as much as writing it.
            tell = log.info if n < MOST_LOGGED else log.debug
            tell(
                "group", receiver=group.receiver, group=group.key, what=str(found.reason),
                firing=len(found.firing), resolved=len(found.resolved),
            )  # fmt: skip
        self._writer.groups.add_told(told)

    def _escalate(self, looks: Sequence[Found]) -> None:
        """Begin the timers of what was told, and tell the second receivers of what nobody has acknowledged since: of
        all groups at once, each write costs the same for one as for many."""
        groups = self._writer.groups
        groups.set_timers([(look.group.id, *timer) for look in looks for timer in look.timers.items()])
        due = [(look, member) for look in looks for member in look.escalated]
        for n, (look, member) in enumerate(due):
            route = self._telling.route(look.group.route)
            assert route is not None, "it has found whom to tell"
            assert route.escalation is not None, "it has found whom to tell"
            second, alert_id, now_ms = route.escalation.route, member.alert_id, self._now_ms
            target = target_of(second, member.labels)
            groups.enter(target, second.identity, second.receiver, alert_id, member.fingerprint, now_ms, now_ms)
            tell = log.info if n < MOST_LOGGED else log.debug
            tell("escalated", alert=alert_id, query=member.labels.get("alertname"), receiver=second.receiver)
        groups.set_escalated([(look.group.id, member.alert_id) for look, member in due])
        self._writer.rows.flush()


def _query_of(source: Sequence[Matcher]) -> str | None:
    """The query whose alerts alone can be sources; None: those of any."""
    names = [matcher.value for matcher in source if matcher.name == "alertname" and matcher.operator == "="]
    return names[0] if names else None


__all__ = ["Found", "Look"]
