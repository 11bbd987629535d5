"""An alert as a message tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.alerting.notices import Snapshot
from app.alerting.recording.kept import expectation_of, is_shed, spread_of
from app.store.models import AlertRow


def snapshot_of(alert: AlertRow, incident: Mapping[str, Any] | None = None, thread: str | None = None) -> Snapshot:
    """The alert as a message tells it; `incident`, `thread`: see Snapshot."""
    return Snapshot(
        alert_id=alert.id,
        query=alert.query,
        key=dict(alert.key),
        severity=alert.severity,
        state=alert.state,
        revision=alert.revision,
        start_ms=alert.start_ms,
        end_ms=alert.end_ms,
        values=dict(alert.values),
        onset_ms=alert.onset_ms,
        raised_ms=alert.raised_ms,
        last_seen_ms=alert.last_seen_ms,
        labels=dict(alert.labels),
        hosts=alert.seen.get("told_hosts", []),
        n_hosts_left_out=alert.n_hosts_left_out,
        spread=spread_of(alert),
        summary=alert.summary,
        runbook=alert.runbook,
        n_matches=alert.n_matches,
        n_matches_exact=alert.n_matches_exact,
        best_confidence=alert.best_confidence,
        at_least_one_lower=alert.at_least_one_lower,
        at_least_one_upper=alert.at_least_one_upper,
        at_least_one_method=alert.at_least_one_method,
        at_least_one_estimate=alert.at_least_one_estimate,
        at_least_one_error=alert.at_least_one_error,
        shed=is_shed(alert),
        expectation=expectation_of(alert),
        incident=None if incident is None else dict(incident),
        thread=thread,
    )


__all__ = ["snapshot_of"]
