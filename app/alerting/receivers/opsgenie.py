"""Opsgenie's Alert API: an alert by its alias, created and closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.alerting.links import runbook_of
from app.alerting.payload import annotations_of, labels_of
from app.alerting.receivers.http import Http, checked_header, checked_url, http_of, secret_of
from app.alerting.receivers.news import News, facts_of, state_word
from app.alerting.receivers.service import Message, as_it_is, encoded, with_own
from app.alerting.receivers.settings import OpsgenieReceiver
from app.alerting.text import cut, plain

MAX_MESSAGE_CHARS = 130
MAX_DESCRIPTION_CHARS = 15_000
MAX_DETAILS_CHARS = 8_000
"""Of all names and values together."""
MAX_SOURCE_CHARS = 100
MAX_ENTITY_CHARS = 512
MAX_NOTE_CHARS = 25_000
_PRIORITIES = {"critical": "P1", "warning": "P3", "info": "P5"}
_FIXED = ("alias",)


@dataclass(frozen=True, repr=False)
class Opsgenie:
    """An integration of the kind API."""

    url: str
    http: Http
    responders: tuple[tuple[tuple[str, str], ...], ...]
    tags: tuple[str, ...]

    escape = staticmethod(as_it_is)

    def message(self, news: News, own: Any | None) -> Message:
        """Create while something fires, else close."""
        alias = quote(news.dedup_key, safe="")
        if news.is_resolved:
            note = cut(news.headline(1_000), MAX_NOTE_CHARS)
            closing = {"source": "clustercep", "user": "clustercep", "note": note}
            return Message(encoded(closing), f"{self.url}/v2/alerts/{alias}/close?identifierType=alias")
        content: dict[str, Any] = {
            "message": news.headline(MAX_MESSAGE_CHARS),
            "alias": news.dedup_key,
            "description": _description(news),
            "source": "clustercep",
            "entity": cut(
                plain(news.common_labels.get("host") or news.common_labels.get("job") or ""), MAX_ENTITY_CHARS
            ),
            "priority": _PRIORITIES[news.severity.value],
            "tags": [*self.tags, "clustercep", news.severity.value],
            "details": _details(news),
        }
        if self.responders:
            content["responders"] = [dict(responder) for responder in self.responders]
        content = with_own(content, own, fixed=_FIXED)
        limits = {
            "message": MAX_MESSAGE_CHARS,
            "description": MAX_DESCRIPTION_CHARS,
            "source": MAX_SOURCE_CHARS,
            "entity": MAX_ENTITY_CHARS,
        }
        content |= {name: cut(str(content[name]), most) for name, most in limits.items() if name in content}
        return Message(encoded(content), f"{self.url}/v2/alerts")

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once."""
        return self.http.send(message, idempotency_key, timeout_s, ask=ask)


def _description(news: News) -> str:
    if news.is_alone:
        alert = news.alerts[0]
        facts = [f"{name}: {value}" for name, value in facts_of(alert)]
        links = [f"{name}: {url}" for name, url in news.links.others(alert).items()]
        parts = [plain(alert.summary, 1_000), "", *facts, "", f"dashboard: {news.url}", *links, "", runbook_of(alert)]
        return cut("\n".join(parts).strip(), MAX_DESCRIPTION_CHARS)
    lines = [f"{state_word(alert)}: {plain(alert.summary)}" for alert in news.told()]
    more = [f"and {news.n_more:,} more"] if news.n_more else []
    return cut("\n".join([*lines, *more, "", f"dashboard: {news.url}"]), MAX_DESCRIPTION_CHARS)


def _details(news: News) -> dict[str, str]:
    """Labels, and of one alert its values, as far as there is room."""
    known = dict(news.common_labels)
    if news.is_alone:
        annotations = annotations_of(news.alerts[0])
        known = {**labels_of(news.alerts[0]), **{name: text for name, text in annotations.items() if name != "runbook"}}
    told: dict[str, str] = {}
    n_left = MAX_DETAILS_CHARS
    for name, value in known.items():
        n_left -= len(name) + len(value)
        if n_left < 0:
            break
        told[name] = value
    return told


def opsgenie_of(key: str, receiver: OpsgenieReceiver) -> Opsgenie:
    """Read its secrets; raises ConfigError."""
    name = "api_key" if receiver.api_key_file is None else "api_key_file"
    api_key = checked_header(secret_of(key, "api_key", receiver.api_key, receiver.api_key_file), f"{key}.{name}")
    url = checked_url(receiver.url, f"{key}.url", shown=True).rstrip("/")
    responders = tuple(
        tuple((name, value) for name, value in responder.model_dump().items() if value is not None)
        for responder in receiver.responders
    )
    http = http_of(key, receiver, {"Authorization": f"GenieKey {api_key}"}, api_key)
    return Opsgenie(url, http, responders, receiver.tags)


__all__ = ["Opsgenie", "opsgenie_of"]
