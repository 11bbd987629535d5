"""What a receiver is sent: the Alertmanager webhook payload (version 4), or a JSON template of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.alerting.notices import Snapshot
from app.alerting.text import at_least_one_text, fill, iso, plain
from app.errors import ConfigError, ConfigProblem

NEVER = "0001-01-01T00:00:00Z"
"""What Alertmanager sends as the end of an alert that still fires."""

MAX_TEMPLATE_BYTES = 2**16


def alertmanager_payload(snapshot: Snapshot, receiver: str, external_url: str) -> dict[str, Any]:
    """One alert as an Alertmanager webhook notification, version "4"."""
    labels = labels_of(snapshot)
    annotations = annotations_of(snapshot)
    group_labels = {"alertname": labels["alertname"], **_key_labels(snapshot)}
    resolved = snapshot.state == "resolved"
    return {
        "version": "4",
        "groupKey": f"{{}}:{json.dumps(group_labels, sort_keys=True)}",
        "truncatedAlerts": 0,
        "status": "resolved" if resolved else "firing",
        "receiver": receiver,
        "groupLabels": group_labels,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": external_url,
        "alerts": [
            {
                "status": "resolved" if resolved else "firing",
                "labels": labels,
                "annotations": annotations,
                "startsAt": iso(snapshot.start_ms),
                "endsAt": iso(snapshot.end_ms) if resolved else NEVER,
                "generatorURL": f"{external_url.rstrip('/')}/alert?id={snapshot.alert_id}",
                "fingerprint": snapshot.alert_id[:16],
            }
        ],
    }


def labels_of(snapshot: Snapshot) -> dict[str, str]:
    """What identifies the alert: its query, severity and key."""
    return {**_key_labels(snapshot), "alertname": snapshot.query, "severity": snapshot.severity}


def annotations_of(snapshot: Snapshot) -> dict[str, str]:
    """What describes it."""
    matches = str(snapshot.n_matches) if snapshot.n_matches_exact else f"at least {snapshot.n_matches}"
    return {
        **{f"value_{name}": plain(value) for name, value in sorted(snapshot.values.items())},
        "summary": snapshot.summary,
        "runbook": snapshot.runbook,
        "matches": matches,
        "confidence": plain(snapshot.best_confidence),
        "at_least_one": at_least_one_text(snapshot),
        "at_least_one_low": plain(snapshot.at_least_one_lower),
        "at_least_one_high": plain(snapshot.at_least_one_upper),
        "at_least_one_method": snapshot.at_least_one_method,
        "alert_id": snapshot.alert_id,
    }


def template_fields(snapshot: Snapshot, receiver: str, external_url: str) -> dict[str, object]:
    """The names that templates may use."""
    return {
        **snapshot.values,
        **snapshot.key,
        **annotations_of(snapshot),
        "query": snapshot.query,
        "severity": snapshot.severity,
        "state": snapshot.state,
        "start": iso(snapshot.start_ms),
        "end": iso(snapshot.end_ms),
        "receiver": receiver,
        "url": f"{external_url.rstrip('/')}/alert?id={snapshot.alert_id}",
    }


def templated_payload(template: Any, fields: dict[str, object]) -> Any:
    """`template` (JSON) with `{name}` filled in inside its strings; keys and other values stay.

    Values enter as text of a JSON string, so that they can change nothing else.
    """
    if isinstance(template, str):
        return fill(template, fields, max_chars=8_000)
    if isinstance(template, list):
        return [templated_payload(item, fields) for item in template]
    if isinstance(template, dict):
        return {key: templated_payload(value, fields) for key, value in template.items()}
    return template


def read_template(path: Path, key: str) -> Any:
    """A JSON file; raises ConfigError naming the key when it is not one."""
    try:
        if path.stat().st_size > MAX_TEMPLATE_BYTES:
            raise ConfigError(str(path), (ConfigProblem(key, "more than 64 kiB", "a JSON template"),))
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(str(path), (ConfigProblem(key, plain(error), "a JSON file"),)) from None


def _key_labels(snapshot: Snapshot) -> dict[str, str]:
    return {name: plain(value) for name, value in sorted(snapshot.key.items())}
