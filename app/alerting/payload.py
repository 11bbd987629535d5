"""What a receiver is sent: the Alertmanager webhook payload (version 4), or a JSON template of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.alerting.case import case_annotations
from app.alerting.notices import Snapshot
from app.alerting.recording.episodes import digest
from app.alerting.text import EXPECTATION_TEXTS, SHED_TEXT, at_least_one_text, fill, iso, plain
from app.errors import ConfigError, ConfigProblem

NEVER = "0001-01-01T00:00:00Z"
"""What Alertmanager sends as the end of an alert that still fires."""

MAX_TEMPLATE_BYTES = 2**16


def alert_payload(snapshot: Snapshot, external_url: str) -> dict[str, Any]:
    """One alert as Alertmanager's webhook lists it."""
    labels, resolved = labels_of(snapshot), snapshot.state == "resolved"
    return {
        "status": "resolved" if resolved else "firing",
        "labels": labels,
        "annotations": annotations_of(snapshot),
        "startsAt": iso(began_ms(snapshot)),
        "endsAt": iso(snapshot.end_ms) if resolved else NEVER,
        "generatorURL": f"{external_url.rstrip('/')}/alert?id={snapshot.alert_id}",
        "fingerprint": fingerprint(labels),
    }


def began_ms(snapshot: Snapshot) -> int:
    """When the condition began to hold."""
    return snapshot.start_ms if snapshot.onset_ms is None else snapshot.onset_ms


def labels_of(snapshot: Snapshot) -> dict[str, str]:
    """What identifies the alert: fixed when it was raised."""
    if snapshot.labels is not None:
        return dict(snapshot.labels)
    return {**_key_labels(snapshot), "alertname": snapshot.query, "severity": snapshot.severity}


def fingerprint(labels: Mapping[str, str]) -> str:
    """The labels in 16 hex digits: as in Alertmanager, alerts with the same labels have the same one."""
    return digest(*(text for pair in sorted(labels.items()) for text in pair))[:16]


def annotations_of(snapshot: Snapshot) -> dict[str, str]:
    """What describes it."""
    matches = str(snapshot.n_matches) if snapshot.n_matches_exact else f"at least {snapshot.n_matches}"
    return {
        **{f"value_{name}": plain(value) for name, value in sorted(snapshot.values.items())},
        **{
            f"{aspect}_{name}": plain(value)
            for name, by_aspect in sorted(snapshot.spread.items())
            for aspect, value in by_aspect.items()
        },
        **_hosts(snapshot),
        "summary": snapshot.summary,
        "runbook": snapshot.runbook,
        "matches": matches,
        "confidence": plain(None if snapshot.expectation else snapshot.best_confidence),
        "at_least_one": at_least_one_text(snapshot),
        "at_least_one_low": plain(snapshot.at_least_one_lower),
        "at_least_one_high": plain(snapshot.at_least_one_upper),
        "at_least_one_method": snapshot.at_least_one_method,
        "alert_id": snapshot.alert_id,
        **({"shedding": SHED_TEXT} if snapshot.shed else {}),
        **({"expectation": EXPECTATION_TEXTS[snapshot.expectation]} if snapshot.expectation else {}),
        **({} if snapshot.incident is None else case_annotations(snapshot.incident)),
        **{name: iso(time_ms) for name, time_ms in _times(snapshot).items() if time_ms is not None},
    }


def template_fields(snapshot: Snapshot, receiver: str, external_url: str) -> dict[str, object]:
    """The names that templates may use."""
    return {
        **labels_of(snapshot),
        **snapshot.values,
        **{
            f"{name}.{aspect}": value
            for name, by_aspect in spread_of(snapshot).items()
            for aspect, value in by_aspect.items()
        },
        **snapshot.key,
        **annotations_of(snapshot),
        "query": snapshot.query,
        "fingerprint": fingerprint(labels_of(snapshot)),
        "severity": snapshot.severity,
        "state": snapshot.state,
        "start": iso(began_ms(snapshot)),
        "end": iso(snapshot.end_ms),
        "receiver": receiver,
        "url": f"{external_url.rstrip('/')}/alert?id={snapshot.alert_id}",
    }


def templated_payload(template: Any, fields: dict[str, object]) -> Any:
    """`template` (JSON) with `{name}` filled in inside its strings; keys and other values stay.

    Values enter as text of a JSON string, so that they can change nothing else.
    """
    if isinstance(template, str):
        return fill(template, fields, max_chars=8_000, for_people=False)
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


def spread_of(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """First, last, max and min of every value: all the same where the matches agree."""
    same = {name: dict.fromkeys(("first", "last", "max", "min"), value) for name, value in snapshot.values.items()}
    return {**same, **snapshot.spread}


def _times(snapshot: Snapshot) -> dict[str, int | None]:
    return {"raised": snapshot.raised_ms, "last_seen": snapshot.last_seen_ms}


def _hosts(snapshot: Snapshot) -> dict[str, str]:
    """All hosts by role, in order, each with the value that stands beside it."""
    by_role: dict[str, list[str]] = {}
    for host, role, name, value in snapshot.hosts:
        beside = "" if name is None else f" ({plain(value)})"
        by_role.setdefault(role, []).append(f"{plain(host)}{beside}")
    told = {f"hosts_{role}": ", ".join(hosts) for role, hosts in by_role.items()}
    if snapshot.n_hosts_left_out:
        told["hosts_left_out"] = str(snapshot.n_hosts_left_out)
    return told


def _key_labels(snapshot: Snapshot) -> dict[str, str]:
    return {name: plain(value) for name, value in sorted(snapshot.key.items())}
