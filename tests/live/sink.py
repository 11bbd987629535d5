"""A webhook receiver that keeps every delivery, also those that come again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.replay import webhook_sink


def now_ms() -> int:
    """Wall clock in ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Delivery:
    """One request."""

    received_ms: int
    key: str
    """Its Idempotency-Key."""
    payload: dict[str, Any]

    @property
    def alert_id(self) -> str:
        """The alert it tells of."""
        return str(self.payload["alerts"][0]["annotations"]["alert_id"])

    @property
    def status(self) -> str:
        """firing or resolved."""
        return str(self.payload["status"])


@dataclass
class Deliveries:
    """What came, in order."""

    url: str = ""
    received: list[Delivery] = field(default_factory=list)

    def first(self, alert_id: str) -> Delivery | None:
        """The first that told of the alert."""
        return next((delivery for delivery in list(self.received) if delivery.alert_id == alert_id), None)


@contextmanager
def listening() -> Iterator[Deliveries]:
    """Answer on a free port of loopback."""
    deliveries = Deliveries()

    def take(key: str, payload: dict[str, Any]) -> None:
        deliveries.received.append(Delivery(now_ms(), key, payload))

    with webhook_sink.listening(take) as deliveries.url:
        yield deliveries
