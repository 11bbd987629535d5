"""Where an alert's messages lead to: the dashboard, and pages of other programs as the configuration names them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from app.alerting.notices import Snapshot
from app.alerting.payload import began_ms, labels_of
from app.alerting.text import cut, one_line

MAX_URL_CHARS = 2_000
MAX_RUNBOOK_CHARS = 10_000

_PLACE = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BARE = re.compile(r"[A-Za-z0-9_./:@%+=-]{1,200}")
"""What a shell takes as it stands."""
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*(?=\n)")
_NO_QUOTES_BEHIND = re.compile(r"""['"]|\\\Z|<<|\b(?:ssh|pdsh|eval|sh|bash|su|watch)\b[^\n]*\Z""")
"""Other quotes, a backslash, documents inside of scripts, and what hands its arguments to a second shell."""
_ID_FORMS = {
    "application": re.compile(r"application_[0-9]{1,20}_[0-9]{1,10}"),
    "application_id": re.compile(r"application_[0-9]{1,20}_[0-9]{1,10}"),
    "job": re.compile(r"job_[0-9]{1,20}_[0-9]{1,10}"),
    "job_id": re.compile(r"job_[0-9]{1,20}_[0-9]{1,10}"),
}
"""Ids that others choose too lead nowhere unless they have Hadoop's form."""


@dataclass(frozen=True)
class Links:
    """How links are made; `templates` by name, with `{name}` for labels, values and times of the alert."""

    external_url: str
    templates: Mapping[str, str] = field(default_factory=dict)
    runbook_url: str | None = None

    @property
    def alerts(self) -> str:
        """The page with all alerts."""
        return f"{self.external_url.rstrip('/')}/alerts"

    def alert(self, alert: Snapshot) -> str:
        """The page of an alert."""
        return f"{self.external_url.rstrip('/')}/alert?id={quote(alert.alert_id, safe='')}"

    def others(self, alert: Snapshot) -> dict[str, str]:
        """The links of the configuration by name, those for which the alert has all that they need."""
        if not self.templates and self.runbook_url is None:
            return {}
        values = values_of(alert)
        made = {name: _url(template, values) for name, template in self.templates.items()}
        made["runbook"] = None if self.runbook_url is None else _url(self.runbook_url, values)
        return {name: url for name, url in made.items() if url is not None}

    def annotations(self, alert: Snapshot) -> dict[str, str]:
        """The same as annotations: `runbook_url`, and `link_NAME`."""
        return {
            "runbook_url" if name == "runbook" else f"link_{name}": url
            for name, url in sorted(self.others(alert).items())
        }


def values_of(alert: Snapshot) -> dict[str, object]:
    """What links and runbooks may name."""
    return {
        **alert.values,
        **labels_of(alert),
        **alert.key,
        "query": alert.query,
        "alert_id": alert.alert_id,
        "start_ms": began_ms(alert),
        "end_ms": max(alert.end_ms, began_ms(alert)),
    }


def runbook_of(alert: Snapshot) -> str:
    """The runbook's text with the alert's own values in place of `{name}`.

    It holds commands to copy: a value that a shell would not take as one plain word is quoted, on one line, and the
    placeholder stays where quotes would not hold.
    """
    values, runbook = values_of(alert), alert.runbook

    def filled(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if value is None:
            return match[0]
        text = cut(one_line(str(value)), 200)
        if text.startswith("-"):  # quoted or not, it would be an option
            return match[0]
        if _BARE.fullmatch(text):
            return text
        return shlex.quote(text) if _can_be_quoted(runbook[: match.start()]) else match[0]

    return cut(_PLACE.sub(filled, runbook), MAX_RUNBOOK_CHARS)


def _can_be_quoted(before: str) -> bool:
    """Whether quotes hold behind this text: apostrophes of prose cannot be told from quotes that are open.

    What counts is the block of code, or else the paragraph.
    """
    fences = list(_FENCE.finditer(before))
    begins = fences[-1].end() if len(fences) % 2 else max((blank.end() for blank in _BLANK.finditer(before)), default=0)
    return not _NO_QUOTES_BEHIND.search(before, begins)


def link_names(template: str) -> frozenset[str]:
    """What a link needs of an alert."""
    return frozenset(_PLACE.findall(template))


def _url(template: str, values: Mapping[str, object]) -> str | None:
    """None: the alert lacks something that the link needs, or has an id of another form."""
    for name in link_names(template):
        value, form = values.get(name), _ID_FORMS.get(name)
        if value is None or not str(value).strip(".") or (form is not None and not form.fullmatch(str(value))):
            return None
    url = _PLACE.sub(lambda match: quote(str(values[match[1]]), safe="", errors="replace"), template)
    return url if len(url) <= MAX_URL_CHARS else None


__all__ = ["Links", "link_names", "runbook_of", "values_of"]
