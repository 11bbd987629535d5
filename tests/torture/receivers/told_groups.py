"""What receivers were told by groups, and the rules that hold for it however often whoever tells it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy import select

from app.store import Store
from app.store.models import NotificationRow

Member = tuple[str, str]
"""(id of an alert, state that is told of it)."""


@dataclass(frozen=True)
class Told:
    """A message, as its receiver has it."""

    key: str
    """Idempotency-Key."""
    group: str
    reason: str
    alerts: frozenset[Member]

    @classmethod
    def of(cls, key: str, payload: Mapping[str, Any]) -> Told:
        """Of a webhook notification, version "4"."""
        alerts = frozenset((alert["annotations"]["alert_id"], alert["status"]) for alert in payload["alerts"])
        return cls(key, payload["groupKey"], payload["notification_reason"], alerts)


def keys_of(messages: Sequence[Told]) -> dict[Member, set[str]]:
    """Under which keys it was told."""
    keys: dict[Member, set[str]] = {}
    for told in messages:
        for member in told.alerts:
            keys.setdefault(member, set()).add(told.key)
    return keys


def wrong_messages(
    receiver: str,
    messages: Sequence[Told],
    names: Mapping[str, str],
    superseded: Mapping[str, frozenset[Member]],
    is_alone: Callable[[str], bool],
) -> Iterator[str]:
    """Which rules the messages to one receiver break, in the order in which they came.

    A key stands for one message; each message of a group has news; an alert that is alone in its group is told under
    one key. `names`: of alerts, for the reader; `superseded`: as superseded_messages; `is_alone`: of an alert's id.
    """
    by_key: dict[str, Told] = {}
    for told in messages:
        if by_key.setdefault(told.key, told) != told:
            yield f"{receiver}: key {told.key} stands for several messages"
    not_heard = frozenset(chain.from_iterable(superseded.values()))
    yield from _without_news(receiver, list(by_key.values()), names, not_heard)
    for (alert_id, state), keys in sorted(keys_of(list(by_key.values())).items()):
        # A group says again what goes on in it, and what is over as long as it was not known to be heard.
        if is_alone(alert_id) and len(keys - superseded.keys()) > 1:
            yield f"{receiver}: {names.get(alert_id, alert_id)} {state} under {len(keys)} keys"


def _without_news(
    receiver: str, messages: Sequence[Told], names: Mapping[str, str], not_heard: frozenset[Member]
) -> Iterator[str]:
    """Each message of a group has something that those before it have not, and nothing ends before it began, but for
    what a message told that the next one superseded."""
    before: dict[str, set[Member]] = {}
    for told in messages:
        seen = before.setdefault(told.group, set())
        if not told.alerts - seen:
            yield f"{receiver}: {told.group} is told the same again as {told.reason!r}, key {told.key}"
        for alert_id, state in told.alerts:
            name = names.get(alert_id, alert_id)
            if state == "firing" and (alert_id, "resolved") in seen:
                yield f"{receiver}: {name} fires after its end"
            if state == "resolved" and (alert_id, "firing") not in seen | not_heard:
                yield f"{receiver}: {name} is over, and was never told to fire"
        seen |= told.alerts


def superseded_messages(store: Store) -> dict[str, frozenset[Member]]:
    """What messages told, by key, that were not known to be taken when the next one of their group told what holds in
    their place."""
    columns = NotificationRow.idempotency_key, NotificationRow.payload
    with store.engine.connect() as connection:
        found = connection.execute(select(*columns).where(NotificationRow.status.not_in(("pending", "delivered"))))
        return {
            key: frozenset((alert["alert_id"], alert["state"]) for alert in payload.get("alerts", [payload]))
            for key, payload in found
        }


__all__ = ["Member", "Told", "keys_of", "superseded_messages", "wrong_messages"]
