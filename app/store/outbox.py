"""Which messages that were given up can be sent again.

A receiver is told in order of writing. A message whose alert it was told something later of is overtaken: to send it
now would say that the alert fires when it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, case, exists
from sqlalchemy.orm import aliased

from app.store.models import NotificationRow

_CHUNK = 500
"""Databases limit the number of bound parameters."""


@dataclass(frozen=True, slots=True)
class SentAgain:
    """What came of a wish to send again: how many messages are pending now, and how many were overtaken."""

    n_pending: int
    n_overtaken: int

    def __add__(self, other: SentAgain) -> SentAgain:
        return SentAgain(self.n_pending + other.n_pending, self.n_overtaken + other.n_overtaken)


def is_overtaken() -> ColumnElement[bool]:
    """A later message about the same alert was delivered to the same receiver."""
    # One condition of status and sequence: with two, SQLite walks through all that the receiver was told since, by the
    # index that begins with the status, in place of the few messages of the alert.
    later = aliased(NotificationRow)
    return exists().where(
        later.alert_id == NotificationRow.alert_id,
        later.receiver == NotificationRow.receiver,
        case((later.status == "delivered", later.sequence), else_=-1) > NotificationRow.sequence,
    )


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
    for start in range(0, len(wanted), _CHUNK):
        yield and_(failed, NotificationRow.idempotency_key.in_(wanted[start : start + _CHUNK]))


__all__ = ["SentAgain", "given_up", "is_overtaken"]
