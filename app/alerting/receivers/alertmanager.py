"""An Alertmanager that groups and tells itself: alerts are pushed to its API v2, again and again while they fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.alerting.links import Links, runbook_of
from app.alerting.notices import Snapshot
from app.alerting.payload import annotations_of, began_ms, labels_of
from app.alerting.receivers.http import Http, http_of
from app.alerting.receivers.news import News
from app.alerting.receivers.service import Message, as_it_is, encoded
from app.alerting.receivers.settings import AlertmanagerReceiver
from app.alerting.receivers.webhook import address_of
from app.alerting.text import iso

PATH = "/api/v2/alerts"
N_MISSED = 4
"""So many messages may be missed until an alert is over to it, as with Prometheus."""


@dataclass(frozen=True, repr=False)
class Alertmanager:
    """Its API v2."""

    url: str
    http: Http
    resend_delay_ms: int

    escape = staticmethod(as_it_is)

    def message(self, news: News, own: Any | None) -> Message:  # noqa: ARG002  # it takes no template
        """The alerts, each with its end: where it was seen last, or when it is over unless it is told again."""
        return self._message(news.alerts, news.links, news.now_ms)

    def again(self, alerts: Sequence[Snapshot], news: News) -> Message:
        """The same of what still fires."""
        return self._message(alerts, news.links, news.now_ms)

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once."""
        return self.http.send(message, idempotency_key, timeout_s, ask=ask)

    def _message(self, alerts: Sequence[Snapshot], links: Links, now_ms: int) -> Message:
        until_ms = now_ms + N_MISSED * self.resend_delay_ms
        return Message(encoded([_pushed(alert, links, until_ms) for alert in alerts]), self.url)


def _pushed(alert: Snapshot, links: Links, until_ms: int) -> dict[str, Any]:
    starts_ms = began_ms(alert)
    ends_ms = max(alert.end_ms, starts_ms) if alert.state == "resolved" else until_ms
    annotations = {**annotations_of(alert), "runbook": runbook_of(alert), **links.annotations(alert)}
    return {
        "labels": {name: value for name, value in labels_of(alert).items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": iso(starts_ms),
        "endsAt": iso(ends_ms),
        "generatorURL": links.alert(alert),
    }


def alertmanager_of(key: str, receiver: AlertmanagerReceiver) -> Alertmanager:
    """Read its secrets; raises ConfigError."""
    url, headers, secrets = address_of(key, receiver.url, receiver)
    whole = url if url.rstrip("/").endswith(PATH) else f"{url.rstrip('/')}{PATH}"
    return Alertmanager(whole, http_of(key, receiver, headers, *secrets), receiver.resend_delay_ms)


__all__ = ["Alertmanager", "alertmanager_of"]
