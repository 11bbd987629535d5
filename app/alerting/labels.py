"""The labels of an alert: what it is known by to those who are told, fixed when it is raised.

Alertmanager takes alerts with other labels for other alerts: what changes later is an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from app.alerting.text import plain
from app.store.storable import storable_text
from app.store.subject import application_of

if TYPE_CHECKING:
    from app.store.models import AlertRow

_OF_EVENTS = ("user", "queue")
"""Told as the matched events have them, where no RETURN value has the name."""


def labels_of_new(alert: AlertRow, events: Iterable[Mapping[str, Any]], external: Mapping[str, str]) -> dict[str, str]:
    """The labels of an alert that has just been raised.

    `events`: those of the match that it shows; `external`: those of the configuration, which win over what comes from
    the cluster.
    """
    named = {**alert.values, **alert.key}
    known: dict[str, Any] = {
        "job": alert.job_id,
        "application": named.get("application_id") or application_of(alert.job_id),
        "host": alert.host,
        **{name: named.get(name) for name in _OF_EVENTS},
    }
    for event in events:
        for name in _OF_EVENTS:
            known[name] = event.get(name) if known[name] is None else known[name]
    labels = {name: value for name, value in known.items() if value is not None and value != ""}
    # Equal to those that versions without further labels sent, and beyond doubt where the key has one of the names.
    labels |= dict(sorted(alert.key.items()))
    told = {storable_text(name): storable_text(plain(value)) for name, value in labels.items()}
    return {**told, **external, "alertname": alert.query, "severity": alert.severity}


__all__ = ["labels_of_new"]
