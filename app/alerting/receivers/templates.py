"""A receiver's own messages: JSON whose strings are filled in with what the alerts tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from app.alerting.payload import read_template, templated_payload
from app.alerting.receivers.news import News
from app.alerting.receivers.settings import Receiver
from app.alerting.text import plain
from app.errors import ConfigError, ConfigProblem

PARTS_OF_MAIL = ("html", "subject", "text")


class TemplateError(ValueError):
    """A template that cannot be filled in: where, and why."""


class Template(Protocol):
    """What a file says."""

    def filled(self, news: News) -> Any:
        """JSON for a message; raises TemplateError."""
        ...


@dataclass(frozen=True)
class PlainTemplate:
    """JSON with `{name}` inside its strings."""

    content: Any
    escape: Callable[[str], str]

    def filled(self, news: News) -> Any:
        """Values enter as text of a string, so that they can change nothing else."""
        fields = {
            name: self.escape(plain(value)) if isinstance(value, str) else value
            for name, value in news.fields().items()
        }
        return templated_payload(self.content, fields)


def template_of(receiver: Receiver, key: str, escape: Callable[[str], str]) -> Template:
    """The template of a receiver; raises ConfigError naming the key."""
    assert receiver.template is not None, "asked of receivers that have one"
    content = read_template(receiver.template, f"{key}.template")
    if receiver.kind != "webhook" and not isinstance(content, dict):
        found = f"JSON that is no object: {plain(content)[:40]!r}"
        expected = "an object with the parts of the message that are otherwise"
        raise ConfigError(str(receiver.template), (ConfigProblem(f"{key}.template", found, expected),))
    if receiver.kind == "email":
        _check_parts(content, receiver, key)
    return PlainTemplate(content, escape)


def _check_parts(content: dict[str, Any], receiver: Receiver, key: str) -> None:
    unknown = sorted(content.keys() - set(PARTS_OF_MAIL))
    if unknown:
        problem = ConfigProblem(f"{key}.template", ", ".join(map(plain, unknown)), "subject, text and html")
        raise ConfigError(str(receiver.template), (problem,))


__all__ = ["PlainTemplate", "Template", "TemplateError", "template_of"]
