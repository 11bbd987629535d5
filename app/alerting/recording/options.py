"""What does not change from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.alerting.catalog import QueryInfo
from app.alerting.dispatch.routes import Routing
from app.alerting.recording.episodes import CreatedAlerts
from app.settings import Receiver
from collectors.time_units import DAY_MS


@dataclass(frozen=True)
class AlertingOptions:
    """Of the settings, and what is known of a database that was set back."""

    queries: Mapping[str, QueryInfo]
    receivers: Mapping[str, Receiver]
    max_evidence_events: int = 200
    max_age_ms: int = DAY_MS
    external_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every alert, see app.alerting.recording.labels."""
    routing: Routing | None = None
    """Who is told together; None: each receiver is told of each alert by itself."""
    told: CreatedAlerts = field(default_factory=dict)
    """Alerts that a database that was set back has forgotten: they keep their ids."""


__all__ = ["AlertingOptions"]
