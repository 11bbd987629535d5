"""A receiver's own messages: JSON whose strings are filled in with what the alerts tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.alerting.payload import read_template, templated_payload
from app.alerting.receivers.news import News
from app.alerting.receivers.settings import Receiver
from app.alerting.receivers.template_values import Escapes
from app.alerting.text import plain
from app.errors import ConfigError, ConfigProblem

PARTS_OF_MAIL = ("html", "subject", "text")


class Template(Protocol):
    """What a file says."""

    def filled(self, news: News) -> Any:
        """JSON for a message; raises TemplateError."""
        ...


@dataclass(frozen=True)
class PlainTemplate:
    """JSON with `{name}` inside its strings."""

    content: Any
    escapes: Escapes

    def filled(self, news: News) -> Any:
        """Values enter as text of a string, so that they can change nothing else."""
        fields = news.fields()
        filled = templated_payload(self.content, _escaped(fields, self.escapes.everywhere))
        for part in self.escapes.by_part.keys() & (filled.keys() if isinstance(filled, dict) else ()):
            filled[part] = templated_payload(self.content[part], _escaped(fields, self.escapes.of(part)))
        return filled


def _escaped(fields: Mapping[str, object], escape: Callable[[str], str]) -> dict[str, object]:
    """Numbers stay numbers, for their formats; whatever else a value is, its text is escaped."""
    return {
        name: value if value is None or isinstance(value, bool | int | float) else escape(plain(value))
        for name, value in fields.items()
    }


def template_of(receiver: Receiver, key: str, escapes: Escapes) -> Template:
    """The template of a receiver, in Jinja where its file's name ends with .j2; raises ConfigError naming the key."""
    assert receiver.template is not None, "asked of receivers that have one"
    content = read_template(receiver.template, f"{key}.template")
    if receiver.kind != "webhook" and not isinstance(content, dict):
        found = f"JSON that is no object: {plain(content)[:40]!r}"
        expected = "an object with the parts of the message that are otherwise"
        raise ConfigError(str(receiver.template), (ConfigProblem(f"{key}.template", found, expected),))
    if receiver.kind == "email":
        _check_parts(content, receiver, key)
    if receiver.template.suffix == ".j2":
        from app.alerting.receivers.jinja import jinja_template  # it is loaded where it is used

        return jinja_template(content, receiver.template, f"{key}.template", escapes)
    return PlainTemplate(content, escapes)


def _check_parts(content: dict[str, Any], receiver: Receiver, key: str) -> None:
    unknown = sorted(content.keys() - set(PARTS_OF_MAIL))
    if unknown:
        problem = ConfigProblem(f"{key}.template", ", ".join(map(plain, unknown)), "subject, text and html")
        raise ConfigError(str(receiver.template), (problem,))


__all__ = ["PlainTemplate", "Template", "template_of"]
