"""What templates in Jinja know of a message: mappings, lists, texts and numbers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.alerting.links import Links, runbook_of
from app.alerting.notices import Snapshot
from app.alerting.payload import annotations_of, began_ms, fingerprint, labels_of, spread_of
from app.alerting.receivers.news import News
from app.alerting.text import iso, plain


def values_of_news(news: News) -> dict[str, Any]:
    """The names at the top; those of each alert are in `alerts`."""
    group = news.notice
    return {
        "status": news.status,
        "severity": news.severity.value,
        "headline": news.headline(1_000),
        "receiver": news.receiver,
        "url": news.url,
        "external_url": news.links.external_url,
        "dedup_key": news.dedup_key,
        "reason": group.reason,
        "notification_reason": group.reason,
        "group_labels": dict(group.labels),
        "common_labels": dict(news.common_labels),
        "route_labels": dict(group.route_labels),
        "n_alerts": len(news.alerts) + news.n_left_out,
        "n_firing": news.n_firing,
        "n_resolved": news.n_resolved,
        "n_left_out": news.n_left_out,
        "began_ms": news.began_ms,
        "alerts": [_alert(alert, news.links) for alert in news.alerts],
    }


def _alert(alert: Snapshot, links: Links) -> dict[str, Any]:
    labels = labels_of(alert)
    return {
        "status": "resolved" if alert.state == "resolved" else "firing",
        "query": plain(alert.query),
        "severity": plain(alert.severity),
        "summary": plain(alert.summary, 1_000),
        "labels": labels,
        "annotations": annotations_of(alert),
        "values": {name: _value(value) for name, value in alert.values.items()},
        "spread": {
            name: {aspect: _value(value) for aspect, value in found.items()} for name, found in spread_of(alert).items()
        },
        "hosts": [{"host": plain(host), "role": plain(role)} for host, role, *_ in alert.hosts],
        "fingerprint": fingerprint(labels),
        "alert_id": alert.alert_id,
        "url": links.alert(alert),
        "links": links.others(alert),
        "runbook": runbook_of(alert),
        "starts_at": iso(began_ms(alert)),
        "ends_at": iso(alert.end_ms),
        "began_ms": began_ms(alert),
        "end_ms": alert.end_ms,
        "n_matches": alert.n_matches,
    }


def _value(value: Any) -> Any:
    """Numbers stay numbers; everything else is one line."""
    return value if value is None or isinstance(value, bool | int | float) else plain(value)


@dataclass(frozen=True)
class Escapes:
    """What is done to values in the parts of a message, so that they stay plain text there."""

    everywhere: Callable[[str], str]
    by_part: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """By the name of a part at the top."""

    def of(self, place: str) -> Callable[[str], str]:
        """In the part that a place lies in."""
        return self.by_part.get(place.replace("[", ".").split(".")[0], self.everywhere)


__all__ = ["Escapes", "values_of_news"]
