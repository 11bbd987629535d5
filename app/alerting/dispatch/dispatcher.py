"""Groups are looked at when their timers are over; what they have to tell goes to the outbox.

All state is in the store, and a look is one transaction: messages with their Idempotency-Keys, what receivers believe
from now on, and the next timers. A crash anywhere repeats or loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session

from app.alerting.dispatch.entering import enter
from app.alerting.dispatch.known import Known
from app.alerting.dispatch.look import Look
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.lifecycle import State
from app.alerting.payload import fingerprint, labels_of
from app.alerting.snapshots import snapshot_of
from app.clock import Clock
from app.store.api import Store
from app.store.models import AlertGroupRow
from app.store.writing.batch_size import BatchSize
from app.store.writing.groups import Groups
from app.store.writing.writer import Writer

MOST_GROUPS = 250
"""That one transaction looks at; fewer while that takes long."""
_LEAST_GROUPS = 16
MOST_MEMBERS = 1_000
"""Of all groups that one transaction looks at, unless it is one group: steps wait for it."""
MOST_ALERTS = 1_000
"""That one transaction puts into the groups of another tree."""
NO_ROUTING = "none"


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
        self._batch = BatchSize(MOST_GROUPS, _LEAST_GROUPS)

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

        def next_ones(groups: Groups) -> list[AlertGroupRow]:
            return groups.all_after(behind, self._batch.now)

        while True:
            n_new, last = self._look_at(next_ones)
            if last is None:
                return n_messages
            n_messages, behind = n_messages + n_new, last

    def _wait_of(self, next_ms: int) -> int:
        """0 for what is past, and for what lies further ahead than any timer: the clock was set back."""
        ahead_ms = next_ms - self._clock.now_ms()
        return ahead_ms if 0 < ahead_ms <= self._telling.longest_wait_ms else 0

    def _look(self) -> int:
        """At groups whose timers are over, as many as one transaction looks at; returns how many messages that
        gave."""
        now_ms = self._clock.now_ms()
        return self._look_at(
            lambda groups: groups.due(now_ms, now_ms + self._telling.longest_wait_ms, self._batch.now)
        )[0]

    def _look_at(self, select: Callable[[Groups], list[AlertGroupRow]]) -> tuple[int, str | None]:
        """(messages, id of the last group that was looked at, None: there is none); others are left for the next
        transaction."""
        known = Known()

        def foresee(session: Session) -> None:
            writer = Writer(session)
            groups, n_members = _together(writer.groups, select(writer.groups))
            if n_members > MOST_MEMBERS:
                Look(writer, self._telling, self._clock.now_ms(), known).foresee(groups)

        self._store.read(foresee)
        with self._store.transaction() as writer:
            began_s = time.monotonic()
            groups, _ = _together(writer.groups, select(writer.groups))
            if not groups:
                return 0, None
            look = Look(writer, self._telling, self._clock.now_ms(), known)
            n_messages = look.write(look.at(groups))
        self._batch.took(len(groups), time.monotonic() - began_s)
        return n_messages, groups[-1].id

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


def _together(groups: Groups, found: Sequence[AlertGroupRow]) -> tuple[list[AlertGroupRow], int]:
    """(Those that one transaction looks at, how many alerts they have): a large one has a transaction of its own."""
    counted = groups.n_members([group.id for group in found])
    taken: list[AlertGroupRow] = []
    n_members = 0
    for group in found:
        n_of_group = counted.get(group.id, 0)
        if taken and n_members + n_of_group > MOST_MEMBERS:
            break
        taken.append(group)
        n_members += n_of_group
    return taken, n_members


__all__ = ["Dispatcher"]
