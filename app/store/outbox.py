"""Which messages of the outbox come next, and which are overtaken.

To a receiver alerts with the same labels are one. Of what has one fingerprint it is told in order of writing, and never
of anything earlier once a later message may have reached it: that would say that an alert fires when it is over. So
either one message is tried, the latest, or those that wait have not been tried yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, exists, select
from sqlalchemy.orm import Session, aliased

from app.store.bulk import in_chunks
from app.store.models import NotificationRow


@dataclass(frozen=True, slots=True)
class SentAgain:
    """What came of a wish to send again: how many messages are pending now, and how many were overtaken."""

    n_pending: int
    n_overtaken: int

    def __add__(self, other: SentAgain) -> SentAgain:
        return SentAgain(self.n_pending + other.n_pending, self.n_overtaken + other.n_overtaken)


class GivenUp(NamedTuple):
    """A message that can be sent again."""

    receiver: str
    key: str
    """Its Idempotency-Key."""
    alert_ids: tuple[str, ...]
    """Of which it tells, in order."""


STATUSES = ("pending", "delivered", "failed", "overtaken")


@cache
def is_overtaken() -> ColumnElement[bool]:
    """There is a later message of the same fingerprint, whatever became of it: one that failed may have arrived."""
    later = aliased(NotificationRow)
    return exists().where(
        later.receiver == NotificationRow.receiver,
        later.fingerprint == NotificationRow.fingerprint,
        later.status.in_(STATUSES),  # all of them: so that each is a range of the index
        later.sequence > NotificationRow.sequence,
    )


@cache
def is_first() -> ColumnElement[bool]:
    """No earlier message of the same fingerprint is pending."""
    earlier = aliased(NotificationRow)
    return ~exists().where(
        earlier.receiver == NotificationRow.receiver,
        earlier.fingerprint == NotificationRow.fingerprint,
        earlier.status == "pending",
        earlier.sequence < NotificationRow.sequence,
    )


def first_pending(receiver: str) -> Select[NotificationRow]:
    """Of each fingerprint the message that a receiver has to be told next; those that wait longest first."""
    return (
        select(NotificationRow)
        .where(NotificationRow.status == "pending", NotificationRow.receiver == receiver, is_first())
        .order_by(NotificationRow.next_attempt_ms, NotificationRow.sequence)
    )


@cache
def next_pending(receiver: str) -> Select[NotificationRow]:
    """The message that is due first, whenever that is. Made once: to make it took as long as to ask."""
    return first_pending(receiver).limit(1)


@cache
def due_first(receiver: str) -> Select[NotificationRow]:
    """That of the messages due at `:now_ms` of which this is so for longest."""
    return first_pending(receiver).where(NotificationRow.next_attempt_ms <= bindparam("now_ms")).limit(1)


@cache
def due_too_late(receiver: str) -> Select[NotificationRow]:
    """A message that would be due only after `:latest_ms`."""
    return first_pending(receiver).where(NotificationRow.next_attempt_ms > bindparam("latest_ms")).limit(1)


def given_up(receiver: str | None, keys: Sequence[str]) -> Iterator[ColumnElement[bool]]:
    """Conditions that are true of failed messages of a receiver (None: of all), and with these keys (empty: any).

    Several, for so many keys: each message fulfils one of them.
    """
    failed: ColumnElement[bool] = NotificationRow.status == "failed"
    if receiver is not None:
        failed = and_(failed, NotificationRow.receiver == receiver)
    if not keys:
        yield failed
        return
    wanted = sorted(set(keys))
    for chunk in in_chunks(wanted):
        yield and_(failed, NotificationRow.idempotency_key.in_(chunk))


def to_send_again(session: Session, receiver: str | None, keys: Sequence[str]) -> list[GivenUp]:
    """The messages of `given_up` that no later one has overtaken, by receiver in order of writing."""
    found: list[tuple[int, GivenUp]] = []
    columns = NotificationRow.sequence, NotificationRow.receiver, NotificationRow.idempotency_key
    is_of_group = NotificationRow.group_id.is_not(None)
    for failed in given_up(receiver, keys):
        alone = select(*columns, NotificationRow.alert_id).where(failed, ~is_overtaken(), ~is_of_group)
        for sequence, of, key, alert_id in session.execute(alone):
            found.append((sequence, GivenUp(of, key, (alert_id,))))
        # One of each group at most, with all alerts of which it tells: a message shows a bounded number of them.
        together = select(*columns, NotificationRow.payload).where(failed, ~is_overtaken(), is_of_group)
        for sequence, of, key, payload in session.execute(together.execution_options(yield_per=20)):
            ids = {alert["alert_id"]: None for alert in payload["alerts"]}
            found.append((sequence, GivenUp(of, key, tuple(ids))))
    return [message for _, message in sorted(found, key=lambda one: (one[1].receiver, one[0]))]


__all__ = [
    "GivenUp",
    "SentAgain",
    "due_first",
    "due_too_late",
    "given_up",
    "is_overtaken",
    "next_pending",
    "to_send_again",
]
