"""PagerDuty's Events API, version 2: an incident by dedup_key, triggered and resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.alerting.links import runbook_of
from app.alerting.payload import annotations_of, labels_of
from app.alerting.receivers.errors import TemplateError
from app.alerting.receivers.http import Http, checked_url, http_of, secret_of
from app.alerting.receivers.news import News, facts_of, state_word
from app.alerting.receivers.service import Message, as_it_is, encoded, with_own
from app.alerting.receivers.settings import PagerDutyReceiver
from app.alerting.text import cut, iso, plain

MAX_SUMMARY_CHARS = 1_024
MAX_BYTES = 512_000
"""Of a message: larger ones go without their details."""
MAX_CLIENT_CHARS = 255
_FIXED = ("routing_key", "event_action", "dedup_key")


@dataclass(frozen=True, repr=False)
class PagerDuty:
    """An integration of a service."""

    url: str
    http: Http
    routing_key: str
    component: str | None
    group: str | None
    class_: str | None

    escape = staticmethod(as_it_is)

    def message(self, news: News, own: Any | None) -> Message:
        """Trigger while something fires, else resolve; raises TemplateError when what a template gives is too much."""
        event: dict[str, Any] = {
            "routing_key": self.routing_key,
            "event_action": "resolve" if news.is_resolved else "trigger",
            "dedup_key": news.dedup_key,
        }
        if news.is_resolved:
            return Message(encoded(event), self.url)
        event |= {"payload": self._payload(news), "client": "clustercep", "client_url": news.url, "links": _links(news)}
        own_payload = own.get("payload") if isinstance(own, dict) else None
        event = with_own(event, own, fixed=(*_FIXED, "payload"))
        event["payload"] = with_own(event["payload"], own_payload)
        event["payload"]["summary"] = cut(str(event["payload"]["summary"]) or "alert", MAX_SUMMARY_CHARS)
        body = encoded(event)
        if len(body) > MAX_BYTES:
            event["payload"]["custom_details"] = {"truncated": f"the details were more than {MAX_BYTES:,} bytes"}
            body = encoded(event)
        if len(body) > MAX_BYTES and own is not None:
            raise TemplateError(f"a message of {len(body):,} bytes without its details; PagerDuty takes {MAX_BYTES:,}")
        return Message(body, self.url)

    def _payload(self, news: News) -> dict[str, Any]:
        first = news.alerts[0]
        source = news.common_labels.get("host") or labels_of(first).get("host") or news.common_labels.get("job")
        given = {
            "component": self.component or news.common_labels.get("job"),
            "group": self.group or news.common_labels.get("queue"),
            "class": self.class_ or news.common_labels.get("alertname"),
        }
        return {
            "summary": news.headline(MAX_SUMMARY_CHARS),
            "source": plain(source or "clustercep"),
            "severity": news.severity.value,
            "timestamp": iso(news.began_ms),
            **{name: plain(value) for name, value in given.items() if value},
            "custom_details": _details(news),
        }

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once."""
        return self.http.send(message, idempotency_key, timeout_s, ask=ask)


def _details(news: News) -> dict[str, Any]:
    if news.is_alone:
        alert = news.alerts[0]
        annotations = {name: value for name, value in annotations_of(alert).items() if name != "runbook"}
        return {**annotations, **dict(facts_of(alert)), "runbook": runbook_of(alert)}
    told = [f"{state_word(alert)}: {plain(alert.summary, 1_000)}" for alert in news.alerts]
    return {
        "firing": news.n_firing,
        "resolved": news.n_resolved,
        "labels": news.common_labels,
        "alerts": told,
        **({"left_out": news.n_left_out} if news.n_left_out else {}),
    }


def _links(news: News) -> list[dict[str, str]]:
    found = [{"href": news.url, "text": "dashboard"}]
    if news.is_alone:
        found += [{"href": url, "text": name} for name, url in news.links.others(news.alerts[0]).items()]
    return found


def pagerduty_of(key: str, receiver: PagerDutyReceiver) -> PagerDuty:
    """Read its secrets; raises ConfigError."""
    routing_key = secret_of(key, "routing_key", receiver.routing_key, receiver.routing_key_file)
    url = checked_url(receiver.url, f"{key}.url", shown=True)
    http = http_of(key, receiver, {}, routing_key)
    return PagerDuty(url, http, routing_key, receiver.component, receiver.group, receiver.class_)


__all__ = ["PagerDuty", "pagerduty_of"]
