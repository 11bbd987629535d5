"""What a message tells, as every kind of receiver reads it: one alert, or a group of alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from app.alerting.case import case_annotations
from app.alerting.dispatch.notice import GroupNotice, common, group_fields, group_payload, is_of_group, lone
from app.alerting.links import Links, runbook_of
from app.alerting.notices import Snapshot
from app.alerting.payload import began_ms, labels_of
from app.alerting.text import EXPECTATION_TEXTS, SHED_TEXT, at_least_one_text, cut, iso, plain
from app.severity import Severity

MAX_TOLD = 10
"""Alerts of a group that a text for people tells one by one."""


@dataclass(frozen=True)
class News:
    """What a message tells, at the time of the attempt."""

    receiver: str
    dedup_key: str
    """The same for all messages about one alert (the fingerprint of its labels), or about one group (its id); that of
    an alert of which was told before is also that of the incident that it has become part of."""
    idempotency_key: str
    """Of this message."""
    now_ms: int
    links: Links
    alerts: tuple[Snapshot, ...]
    """One at least; of a group what is news first."""
    group: GroupNotice | None = None
    """None: one alert by itself."""
    marked: str = field(default="")
    """Said before everything else: of a message that tries whether a receiver works."""

    @classmethod
    def of(cls, payload: Mapping[str, Any], dedup_key: str, key: str, receiver: str, now_ms: int, links: Links) -> News:
        """From the outbox; raises KeyError, TypeError or ValueError for anything else."""
        if not is_of_group(payload):
            alert = Snapshot.from_json(payload)
            return cls(receiver, alert.thread or dedup_key, key, now_ms, links, (alert,))
        notice = GroupNotice.from_json(payload)
        if not notice.alerts:
            raise ValueError("a group without alerts")
        return cls(receiver, dedup_key, key, now_ms, links, tuple(notice.alerts), notice)

    @cached_property
    def notice(self) -> GroupNotice:
        """The group; that of an alert by itself is its query and key."""
        return lone(self.alerts[0]) if self.group is None else self.group

    @property
    def is_resolved(self) -> bool:
        """Whether nothing that it tells of fires."""
        return self.n_firing == 0

    @property
    def status(self) -> str:
        """firing or resolved."""
        return "resolved" if self.is_resolved else "firing"

    @property
    def n_firing(self) -> int:
        """Of all alerts, those that are left out as well."""
        return self.notice.n_firing

    @property
    def n_resolved(self) -> int:
        """As n_firing."""
        return self.notice.n_resolved

    @property
    def n_left_out(self) -> int:
        """Alerts of the group that the message does not have."""
        return self.notice.n_left_out

    @property
    def is_alone(self) -> bool:
        """Whether it tells of one alert."""
        return len(self.alerts) == 1 and not self.n_left_out

    @cached_property
    def severity(self) -> Severity:
        """The highest among what fires; when nothing does, among all."""
        firing = [alert for alert in self.alerts if alert.state != "resolved"] or self.alerts
        return max((Severity(alert.severity) for alert in firing), key=lambda severity: severity.rank)

    @cached_property
    def common_labels(self) -> dict[str, str]:
        """Which all alerts have."""
        return self.notice.common_labels

    @property
    def url(self) -> str:
        """Of the page with the alert, or with all."""
        return self.links.alert(self.alerts[0]) if self.is_alone else self.links.alerts

    @property
    def began_ms(self) -> int:
        """When the first of them did."""
        return min(map(began_ms, self.alerts))

    def headline(self, max_chars: int) -> str:
        """One line: `critical: SUMMARY`, `resolved: SUMMARY`, `3 firing, 1 resolved: slow, host node5`."""
        first = self.alerts[0]
        if self.is_alone:
            return cut(f"{self.marked}{state_word(first)}: {plain(first.summary, 1_000)}", max_chars)
        told = [f"{n:,} {word}" for n, word in ((self.n_firing, "firing"), (self.n_resolved, "resolved")) if n]
        shared = self.notice.labels or {
            name: value for name, value in self.common_labels.items() if name == "alertname"
        }
        about = ", ".join(
            plain(value) if name == "alertname" else f"{name} {plain(value)}" for name, value in shared.items()
        )
        worst = "" if self.is_resolved else f"{self.severity.value}: "
        return cut(f"{self.marked}{worst}{', '.join(told)}{': ' if about else ''}{about}", max_chars)

    def told(self) -> tuple[Snapshot, ...]:
        """The alerts that a text for people tells one by one."""
        return self.alerts[:MAX_TOLD]

    @property
    def n_more(self) -> int:
        """How many further alerts there are."""
        return len(self.alerts) + self.n_left_out - len(self.told())

    def webhook(self) -> dict[str, Any]:
        """As Alertmanager's webhook tells it, version 4."""
        payload = group_payload(self.notice, self.receiver, self.links.external_url)
        for alert, entry in zip(self.alerts, payload["alerts"], strict=True):
            entry["annotations"] |= {"runbook": runbook_of(alert), **self.links.annotations(alert)}
        payload["commonAnnotations"] = common([entry["annotations"] for entry in payload["alerts"]])
        return payload

    def fields(self) -> dict[str, object]:
        """What `{name}` of templates may name."""
        fields = group_fields(self.notice, self.receiver, self.links.external_url)
        return {**(self.links.annotations(self.alerts[0]) if self.is_alone else {}), **fields}


def state_word(alert: Snapshot) -> str:
    """`resolved`, or how urgent what fires is."""
    return "resolved" if alert.state == "resolved" else plain(alert.severity)


_CASE_WORDS = {"incident_alerts": "alerts behind it", "incident_for": "for it", "incident_against": "against it"}
_NOT_FACTS = frozenset({"alertname", "severity", "host"})


def facts_of(alert: Snapshot) -> Iterator[tuple[str, str]]:
    """What stands below the summary of an alert: names and values of one line."""
    for role in ("suspect", "affected"):
        hosts = [plain(named[0]) for named in alert.hosts if named[1] == role]
        if hosts:
            yield ("host" if role == "suspect" else "affected"), ", ".join(hosts[:5])
    labels = labels_of(alert)
    if not alert.hosts and "host" in labels:
        yield "host", plain(labels["host"])
    for name, value in labels.items():
        if name not in _NOT_FACTS:
            yield plain(name), plain(value)
    if alert.incident is not None:
        for name, text in case_annotations(alert.incident).items():
            if name != "incident_alert_ids":
                yield _CASE_WORDS[name], text
    yield "began", iso(began_ms(alert))
    if alert.state == "resolved":
        yield "last seen", iso(alert.end_ms)
    yield "query", plain(alert.query)
    if alert.expectation:
        yield "numbers", EXPECTATION_TEXTS[alert.expectation]
    else:
        yield "at least one match", at_least_one_text(alert)
    if alert.shed:
        yield "matches", SHED_TEXT


__all__ = ["MAX_TOLD", "News", "facts_of", "state_word"]
