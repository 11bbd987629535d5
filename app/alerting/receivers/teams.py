"""Microsoft Teams: a workflow that posts the adaptive card it is sent.

Text of the cluster stands in text runs, which know no Markdown and no mentions; text blocks do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.alerting.receivers.errors import TemplateError
from app.alerting.receivers.http import Http, checked_url, http_of, secret_of
from app.alerting.receivers.news import News, facts_of, state_word
from app.alerting.receivers.service import Message, encoded, with_own
from app.alerting.receivers.settings import TeamsReceiver
from app.alerting.text import cut, plain

MAX_BYTES = 28_000
"""Of a message; larger ones are refused."""
MAX_TITLE_CHARS = 500
MAX_LINE_CHARS = 300
_COLORS = {"critical": "attention", "warning": "warning", "info": "accent", "resolved": "good"}
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]()#+-.!<>|~"})


def escaped(text: str) -> str:
    """Plain text inside a text block, which is Markdown."""
    return text.translate(_MARKDOWN)


@dataclass(frozen=True, repr=False)
class Teams:
    """A workflow with the trigger for webhook requests."""

    url: str
    http: Http

    escape = staticmethod(escaped)

    def message(self, news: News, own: Any | None) -> Message:
        """A card with the headline, what it is about, and links; of many alerts as many as there is room for.

        Raises TemplateError when there is no room for what the template gives.
        """
        n_lines = 1_000
        while True:
            body = encoded(with_own(self._content(news, n_lines), own, fixed=("type",)))
            if len(body) <= MAX_BYTES or (n_lines == 0 and own is None):
                return Message(body, self.url)
            if n_lines == 0:
                raise TemplateError(f"a message of {len(body):,} bytes; Teams takes {MAX_BYTES:,}")
            n_lines = min(n_lines, 32) // 2

    def _content(self, news: News, n_lines: int) -> dict[str, Any]:
        color = _COLORS["resolved" if news.is_resolved else news.severity.value]
        headline = news.headline(MAX_TITLE_CHARS)
        body: list[dict[str, Any]] = [_text(headline, weight="bolder", size="medium", color=color)]
        actions = [{"type": "Action.OpenUrl", "title": "Dashboard", "url": news.url}]
        if news.is_alone:
            facts = list(facts_of(news.alerts[0]))[:n_lines]
            body += [_text(cut(f"{name}: {value}", MAX_LINE_CHARS)) for name, value in facts]
            links = list(news.links.others(news.alerts[0]).items())[: min(n_lines, 5)]
            actions += [{"type": "Action.OpenUrl", "title": name, "url": url} for name, url in links]
        else:
            told = news.told()[:n_lines]
            body += [_text(cut(f"{state_word(alert)}: {plain(alert.summary)}", MAX_LINE_CHARS)) for alert in told]
            n_more = news.n_more + len(news.told()) - len(told)
            body += [_text(f"and {n_more:,} more")] if n_more else []
        card = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.2",
            "body": body,
            "actions": actions,
            "msteams": {"width": "Full"},
        }
        attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
        return {"type": "message", "summary": headline, "attachments": [attachment]}

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once."""
        return self.http.send(message, idempotency_key, timeout_s, ask=ask)


def _text(text: str, **form: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **form}]}


def teams_of(key: str, receiver: TeamsReceiver) -> Teams:
    """Read its secrets; raises ConfigError."""
    url = checked_url(secret_of(key, "url", receiver.url, receiver.url_file), f"{key}.url")
    return Teams(url, http_of(key, receiver, {}, url))


__all__ = ["Teams", "teams_of"]
