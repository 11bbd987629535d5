"""The labels of an alert: what it is known by to those who are told, fixed when it is raised.

Alertmanager takes alerts with other labels for other alerts: what changes later is an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.alerting.catalog import QueryInfo
from app.alerting.text import plain
from app.store.storable import storable_text
from app.store.subject import application_of

_OF_EVENTS = ("user", "queue")
"""Told as the matched events have them, where no RETURN value has the name."""


OF_EVERY_QUERY = frozenset({"alertname", "severity", "job", "application", "host", *_OF_EVENTS})


def possible_labels(infos: Iterable[QueryInfo], external: Iterable[str]) -> frozenset[str]:
    """The names of all labels that alerts of these queries may have."""
    named = (name for info in infos if info.severity is not None for name in (*info.key, *info.per))
    return OF_EVERY_QUERY.union(named, external)


def labels_of_new(
    info: QueryInfo,
    key: Mapping[str, Any],
    shown: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]],
    external: Mapping[str, str],
) -> dict[str, str]:
    """The labels of an alert with this key that has just been raised.

    `shown`: its columns as `kept` has them; `events`: the attributes of those of the match that it shows;
    `external`: labels of the configuration, which win over what comes from the cluster.
    """
    assert info.severity is not None, "reports have no labels"
    named, job_id = {**shown["values"], **key}, shown["job_id"]
    known: dict[str, Any] = {
        "job": job_id,
        "application": named.get("application_id") or application_of(job_id),
        "host": shown["host"],
        **{name: named.get(name) for name in _OF_EVENTS},
    }
    missing = [name for name in _OF_EVENTS if known[name] is None]
    for event in events if missing else ():
        known |= {name: event.get(name) for name in missing}
        if not (missing := [name for name in missing if known[name] is None]):
            break
    labels = {name: value for name, value in known.items() if value is not None and value != ""}
    # Equal to those that versions without further labels sent, and beyond doubt where the key has one of the names.
    labels |= dict(sorted(key.items()))
    told = {storable_text(name): storable_text(plain(value)) for name, value in labels.items()}
    return {**told, **external, "alertname": info.name, "severity": info.severity.value}


__all__ = ["labels_of_new", "possible_labels"]
