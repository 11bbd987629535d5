"""The alerts of some queries and keys, read by few statements, as the writing of many alerts needs them.

What is asked of them is answered from memory, with what was written since; so it is what the store would answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select
from sqlalchemy.orm import Session

from app.store.alert_pages import longest_ms
from app.store.bulk import in_chunks
from app.store.models import AlertRow, NotificationRow

_FEW_KEYS = 3
"""For so many the database may choose among its indexes: one key may have any number of alerts that are over."""

# Statements are made once: each in_() of a list of values would be looked at value by value.
_OF_IDS = AlertRow.id.in_(bindparam("ids", expanding=True))
_BY_ID = select(AlertRow).where(_OF_IDS)
_OF_KEYS = (AlertRow.query == bindparam("of_query"), AlertRow.key_text.in_(bindparam("keys", expanding=True)))
_IS_NEAR = (
    # Without a bound below, all earlier alerts of the keys would be looked at.
    AlertRow.start_ms >= bindparam("earliest_ms"),
    AlertRow.start_ms <= bindparam("to_ms"),
    AlertRow.end_ms >= bindparam("from_ms"),
    AlertRow.merged_into.is_(None),
)
_NEAR_OF_FEW = select(AlertRow).where(*_OF_KEYS, *_IS_NEAR)
_OPEN_OF_FEW = select(AlertRow).where(*_OF_KEYS, AlertRow.open.is_(True))
# By the keys: of a query, any number may be open.
_IS_OPEN = func.coalesce(AlertRow.open, False).is_(True)
_NEAR_OR_OPEN = select(AlertRow).where(*_OF_KEYS, or_(_IS_OPEN, and_(*_IS_NEAR)))
_OPEN = select(AlertRow).where(*_OF_KEYS, _IS_OPEN)
_MESSAGES = select(
    NotificationRow.alert_id,
    NotificationRow.idempotency_key,
    NotificationRow.receiver,
    NotificationRow.sequence,
    NotificationRow.state,
).where(NotificationRow.alert_id.in_(bindparam("ids", expanding=True)), NotificationRow.group_id.is_(None))


@dataclass(frozen=True, slots=True)
class Span:
    """What alerts are asked for: those of a query and key that touch a closed interval, and those that are open."""

    query: str
    key_text: str
    from_ms: int
    to_ms: int
    alert_id: str | None = None
    """That may be in the store, too."""
    is_closing: bool = False
    """The alert is open, and will be so no more: only open ones are asked for."""


@dataclass(slots=True)
class _LastMessage:
    """The last message of an alert to a receiver."""

    sequence: int
    state: str


@dataclass(slots=True)
class _OfAlert:
    """What is known of the messages of an alert."""

    last: dict[str, _LastMessage] = field(default_factory=dict)
    """By receiver."""
    identities: set[tuple[str, str]] = field(default_factory=set)
    """(Idempotency-Key, receiver)."""


Key = tuple[str, str]


class KnownAlerts:
    """Alerts by query and key."""

    def __init__(self, session: Session, spans: Sequence[Span]) -> None:
        self._alerts: dict[Key, dict[str, AlertRow]] = {(span.query, span.key_text): {} for span in spans}
        self._messages: dict[Key, dict[str, _OfAlert]] = {key: {} for key in self._alerts}
        self._absent = {span.alert_id for span in spans if span.alert_id is not None and not span.is_closing}
        self._by_id: dict[str, AlertRow] = {}
        self._whole: set[str] = set()
        """Ids of the alerts whose messages are here, too."""
        by_query: dict[str, list[Span]] = {}
        for span in spans:
            by_query.setdefault(span.query, []).append(span)
        for alert in _by_id(session, self._absent):
            self._absent.discard(alert.id)
            self._by_id[alert.id] = alert
        longest = longest_ms(session) if spans else 0
        for query, of_query in by_query.items():
            self._read(session, query, of_query, longest)

    @property
    def by_id(self) -> Mapping[str, AlertRow]:
        """All that are here."""
        return self._by_id

    def covers(self, query: str, key_text: str) -> bool:
        """Whether all that matters of a query and key is here."""
        return (query, key_text) in self._alerts

    def is_absent(self, alert_id: str) -> bool:
        """Whether there is no alert of this id for sure."""
        return alert_id in self._absent

    def has_all_of(self, alert: AlertRow) -> bool:
        """Whether the messages of an alert are here, too."""
        return alert.id in self._whole

    def alert(self, alert_id: str) -> AlertRow | None:
        """By id, as far as it is here."""
        return self._by_id.get(alert_id)

    def add(self, alert: AlertRow) -> None:
        """A new alert."""
        self._absent.discard(alert.id)
        self._by_id[alert.id] = alert
        self._whole.add(alert.id)
        if (of_key := self._alerts.get((alert.query, alert.key_text))) is not None:
            of_key[alert.id] = alert

    def near(self, query: str, key_text: str, from_ms: int, to_ms: int) -> list[AlertRow]:
        """Alerts that touch a closed interval, the earliest first; not merged ones."""
        found = [
            alert
            for alert in self._alerts[query, key_text].values()
            if alert.start_ms <= to_ms and alert.end_ms >= from_ms and alert.merged_into is None
        ]
        return _in_order(found)

    def open(self, query: str, key_text: str) -> list[AlertRow]:
        """Open alerts, the earliest first."""
        return _in_order([alert for alert in self._alerts[query, key_text].values() if alert.open])

    # ------------------------------------------------------------------ messages

    def has_messages(self, alert: AlertRow) -> bool:
        """Whether there are messages of an alert."""
        return alert.id in self._messages[alert.query, alert.key_text]

    def knows_message(self, alert: AlertRow, identity: tuple[str, str]) -> bool:
        """Whether a message of this (Idempotency-Key, receiver) is there."""
        of_alert = self._messages[alert.query, alert.key_text].get(alert.id)
        return of_alert is not None and identity in of_alert.identities

    def add_message(self, alert: AlertRow, identity: tuple[str, str], sequence: int, state: str) -> None:
        """A new message of an alert, later than all others."""
        of_key = self._messages[alert.query, alert.key_text]
        of_alert = of_key.setdefault(alert.id, _OfAlert())
        of_alert.identities.add(identity)
        of_alert.last[identity[1]] = _LastMessage(sequence, state)

    def last_notified(self, alert: AlertRow, receiver: str) -> str | None:
        """The state that a receiver is, or will be, told last of an alert."""
        of_alert = self._messages[alert.query, alert.key_text].get(alert.id)
        last = None if of_alert is None else of_alert.last.get(receiver)
        return None if last is None else last.state

    # ------------------------------------------------------------------- reading

    def _read(self, session: Session, query: str, spans: Sequence[Span], longest: int) -> None:
        keys = sorted({span.key_text for span in spans})
        from_ms, to_ms = min(span.from_ms for span in spans), max(span.to_ms for span in spans)
        for chunk in in_chunks(keys):
            is_few, is_closing = len(chunk) <= _FEW_KEYS, all(span.is_closing for span in spans)
            asked: dict[str, Any] = {"of_query": query, "keys": chunk}
            near = {**asked, "earliest_ms": from_ms - longest, "to_ms": to_ms, "from_ms": from_ms}
            found: list[AlertRow] = []
            if is_closing or is_few:
                found += session.scalars(_OPEN_OF_FEW if is_few else _OPEN, asked)
            if not is_closing:
                found += session.scalars(_NEAR_OF_FEW if is_few else _NEAR_OR_OPEN, near)
            for alert in found:
                self._by_id[alert.id] = self._alerts[query, alert.key_text][alert.id] = alert
                self._whole.add(alert.id)
            self._read_messages(session, {alert.id: (query, alert.key_text) for alert in found})

    def _read_messages(self, session: Session, keys: Mapping[str, Key]) -> None:
        """Of alerts, given with their keys."""
        ids = sorted(keys)
        for chunk in in_chunks(ids):
            asked = {"ids": chunk}
            for alert_id, key, receiver, sequence, state in session.execute(_MESSAGES, asked):
                of_alert = self._messages[keys[alert_id]].setdefault(alert_id, _OfAlert())
                of_alert.identities.add((key, receiver))
                last = of_alert.last.get(receiver)
                if last is None or last.sequence < sequence:
                    of_alert.last[receiver] = _LastMessage(sequence, state)


def _by_id(session: Session, alert_ids: Collection[str]) -> Iterable[AlertRow]:
    ids = sorted(alert_ids)
    for chunk in in_chunks(ids):
        yield from session.scalars(_BY_ID, {"ids": chunk})


def _in_order(alerts: list[AlertRow]) -> list[AlertRow]:
    return sorted(alerts, key=lambda alert: (alert.start_ms, alert.id)) if len(alerts) > 1 else alerts


__all__ = ["KnownAlerts", "Span"]
