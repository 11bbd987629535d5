"""An alert that is none: for trying receivers and templates."""

from __future__ import annotations

from collections.abc import Collection

from app.alerting.links import Links
from app.alerting.notices import Snapshot
from app.alerting.payload import fingerprint
from app.alerting.receivers.news import News

TEST_NAME = "clustercep-test"


def sample_news(
    receiver: str,
    links: Links,
    now_ms: int,
    *,
    names: Collection[str] = (),
    is_resolved: bool = False,
    said_by: str = "",
) -> News:
    """News of one marked alert; `names`: of values that it has, each 1; `said_by`: who tries."""
    labels = {"alertname": TEST_NAME, "severity": "info", "receiver": receiver, "test": "true"}
    alert = Snapshot(
        alert_id=fingerprint(labels) * 2,
        query=TEST_NAME,
        key={},
        severity="info",
        state="resolved" if is_resolved else "firing",
        revision=2 if is_resolved else 1,
        start_ms=now_ms - 1_000,
        end_ms=now_ms,
        values=dict.fromkeys(names, 1),
        summary=f"This is a test of the receiver {receiver}{f', by {said_by}' if said_by else ''}. Nothing is wrong.",
        runbook="There is nothing to do.",
        n_matches=1,
        n_matches_exact=True,
        best_confidence=1.0,
        at_least_one_lower=1.0,
        at_least_one_method="certain",
        onset_ms=now_ms - 1_000,
        raised_ms=now_ms - 1_000,
        last_seen_ms=now_ms,
        labels={**dict.fromkeys(names, "1"), **labels},
    )
    key = fingerprint({**labels, "at": str(now_ms), "state": alert.state})
    return News(receiver, fingerprint(labels), key, now_ms, links, (alert,), marked="TEST: ")


__all__ = ["TEST_NAME", "sample_news"]
