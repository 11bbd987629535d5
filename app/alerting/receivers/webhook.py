"""Alertmanager's webhook, version 4, or JSON of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from app.alerting.receivers.http import Http, checked_header, checked_url, http_of, secret_of
from app.alerting.receivers.news import News
from app.alerting.receivers.service import Message, as_it_is, encoded
from app.alerting.receivers.settings import AlertmanagerReceiver, WebhookReceiver
from app.config import read_secret


@dataclass(frozen=True, repr=False)
class Webhook:
    """An address that takes JSON."""

    url: str
    http: Http

    escape = staticmethod(as_it_is)

    def message(self, news: News, own: Any | None) -> Message:
        """The alerts as Alertmanager tells them, or what the template gives."""
        return Message(encoded(news.webhook() if own is None else own), self.url)

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once."""
        return self.http.send(message, idempotency_key, timeout_s, ask=ask)


def webhook_of(key: str, receiver: WebhookReceiver) -> Webhook:
    """Read its secrets; raises ConfigError."""
    url, headers, secrets = address_of(key, receiver.url, receiver)
    return Webhook(url, http_of(key, receiver, headers, *secrets))


def address_of(
    key: str, value: SecretStr | None, receiver: WebhookReceiver | AlertmanagerReceiver
) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """(url, headers, secrets) of a receiver with an address and perhaps an authorization; raises ConfigError."""
    url = checked_url(secret_of(key, "url", value, receiver.url_file), f"{key}.url")
    authorization = read_secret(receiver.authorization, receiver.authorization_file, f"{key}.authorization_file")
    if authorization is None:
        return url, {}, (url,)
    name = "authorization" if receiver.authorization_file is None else "authorization_file"
    text = checked_header(authorization.get_secret_value(), f"{key}.{name}")
    return url, {"Authorization": text}, (url, text, *text.split()[1:])


__all__ = ["Webhook", "address_of", "webhook_of"]
