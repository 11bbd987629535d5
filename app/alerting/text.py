"""Texts for people: summaries from templates, runbook paragraphs; everything filled in is hostile plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

MAX_VALUE_CHARS = 200
MAX_SUMMARY_CHARS = 1_000

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$")


def fill(template: str, values: Mapping[str, object], max_chars: int = MAX_SUMMARY_CHARS) -> str:
    """`template` with `{name}` replaced by `values[name]`.

    One pass: braces inside values stay as they are. A name without a value stays visible as `{name}`. Values are
    stripped of control characters and cut, as is the result.
    """

    def value_of(match: re.Match[str]) -> str:
        return plain(values[match[1]]) if match[1] in values else match[0]

    return cut(PLACEHOLDER.sub(value_of, one_line(template)), max_chars)


def placeholders(template: str) -> frozenset[str]:
    """The names a template needs."""
    return frozenset(PLACEHOLDER.findall(template))


def plain(value: object, max_chars: int = MAX_VALUE_CHARS) -> str:
    """A value as one short line without control characters."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}"
    return cut(one_line(str(value)), max_chars)


def one_line(text: str) -> str:
    """Unprintable characters (line ends, escapes, direction marks) become spaces."""
    return "".join(c if c.isprintable() else " " for c in text)


def cut(text: str, max_chars: int) -> str:
    """At most `max_chars` characters, with an ellipsis when something is missing."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def runbook_sections(markdown: str) -> dict[str, str]:
    """Text below each heading of a runbook, by heading; the heading is the query's name."""
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in markdown.splitlines():
        heading = _HEADING.match(line)
        if heading:
            current = sections.setdefault(heading[1].strip("`"), [])
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in sections.items()}


def iso(time_ms: int) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
