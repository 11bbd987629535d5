"""Messages to receivers: new ones, what becomes of them, and which are overtaken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, update

from app.store.alert_pages import filtered_later
from app.store.bulk import Row, in_chunks, insert_rows
from app.store.last_notified import LastNotified
from app.store.models import AlertChangeRow, AlertRow, NotificationRow
from app.store.outbox import GivenUp, SentAgain, given_up, is_overtaken, to_send_again
from app.store.writing.gathered import GatheredRows

# Made once: each in_() of a list of values would be looked at value by value.
_TRIED = select(NotificationRow).where(
    NotificationRow.receiver.in_(bindparam("receivers", expanding=True)),
    NotificationRow.fingerprint.in_(bindparam("fingerprints", expanding=True)),
    NotificationRow.status == "pending",
    NotificationRow.tried_since_ms.is_not(None),
)
"""In no order: for the sake of one SQLite would read all that is pending."""
_LAST_SEQUENCE = select(func.max(NotificationRow.sequence))


class Outbox:
    """The outbox as one transaction reads and writes it; new messages are written with the rows that are gathered."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows
        self._new: list[dict[str, Any]] = []
        self._sequence: int | None = None
        """Of the last message; None until it has to be known."""
        self._last_notified = LastNotified()
        rows.write_last(self._write_new)

    def was_notified_since_firing(self, alert_id: str, receiver: str) -> bool:
        """Whether a receiver is, or will be, told that an alert fires, since it began to fire this time."""
        over = select(func.max(AlertChangeRow.revision)).where(
            AlertChangeRow.alert_id == alert_id, AlertChangeRow.to_state == "resolved"
        )
        statement = select(NotificationRow.idempotency_key).where(
            NotificationRow.alert_id == alert_id,
            NotificationRow.group_id.is_(None),
            NotificationRow.receiver == receiver,
            NotificationRow.state == "firing",
            NotificationRow.status.not_in(("failed", "overtaken")),
            NotificationRow.revision > func.coalesce(over.scalar_subquery(), 0),
        )
        return self._rows.session.scalars(statement.limit(1)).first() is not None

    def last_notified(self, alert: AlertRow, receiver: str) -> str | None:
        """The state that a receiver is, or will be, told last of an alert; None: it knows nothing of it."""
        if (known := self._rows.known_with_messages(alert)) is not None:
            return known.last_notified(alert, receiver)
        statement = select(NotificationRow.state).where(
            NotificationRow.alert_id == alert.id,
            NotificationRow.group_id.is_(None),
            NotificationRow.receiver == receiver,
        )
        return self._rows.session.scalars(statement.order_by(NotificationRow.sequence.desc()).limit(1)).first()

    def thread(self, alert_id: str, behind: Sequence[str], receiver: str) -> str | None:
        """The key under which a receiver is told of an incident: that of its own messages before, else that of the
        first message of an alert behind it that the receiver got or will get; None: there is none."""
        told = NotificationRow.alert_id == alert_id, NotificationRow.receiver == receiver
        own = select(NotificationRow).where(*told, NotificationRow.group_id.is_(None))
        last = self._rows.session.scalars(own.order_by(NotificationRow.sequence.desc()).limit(1)).first()
        if last is not None:
            return last.payload.get("thread")
        first: NotificationRow | None = None
        for chunk in in_chunks(behind):
            of_chunk = select(NotificationRow).where(
                NotificationRow.alert_id.in_(chunk),
                filtered_later(NotificationRow.receiver == receiver),  # of the alerts: a receiver has many messages
                NotificationRow.group_id.is_(None),
                NotificationRow.state == "firing",
                filtered_later(NotificationRow.status.in_(("pending", "delivered"))),
            )
            found = self._rows.session.scalars(of_chunk.order_by(NotificationRow.sequence).limit(1)).first()
            if found is not None and (first is None or found.sequence < first.sequence):
                first = found
        return None if first is None else first.payload.get("thread") or first.fingerprint

    def look_up_notified(self, receivers: Collection[str], fingerprints: Collection[str]) -> None:
        """Read at once what `last_notified_of_same` is asked for one by one."""
        self._last_notified.look_up(self._rows.session, receivers, fingerprints)

    def last_notified_of_same(self, fingerprint: str, receiver: str) -> str | None:
        """The state that a receiver is, or will be, told last of alerts with these labels; None: it knows of none."""
        if not self._last_notified.knows(receiver, fingerprint):
            self.look_up_notified((receiver,), (fingerprint,))
        return self._last_notified.state(receiver, fingerprint)

    def add(self, message: Row, alert: AlertRow | None = None) -> bool:
        """Put a message into the outbox: the columns of NotificationRow but `sequence`; False when it is there already.

        `alert`: of which it tells; then it is written with the others that are gathered.
        """
        identity = (message["idempotency_key"], message["receiver"])
        known = self._rows.known_with_messages(alert)
        if known is None or alert is None:
            is_there = self._rows.session.get(NotificationRow, identity) is not None
        else:
            is_there = known.knows_message(alert, identity)
        if is_there:
            return False
        if self._sequence is None:
            self._sequence = self._rows.bare_session.scalar(_LAST_SEQUENCE) or 0
        self._sequence += 1
        self._new.append({**message, "sequence": self._sequence})
        self._last_notified.put(message["receiver"], message["fingerprint"], message["state"])
        if known is None or alert is None:
            self._rows.flush()
        else:
            known.add_message(alert, identity, self._sequence, message["state"])
        return True

    def add_all(self, messages: Sequence[Row]) -> list[bool]:
        """Put messages into the outbox, in their order; False for those that are there already. As `add`, at once."""
        session = self._rows.session
        known: set[tuple[str, str]] = set()
        for chunk in in_chunks([message["idempotency_key"] for message in messages]):
            there = select(NotificationRow.idempotency_key, NotificationRow.receiver)
            found = session.execute(there.where(NotificationRow.idempotency_key.in_(chunk)))
            known.update((key, receiver) for key, receiver in found)
        if self._sequence is None:
            self._sequence = session.scalar(_LAST_SEQUENCE) or 0
        are_new: list[bool] = []
        for message in messages:
            identity = (message["idempotency_key"], message["receiver"])
            are_new.append(identity not in known)
            if identity in known:
                continue
            known.add(identity)
            self._sequence += 1
            self._new.append({**message, "sequence": self._sequence})
            self._last_notified.put(message["receiver"], message["fingerprint"], message["state"])
        self._rows.flush()
        return are_new

    def _write_new(self) -> None:
        """Write new messages, in their order, and let each overtake what is tried of its receiver and fingerprint."""
        messages, self._new = self._new, []
        if not messages:
            return
        tried = self._tried_of_same(messages)
        latest: dict[tuple[str, str], dict[str, Any]] = {}
        for message in messages:
            of_same, now_ms = (message["receiver"], message["fingerprint"]), message["created_ms"]
            if message["status"] != "pending":
                continue
            if (before := latest.get(of_same)) is not None:
                next_ms = before["next_attempt_ms"]
                before |= {"status": "overtaken", "finished_ms": now_ms}
            elif of_same in tried:
                next_ms = max(row.next_attempt_ms for row in tried[of_same])
                for row in tried[of_same]:
                    row.status, row.finished_ms = "overtaken", now_ms
            else:
                continue
            message |= {"next_attempt_ms": max(message["next_attempt_ms"], next_ms), "tried_since_ms": now_ms}
            latest[of_same] = message
        insert_rows(self._rows.bare_session, NotificationRow, messages)

    def _tried_of_same(self, messages: Sequence[Row]) -> dict[tuple[str, str], list[NotificationRow]]:
        """Pending messages that were tried, by receiver and fingerprint, in order, of those of these messages."""
        found: list[NotificationRow] = []
        receivers = sorted({message["receiver"] for message in messages})
        fingerprints = sorted({message["fingerprint"] for message in messages})
        for chunk in in_chunks(fingerprints):
            of_chunk = {"receivers": receivers, "fingerprints": chunk}
            found += self._rows.bare_session.scalars(_TRIED, of_chunk)
        tried: dict[tuple[str, str], list[NotificationRow]] = {}
        for message in sorted(found, key=lambda message: message.sequence):
            tried.setdefault((message.receiver, message.fingerprint), []).append(message)
        return tried

    def record_attempt(
        self, key: str, receiver: str, *, status: str, error: str | None, next_attempt_ms: int, now_ms: int
    ) -> None:
        """What became of one attempt to deliver; status pending, delivered or failed.

        When it is to be tried again and a later message of its fingerprint waits, that one is tried in its place.
        """
        tried = self._rows.session.get(NotificationRow, (key, receiver))
        if tried is None:
            return
        if status != "pending" or tried.status != "overtaken":  # meanwhile, by what was written during the attempt
            tried.status, tried.finished_ms = status, None if status == "pending" else now_ms
        tried.n_attempts += 1
        tried.last_error = error
        tried.next_attempt_ms = next_attempt_ms
        if tried.tried_since_ms is None:
            tried.tried_since_ms = now_ms
        self._rows.session.flush()
        if status == "pending" and (later := self._pending_of_same(tried, NotificationRow.sequence > tried.sequence)):
            *others, last = later
            self._overtake([tried, *others], last, next_attempt_ms, now_ms)

    def withdraw(self, alert: AlertRow, now_ms: int) -> None:
        """Nobody is told what waits of an alert to be tried again; what has become of it is told later."""
        if (known := self._rows.known_with_messages(alert)) is not None and not known.has_messages(alert):
            return
        waiting = update(NotificationRow).where(
            NotificationRow.alert_id == alert.id,
            NotificationRow.group_id.is_(None),  # else others of the group would be withdrawn with it
            NotificationRow.status == "pending",
            NotificationRow.tried_since_ms.is_not(None),
        )
        self._rows.session.execute(waiting.values(status="overtaken", finished_ms=now_ms))

    def _pending_of_same(self, message: NotificationRow, *conditions: ColumnElement[bool]) -> list[NotificationRow]:
        """Pending messages of one's receiver and fingerprint, in order."""
        statement = select(NotificationRow).where(
            NotificationRow.receiver == message.receiver,
            NotificationRow.fingerprint == message.fingerprint,
            NotificationRow.status == "pending",
            *conditions,
        )
        return list(self._rows.session.scalars(statement.order_by(NotificationRow.sequence)))

    @staticmethod
    def _overtake(messages: Sequence[NotificationRow], by: NotificationRow, next_ms: int, now_ms: int) -> None:
        """What one message says now is told in place of others; the wait for the next attempt goes on."""
        for message in messages:
            message.status, message.finished_ms = "overtaken", now_ms
        by.next_attempt_ms = max(by.next_attempt_ms, next_ms)
        if by.tried_since_ms is None:
            by.tried_since_ms = now_ms

    def send_again(
        self, receiver: str | None = None, keys: Sequence[str] = (), *, actor: str, now_ms: int
    ) -> SentAgain:
        """What was given up is pending again, under its Idempotency-Key and with all attempts before it; who wanted it
        stands in the history of each alert of which it tells.

        `receiver`: only of this one; `keys`: only these Idempotency-Keys. Messages that a later one has overtaken stay
        given up.
        """
        self._note_sent_again(to_send_again(self._rows.session, receiver, keys), actor, now_ms)
        pending = {
            **{"status": "pending", "n_attempts": 0, "finished_ms": None},
            **{"tried_since_ms": now_ms, "next_attempt_ms": now_ms},
        }
        n_overtaken = n_again = 0
        for failed in given_up(receiver, keys):
            left = select(func.count()).select_from(NotificationRow).where(failed, is_overtaken())
            n_overtaken += self._rows.session.scalar(left) or 0
            again = update(NotificationRow).where(failed, ~is_overtaken()).values(**pending)
            result = self._rows.session.execute(again.execution_options(synchronize_session=False))
            n_again += int(getattr(result, "rowcount", 0))
        return SentAgain(n_again, n_overtaken)

    def _note_sent_again(self, messages: Sequence[GivenUp], actor: str, now_ms: int) -> None:
        """One change of each alert, which stays as it is otherwise, as when it is assigned to somebody."""
        receivers: dict[str, set[str]] = {}
        for message in messages:
            for alert_id in message.alert_ids:
                receivers.setdefault(alert_id, set()).add(message.receiver)
        session = self._rows.session
        for chunk in in_chunks(sorted(receivers)):
            columns = AlertRow.id, AlertRow.revision, AlertRow.state, AlertRow.silenced
            kept = session.execute(select(*columns).where(AlertRow.id.in_(chunk))).all()  # retention may take some
            changed = update(AlertRow).where(AlertRow.id.in_(chunk))
            session.execute(
                changed.values(revision=AlertRow.revision + 1, updated_ms=now_ms),
                execution_options={"synchronize_session": False},
            )
            changes = [
                {
                    "alert_id": alert_id,
                    "revision": revision + 1,
                    "from_state": state,
                    "to_state": state,
                    "silenced": silenced,
                    "at_ms": now_ms,
                    "reason": f"sent again to {', '.join(sorted(receivers[alert_id]))}",
                    "actor": actor,
                }
                for alert_id, revision, state, silenced in kept
            ]
            insert_rows(session, AlertChangeRow, changes)

    def n_pending(self, receiver: str | None = None) -> int:
        """Messages that receivers, or one of them, have still to be told."""
        pending = select(func.count()).select_from(NotificationRow).where(NotificationRow.status == "pending")
        if receiver is not None:
            pending = pending.where(NotificationRow.receiver == receiver)
        return self._rows.session.scalar(pending) or 0


__all__ = ["Outbox"]
