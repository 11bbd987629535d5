"""What is told of a group: the content of its message in the outbox, and the bodies that are made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.alerting.notices import Snapshot
from app.alerting.payload import alert_payload, annotations_of, began_ms, fingerprint, labels_of, template_fields
from app.alerting.text import iso

MAX_ALERTS = 1_000
"""Of one message; how many more there are stands in it."""
MAX_NAMED = 5
"""Alerts whose summaries a text names."""


class Reason(StrEnum):
    """Why a message is written, in Alertmanager's words (`notification_reason`)."""

    FIRST = "first notification"
    NEW = "new alerts added"
    SOME_RESOLVED = "some alerts resolved"
    ALL_RESOLVED = "all alerts resolved"
    REPEAT = "repeat interval elapsed"


@dataclass(frozen=True)
class GroupNotice:
    """A group at the time of a message."""

    key: str
    labels: dict[str, str]
    """By which its alerts are together."""
    common_labels: dict[str, str]
    """Which all alerts have, those that are left out as well."""
    reason: str
    alerts: list[Snapshot]
    n_firing: int
    """Of all alerts, as n_resolved."""
    n_resolved: int
    n_left_out: int = 0
    route_labels: dict[str, str] = field(default_factory=dict)
    """What the route says of itself."""

    @property
    def status(self) -> str:
        """firing while one of them does."""
        return "firing" if self.n_firing else "resolved"

    def as_json(self) -> dict[str, Any]:
        """For the outbox."""
        return {
            "group": {
                "key": self.key,
                "labels": self.labels,
                "common_labels": self.common_labels,
                "reason": self.reason,
                "n_firing": self.n_firing,
                "n_resolved": self.n_resolved,
                "n_left_out": self.n_left_out,
                **({"route_labels": self.route_labels} if self.route_labels else {}),
            },
            "alerts": [alert.as_json() for alert in self.alerts],
        }

    @classmethod
    def from_json(cls, payload: Mapping[str, Any]) -> GroupNotice:
        """From the outbox; raises KeyError or TypeError for anything else."""
        group, alerts = payload["group"], [Snapshot.from_json(alert) for alert in payload["alerts"]]
        n_resolved = sum(alert.state == "resolved" for alert in alerts)
        # Messages of versions that did not count: what they left out was said to fire.
        counted = {"n_firing": len(alerts) - n_resolved + group["n_left_out"], "n_resolved": n_resolved}
        return cls(**{**counted, **group}, alerts=alerts)


def lone(alert: Snapshot) -> GroupNotice:
    """The group of an alert that is told by itself: its query and key."""
    labels, resolved = labels_of(alert), alert.state == "resolved"
    group_labels = {name: labels[name] for name in ("alertname", *sorted(alert.key)) if name in labels}
    return GroupNotice(
        key=f"{{}}:{json.dumps(group_labels, sort_keys=True)}",
        labels=group_labels,
        common_labels=labels,
        reason=(Reason.ALL_RESOLVED if resolved else Reason.FIRST).value,
        alerts=[alert],
        n_firing=int(not resolved),
        n_resolved=int(resolved),
    )


def is_of_group(payload: Mapping[str, Any]) -> bool:
    """Whether the content of a message is that of a group."""
    return "group" in payload and "alerts" in payload


def common(mappings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all have with the same value."""
    if not mappings:
        return {}
    first, *others = mappings
    shared = dict(first)
    for other in others:
        if not shared:
            break
        shared = {name: value for name, value in shared.items() if other.get(name) == value}
    return shared


def group_payload(notice: GroupNotice, receiver: str, external_url: str) -> dict[str, Any]:
    """A group as an Alertmanager webhook notification, version "4"."""
    return {
        "version": "4",
        "groupKey": notice.key,
        "truncatedAlerts": notice.n_left_out,
        "status": notice.status,
        "receiver": receiver,
        "groupLabels": notice.labels,
        "commonLabels": notice.common_labels,
        "commonAnnotations": common([annotations_of(alert) for alert in notice.alerts]),
        "routeLabels": notice.route_labels,
        "externalURL": external_url,
        "notification_reason": notice.reason,
        "alerts": [alert_payload(alert, external_url) for alert in notice.alerts],
    }


def group_fields(notice: GroupNotice, receiver: str, external_url: str) -> dict[str, object]:
    """The names that templates of single alerts may use, of a group: of one alert all, of several what they share.

    `summary` names the first few, `url` leads to the list of alerts; `state` is the group's.
    """
    if len(notice.alerts) == 1 and not notice.n_left_out:
        return {**_counts(notice), **template_fields(notice.alerts[0], receiver, external_url), **_unmistakable(notice)}
    by_alert = [template_fields(alert, receiver, external_url) for alert in notice.alerts]
    first, *others = by_alert
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    return {
        **_counts(notice),
        **shared,
        **_unmistakable(notice),
        "summary": _summary(notice),
        "state": notice.status,
        "severity": max((alert.severity for alert in notice.alerts), key=_URGENCY.index),
        "start": iso(min(map(began_ms, notice.alerts))),
        "end": iso(max(alert.end_ms for alert in notice.alerts)),
        "fingerprint": fingerprint({**notice.labels, "": notice.key}),
        "receiver": receiver,
        "url": f"{external_url.rstrip('/')}/alerts",
    }


_URGENCY = ("info", "warning", "critical")


def _counts(notice: GroupNotice) -> dict[str, object]:
    return {
        "n_alerts": len(notice.alerts) + notice.n_left_out,
        "n_resolved": notice.n_resolved,
        "n_firing": notice.n_firing,
        "reason": notice.reason,
    }


def _unmistakable(notice: GroupNotice) -> dict[str, object]:
    """Names of the message that no value takes, as `reason` is one of shipped queries, too."""
    return {"notification_reason": notice.reason}


def _summary(notice: GroupNotice) -> str:
    counts = _counts(notice)
    told = [f"{counts['n_firing']} firing"] if counts["n_firing"] else []
    told += [f"{counts['n_resolved']} resolved"] if counts["n_resolved"] else []
    named = [alert.summary for alert in notice.alerts[:MAX_NAMED]]
    n_more = len(notice.alerts) + notice.n_left_out - len(named)
    more = f"; and {n_more} more" if n_more else ""
    return f"{', '.join(told)}: {'; '.join(named)}{more}"


__all__ = ["MAX_ALERTS", "GroupNotice", "Reason", "common", "group_fields", "group_payload", "is_of_group", "lone"]
