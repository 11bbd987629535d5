"""Groups of alerts that are told together: who belongs to which, and when each is looked at next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Delete, Update, bindparam, delete, exists, func, select, update

from app.store.bulk import in_chunks, insert_rows
from app.store.models import (
    AlertGroupRow,
    AlertRow,
    GroupMemberRow,
    NotificationRow,
    ProcessStatusRow,
    ToldAlertRow,
)
from app.store.writing.gathered import GatheredRows

ROUTING = "routing"
"""Row of process_status: the routing by which open alerts were put into groups."""

Pair = tuple[str, str]
"""Ids of a group and an alert."""
Labels = Mapping[str, str]
Message = tuple[str, str]
"""Idempotency-Key and receiver."""


class Target(Protocol):
    """A group that an alert belongs to."""

    @property
    def id(self) -> str:
        """Of the group."""
        ...

    @property
    def key(self) -> str:
        """As Alertmanager's `groupKey`."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """By which its alerts are together."""
        ...


class Content(NamedTuple):
    """Of an alert, at one revision, what looks need and what does not change the decision when it is a moment old."""

    start_ms: int
    end_ms: int
    labels: Labels


class Member(NamedTuple):
    """An alert of a group, as it is now."""

    alert_id: str
    fingerprint: str
    told: bool
    """Whether the receiver is, or will be, told that it fires."""
    hidden: bool
    """Whether it was silenced, inhibited or muted when the group was looked at."""
    escalate_ms: int | None
    """When somebody else is told, unless it is acknowledged; None: the timer has not begun."""
    escalated: bool
    revision: int
    state: str
    severity: str
    silenced: bool
    inhibited: bool
    """Whether an incident is told in its place, to those who hear of that."""
    start_ms: int
    end_ms: int
    labels: Labels


_MEMBERS = (
    select(
        GroupMemberRow.group_id,
        GroupMemberRow.alert_id,
        GroupMemberRow.fingerprint,
        GroupMemberRow.told,
        GroupMemberRow.hidden,
        GroupMemberRow.escalate_ms,
        GroupMemberRow.escalated,
        AlertRow.revision,
        AlertRow.state,
        AlertRow.severity,
        AlertRow.silenced,
        AlertRow.inhibited,
    )
    .join(AlertRow, AlertRow.id == GroupMemberRow.alert_id)
    .where(GroupMemberRow.group_id.in_(bindparam("group_ids", expanding=True)))
    .order_by(GroupMemberRow.alert_id)
)
_WHOLE_MEMBERS = _MEMBERS.add_columns(*(getattr(AlertRow, name) for name in Content._fields))
_SHORT_MEMBERS = _MEMBERS.where(AlertRow.revision >= 0)
"""Of the index ix_alerts_telling alone: rows of alerts are long, and a group may have thousands. All revisions are; but
asked for nothing else than the id, SQLite goes by the primary key."""
_MEMBER_TABLE = GroupMemberRow.metadata.tables[GroupMemberRow.__tablename__]
_OF_PAIR = (
    _MEMBER_TABLE.c.group_id == bindparam("of_group"),
    _MEMBER_TABLE.c.alert_id == bindparam("of_alert"),
)
_MANY = 20
"""Members of one group for which a statement of their own costs less than each by itself."""
_SET_TOLD = update(_MEMBER_TABLE).values(told=True)
_SET_HIDDEN = update(_MEMBER_TABLE).values(hidden=True)
_SET_ESCALATED = update(_MEMBER_TABLE).values(escalated=True, escalate_ms=None)
_STOP_TIMERS = update(_MEMBER_TABLE).where(
    _MEMBER_TABLE.c.alert_id == bindparam("of_alert"), _MEMBER_TABLE.c.escalate_ms.is_not(None)
)
_SET_TIMER = update(_MEMBER_TABLE).where(*_OF_PAIR).values(escalate_ms=bindparam("at_ms"))
_LEAVE = delete(_MEMBER_TABLE)


class Groups:
    """Groups as one transaction reads and writes them; alerts that enter are written with what is gathered."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows
        self._new_groups: dict[str, dict[str, Any]] = {}
        self._new_members: dict[tuple[str, str], dict[str, Any]] = {}
        self._untold: dict[frozenset[str] | None, set[str]] = {}
        """Alerts of which nobody, or none of these receivers, need be told any more."""
        self._told_of: dict[str, list[AlertGroupRow]] = {}
        """By alert the groups that have told of it, as far as `look_up_told` has asked."""
        rows.write_last(self._write_new)

    # ------------------------------------------------------------------ alerts come and go

    def enter(
        self, target: Target, route: str, receiver: str, alert_id: str, fingerprint: str, flush_ms: int, now_ms: int
    ) -> None:
        """An alert belongs to a group; a new group is looked at first at `flush_ms`."""
        self._new_groups.setdefault(
            target.id,
            {
                "id": target.id,
                "route": route,
                "receiver": receiver,
                "key": target.key,
                "labels": dict(target.labels),
                "created_ms": now_ms,
                "flush_ms": flush_ms,
                "told_ms": None,
                "n_told": 0,
            },
        )
        member: dict[str, Any] = {"group_id": target.id, "alert_id": alert_id, "fingerprint": fingerprint}
        member |= {"told": False, "hidden": False, "escalate_ms": None, "escalated": False}
        self._new_members[target.id, alert_id] = member

    def forget_untold(self, alert_id: str, receivers: Collection[str] | None = None) -> None:
        """Nobody who was not told of an alert need be told of it any more; or none of these receivers."""
        for place in [place for place in self._new_members if place[1] == alert_id]:
            if receivers is None or self._new_groups[place[0]]["receiver"] in receivers:
                del self._new_members[place]
        self._untold.setdefault(None if receivers is None else frozenset(receivers), set()).add(alert_id)

    def _forget_untold(self) -> None:
        forgotten, self._untold = self._untold, {}
        for receivers, alert_ids in forgotten.items():
            for chunk in in_chunks(sorted(alert_ids)):
                untold: list[ColumnElement[bool]] = [GroupMemberRow.alert_id.in_(chunk), GroupMemberRow.told.is_(False)]
                if receivers is not None:
                    of_group = AlertGroupRow.id == GroupMemberRow.group_id
                    untold.append(exists().where(of_group, AlertGroupRow.receiver.in_(sorted(receivers))))
                gone = delete(GroupMemberRow).where(*untold).execution_options(synchronize_session=False)
                self._rows.bare_session.execute(gone)

    def look_up_told(self, alert_ids: Collection[str]) -> None:
        """Read at once what `told_group` is asked one by one: only looks at groups change it."""
        self._told_of |= {alert_id: [] for alert_id in alert_ids}
        for chunk in in_chunks(sorted(alert_ids)):
            of = select(GroupMemberRow.alert_id, AlertGroupRow)
            of = of.join(AlertGroupRow, AlertGroupRow.id == GroupMemberRow.group_id)
            told = (GroupMemberRow.alert_id.in_(chunk), GroupMemberRow.told.is_(True))
            for alert_id, group in self._rows.session.execute(of.where(*told)):
                self._told_of[alert_id].append(group)

    def told_group(self, alert_ids: Sequence[str], receiver: str) -> AlertGroupRow | None:
        """The first group of a receiver that has told of one of these alerts; None: none has."""
        known = [group for alert_id in alert_ids for group in self._told_of.get(alert_id, ())]
        found = [group for group in known if group.receiver == receiver]
        for chunk in in_chunks([alert_id for alert_id in alert_ids if alert_id not in self._told_of]):
            of = select(AlertGroupRow).join(GroupMemberRow, GroupMemberRow.group_id == AlertGroupRow.id)
            told = (GroupMemberRow.alert_id.in_(chunk), GroupMemberRow.told.is_(True))
            order = (AlertGroupRow.created_ms, AlertGroupRow.id)
            of = of.where(*told, AlertGroupRow.receiver == receiver).order_by(*order)
            found += self._rows.session.scalars(of.limit(1))
        return min(found, key=lambda group: (group.created_ms, group.id), default=None)

    def _write_new(self) -> None:
        self._forget_untold()  # who enters in the same transaction does so after it
        groups, self._new_groups = self._new_groups, {}
        members, self._new_members = self._new_members, {}
        if not groups:
            return
        session = self._rows.bare_session
        for chunk in in_chunks(sorted(groups)):
            for known in session.scalars(select(AlertGroupRow.id).where(AlertGroupRow.id.in_(chunk))):
                del groups[known]
        of_old_groups = sorted({alert_id for group_id, alert_id in members if group_id not in groups})
        for chunk in in_chunks(of_old_groups):
            of_chunk = GroupMemberRow.alert_id.in_(chunk)
            there = select(GroupMemberRow.group_id, GroupMemberRow.alert_id).where(of_chunk)
            for group_id, alert_id in session.execute(there):
                members.pop((group_id, alert_id), None)
        insert_rows(session, AlertGroupRow, list(groups.values()))
        insert_rows(session, GroupMemberRow, list(members.values()))

    # ------------------------------------------------------------------ flushing

    def due(self, now_ms: int, latest_ms: int, at_most: int) -> list[AlertGroupRow]:
        """Groups whose timers are over, the earliest first; and those whose timers are beyond `latest_ms`, which no
        timer is unless the clock was set back."""
        order = (AlertGroupRow.flush_ms, AlertGroupRow.id)
        over = select(AlertGroupRow).where(AlertGroupRow.flush_ms <= now_ms)
        found = list(self._rows.session.scalars(over.order_by(*order).limit(at_most)))
        if len(found) < at_most:
            ahead = select(AlertGroupRow).where(AlertGroupRow.flush_ms > latest_ms)
            found += self._rows.session.scalars(ahead.order_by(*order).limit(at_most - len(found)))
        return found

    def all_after(self, group_id: str, at_most: int) -> list[AlertGroupRow]:
        """Groups in order of their ids, from behind one on."""
        behind = select(AlertGroupRow).where(AlertGroupRow.id > group_id)
        return list(self._rows.session.scalars(behind.order_by(AlertGroupRow.id).limit(at_most)))

    def n_members(self, group_ids: Sequence[str]) -> dict[str, int]:
        """How many alerts each group has; groups without any are not among them."""
        found: dict[str, int] = {}
        for chunk in in_chunks(group_ids):
            counted = select(GroupMemberRow.group_id, func.count()).where(GroupMemberRow.group_id.in_(chunk))
            for group_id, n in self._rows.session.execute(counted.group_by(GroupMemberRow.group_id)):
                found[group_id] = n
        return found

    def members(self, group_ids: Sequence[str], known: dict[tuple[str, int], Content]) -> dict[str, list[Member]]:
        """The alerts of groups, in order of their ids; `known`: contents by alert and revision, read already: those
        that are not are added."""
        found: dict[str, list[Member]] = {group_id: [] for group_id in group_ids}
        statement = _SHORT_MEMBERS if known else _WHOLE_MEMBERS
        for chunk in in_chunks(group_ids):
            rows = self._rows.session.execute(statement, {"group_ids": list(chunk)}).all()
            if statement is _SHORT_MEMBERS:
                self._read_contents([(row.alert_id, row.revision) for row in rows], known)
                for group_id, *row in rows:
                    found[group_id].append(Member._make((*row, *known[row[0], row[6]])))
                continue
            for group_id, *row in rows:
                member = Member._make(row)
                found[group_id].append(member)
                known[member.alert_id, member.revision] = Content(member.start_ms, member.end_ms, member.labels)
        return found

    def _read_contents(self, wanted: Iterable[tuple[str, int]], known: dict[tuple[str, int], Content]) -> None:
        columns = (AlertRow.id, AlertRow.revision, *(getattr(AlertRow, name) for name in Content._fields))
        for chunk in in_chunks([alert_id for alert_id, revision in wanted if (alert_id, revision) not in known]):
            for alert_id, revision, *content in self._rows.session.execute(
                select(*columns).where(AlertRow.id.in_(chunk))
            ):
                known[alert_id, revision] = Content._make(content)

    def going_on(self, queries: Collection[str] | None, labels: dict[str, Labels]) -> list[tuple[str, Labels]]:
        """Ids and labels of the alerts that are not over; of these queries, None: of all. `labels`: of alerts, read
        already: those that are not are added."""
        statement = select(AlertRow.id).where(AlertRow.open.is_(True), AlertRow.state != "resolved")
        if queries is not None:
            statement = statement.where(AlertRow.query.in_(sorted(queries)))
        alert_ids = self._rows.session.scalars(statement).all()
        for chunk in in_chunks([alert_id for alert_id in alert_ids if alert_id not in labels]):
            of_chunk = select(AlertRow.id, AlertRow.labels).where(AlertRow.id.in_(chunk))
            for alert_id, of_alert in self._rows.session.execute(of_chunk):
                labels[alert_id] = of_alert
        return [(alert_id, labels[alert_id]) for alert_id in alert_ids]

    def alerts(self, alert_ids: Sequence[str]) -> dict[str, AlertRow]:
        """By id, as far as they are kept."""
        found: dict[str, AlertRow] = {}
        for chunk in in_chunks(alert_ids):
            alerts = self._rows.session.scalars(select(AlertRow).where(AlertRow.id.in_(chunk)))
            found |= {alert.id: alert for alert in alerts}
        return found

    def pending(self, receivers: Collection[str], group_ids: Sequence[str]) -> dict[str, list[Message]]:
        """Messages of groups that were not delivered yet, in order; groups without any are not among them."""
        found: dict[str, list[Message]] = {}
        for chunk in in_chunks(group_ids):
            named = (NotificationRow.fingerprint, NotificationRow.idempotency_key, NotificationRow.receiver)
            statement = select(*named).where(
                NotificationRow.fingerprint.in_(chunk),
                NotificationRow.receiver.in_(sorted(receivers)),
                NotificationRow.status == "pending",
            )
            for group_id, *message in self._rows.session.execute(statement.order_by(NotificationRow.sequence)):
                found.setdefault(group_id, []).append((message[0], message[1]))
        return found

    def contents(self, messages: Sequence[Message]) -> dict[Message, dict[str, Any]]:
        """What messages say."""
        found: dict[Message, dict[str, Any]] = {}
        for chunk in in_chunks(sorted({key for key, _ in messages})):
            named = (NotificationRow.idempotency_key, NotificationRow.receiver, NotificationRow.payload)
            rows = self._rows.session.execute(select(*named).where(NotificationRow.idempotency_key.in_(chunk)))
            found |= {(key, receiver): payload for key, receiver, payload in rows}
        return found

    def set_told(self, members: Sequence[Pair]) -> None:
        """The receivers of the groups are, or will be, told that these fire."""
        self._each(_SET_TOLD, members)

    def set_hidden(self, members: Sequence[Pair]) -> None:
        """These are silenced, inhibited or muted."""
        self._each(_SET_HIDDEN, members)

    def set_timers(self, members: Sequence[tuple[str, str, int]]) -> None:
        """(group, alert, time): somebody else is told then, unless it is acknowledged."""
        if members:
            rows = [{"of_group": group, "of_alert": alert, "at_ms": at_ms} for group, alert, at_ms in members]
            self._rows.session.connection().execute(_SET_TIMER, rows)

    def stop_timers(self, alert_id: str) -> None:
        """Somebody looks after it; if nobody does any more, its timers begin anew."""
        self._rows.bare_session.connection().execute(_STOP_TIMERS.values(escalate_ms=None), {"of_alert": alert_id})

    def set_escalated(self, members: Sequence[Pair]) -> None:
        """Somebody else is told of these as well."""
        self._each(_SET_ESCALATED, members)

    def leave(self, members: Sequence[Pair]) -> None:
        """These belong to their groups no more."""
        self._each(_LEAVE, members)

    def _each(self, statement: Update | Delete, members: Sequence[Pair]) -> None:
        """Of each group with many all at once, else one by one: by their keys either way."""
        by_group: dict[str, list[str]] = {}
        for group_id, alert_id in members:
            by_group.setdefault(group_id, []).append(alert_id)
        connection, columns = self._rows.session.connection(), _MEMBER_TABLE.c
        for group_id in [group_id for group_id, alert_ids in by_group.items() if len(alert_ids) > _MANY]:
            for chunk in in_chunks(by_group.pop(group_id)):
                connection.execute(statement.where(columns.group_id == group_id, columns.alert_id.in_(chunk)))
        pairs = [{"of_group": group_id, "of_alert": alert} for group_id, of in by_group.items() for alert in of]
        if pairs:
            connection.execute(statement.where(*_OF_PAIR), pairs)

    def add_told(self, told: Iterable[tuple[str, str, str]]) -> None:
        """(Idempotency-Key, receiver, alert): a message tells something new of an alert."""
        names = ("idempotency_key", "receiver", "alert_id")
        insert_rows(self._rows.bare_session, ToldAlertRow, [dict(zip(names, row, strict=True)) for row in told])

    def remove(self, groups: Sequence[AlertGroupRow]) -> None:
        """Groups that have no alerts; what was changed of them is not written."""
        session = self._rows.session
        for group in groups:
            session.expunge(group)
        for chunk in in_chunks([group.id for group in groups]):
            for statement in (
                delete(GroupMemberRow).where(GroupMemberRow.group_id.in_(chunk)),
                delete(AlertGroupRow).where(AlertGroupRow.id.in_(chunk)),
            ):
                session.execute(statement.execution_options(synchronize_session=False))

    # ------------------------------------------------------------------ another tree

    def routing(self) -> str | None:
        """The digest of the routing by which alerts were put into groups; None: there was none."""
        row = self._rows.session.get(ProcessStatusRow, ROUTING)
        return None if row is None else str(row.value["digest"])

    def put_routing(self, digest: str, now_ms: int) -> None:
        """Alerts are put into groups by this one from now on."""
        self._rows.session.merge(ProcessStatusRow(name=ROUTING, updated_ms=now_ms, value={"digest": digest}))

    def leave_routes_but(self, routes: Collection[str]) -> None:
        """Alerts that fire, and of which nobody was told, leave their groups, to enter those they belong to now; then
        groups of other routes go that have no alerts. The others tell what is over, each as it would have."""
        firing = select(AlertRow.id).where(AlertRow.open.is_(True), AlertRow.state == "firing")
        self._rows.session.execute(
            delete(GroupMemberRow)
            .where(GroupMemberRow.told.is_(False), GroupMemberRow.alert_id.in_(firing))
            .execution_options(synchronize_session=False)
        )
        self._rows.session.execute(
            delete(AlertGroupRow)
            .where(
                AlertGroupRow.route.not_in(sorted(routes)),
                ~exists().where(GroupMemberRow.group_id == AlertGroupRow.id),
            )
            .execution_options(synchronize_session=False)
        )

    def open_alerts(self, behind: str, at_most: int) -> list[AlertRow]:
        """Alerts that fire, in order of their ids."""
        going_on = (AlertRow.open.is_(True), AlertRow.state == "firing", AlertRow.id > behind)
        return list(self._rows.session.scalars(select(AlertRow).where(*going_on).order_by(AlertRow.id).limit(at_most)))

    def told_by(self, alert_ids: Sequence[str]) -> set[tuple[str, str]]:
        """(alert, receiver) for which a group of the receiver has told that the alert fires."""
        found: set[tuple[str, str]] = set()
        for chunk in in_chunks(alert_ids):
            of_chunk = (GroupMemberRow.alert_id.in_(chunk), GroupMemberRow.told.is_(True))
            joined = select(GroupMemberRow.alert_id, AlertGroupRow.receiver).join(
                AlertGroupRow, AlertGroupRow.id == GroupMemberRow.group_id
            )
            found |= {
                (alert_id, receiver) for alert_id, receiver in self._rows.session.execute(joined.where(*of_chunk))
            }
        return found

    def receivers_of(self, alert_id: str) -> set[str]:
        """Whose groups an alert belongs to: they tell of it, and of its end."""
        of_groups = select(AlertGroupRow.receiver).join(GroupMemberRow, GroupMemberRow.group_id == AlertGroupRow.id)
        return set(self._rows.session.scalars(of_groups.where(GroupMemberRow.alert_id == alert_id)))

    def n_groups(self) -> int:
        """How many there are."""
        return self._rows.session.scalar(select(func.count()).select_from(AlertGroupRow)) or 0


__all__ = ["ROUTING", "Groups", "Member", "Target"]
