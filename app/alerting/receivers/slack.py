"""Slack's incoming webhooks.

What comes from the cluster is shown as plain text: `&`, `<` and `>` are the only characters that begin a mention or a
link there (escaping text, Slack's reference of message formatting), and nothing is marked as mrkdwn. What is compatible
with it finds mentions and links of Markdown in texts itself: a space without width keeps `@` and `](` from being one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.alerting.receivers.http import Http, checked_url, http_of, secret_of
from app.alerting.receivers.news import News, facts_of, state_word
from app.alerting.receivers.service import Message, encoded, with_own
from app.alerting.receivers.settings import SlackReceiver
from app.alerting.text import cut, plain

MAX_TITLE_CHARS = 1_024
MAX_TEXT_CHARS = 3_000
MAX_FIELDS = 20
MAX_FIELD_CHARS = 300
SHORT_CHARS = 40
_COLORS = {"critical": "#a30200", "warning": "#daa038", "info": "#439fe0", "resolved": "#2eb886"}


def escaped(text: str) -> str:
    """Plain text in Slack's form."""
    return _entities(_inert(text))


def _inert(text: str) -> str:
    return text.replace("@", "@\u200b").replace("](", "]\u200b(")


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, max_chars: int) -> str:
    """Escaped text of at most so many characters, of which none is half of an escape."""
    return _cut_entities(_inert(text), max_chars)


def _cut_entities(text: str, max_chars: int) -> str:
    told = _entities(text)
    if len(told) <= max_chars:
        return told
    parts, n_chars = [], 1
    for char in text:
        part = _entities(char)
        n_chars += len(part)
        if n_chars > max_chars:
            break
        parts.append(part)
    return "".join(parts) + "…"


@dataclass(frozen=True, repr=False)
class Slack:
    """An incoming webhook."""

    url: str
    http: Http
    channel: str | None
    username: str | None
    icon_emoji: str | None

    escape = staticmethod(escaped)

    def message(self, news: News, own: Any | None) -> Message:
        """An attachment with the headline, what it is about, and links."""
        given = {"channel": self.channel, "username": self.username, "icon_emoji": self.icon_emoji}
        content: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if not isinstance(own, dict) or "attachments" not in own:
            content["attachments"] = [self._attachment(news)]
        return Message(encoded(with_own(content, own)), self.url)

    def _attachment(self, news: News) -> dict[str, Any]:
        title = _cut(news.headline(MAX_TITLE_CHARS), MAX_TITLE_CHARS)
        attachment: dict[str, Any] = {
            "fallback": title,
            "title": title,
            "title_link": news.url,
            "color": _COLORS["resolved" if news.is_resolved else news.severity.value],
            "footer": "clustercep",
            "ts": news.began_ms // 1000,
            "mrkdwn_in": [],
        }
        if news.is_alone:
            alert = news.alerts[0]
            attachment["fields"] = [
                {"title": _cut(name, 100), "value": _cut(value, MAX_FIELD_CHARS), "short": len(value) <= SHORT_CHARS}
                for name, value in list(facts_of(alert))[:MAX_FIELDS]
            ]
            links = news.links.others(alert)
            attachment["text"] = "\n".join(
                f"{escaped(name)}: {_cut_entities(url, 2_000)}" for name, url in links.items()
            )
        else:
            lines = [f"• {_cut(f'{state_word(alert)}: {plain(alert.summary)}', 280)}" for alert in news.told()]
            attachment["text"] = "\n".join([*lines, *([f"and {news.n_more:,} more"] if news.n_more else [])])
        attachment["text"] = cut(attachment["text"], MAX_TEXT_CHARS)
        return attachment

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once."""
        return self.http.send(message, idempotency_key, timeout_s, ask=ask)


def slack_of(key: str, receiver: SlackReceiver) -> Slack:
    """Read its secrets; raises ConfigError."""
    url = checked_url(secret_of(key, "url", receiver.url, receiver.url_file), f"{key}.url")
    return Slack(url, http_of(key, receiver, {}, url), receiver.channel, receiver.username, receiver.icon_emoji)


__all__ = ["Slack", "slack_of"]
