"""What looks at groups have read that cannot become untrue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.alerting.notices import Snapshot
from app.store.writing.groups import Content


@dataclass
class Known:
    """Read before a transaction, these keep it short; whatever may change is read in it."""

    alerts: dict[tuple[str, int], Content] = field(default_factory=dict)
    """Members of groups, by alert and revision."""
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Of alerts that may inhibit others, by their ids: fixed when they are raised."""
    snapshots: dict[tuple[str, int], Snapshot] = field(default_factory=dict)
    """Alerts as messages tell them, by id and revision."""
    messages: dict[tuple[str, str], list[tuple[str, Snapshot]]] = field(default_factory=dict)
    """Alerts that a message of the outbox tells of, each with the fingerprint of its labels; by the message's key and
    receiver."""


__all__ = ["Known"]
