"""Alerts as receivers are told of them: plain ones, and ones whose every text is hostile."""

from __future__ import annotations

from typing import Any

from app.alerting.dispatch.notice import GroupNotice, common
from app.alerting.links import Links
from app.alerting.notices import Snapshot
from app.alerting.payload import labels_of
from app.alerting.receivers.kinds import service_of
from app.alerting.receivers.news import News
from app.alerting.receivers.service import Service
from app.settings import Alerting

NOW_MS = 1_700_000_600_000
LINKS = Links(
    "http://dash:8501/",
    {
        "resource_manager": "http://rm:8088/cluster/app/{application}",
        "grafana": "https://g/d/h?var-host={host}&from={start_ms}",
    },
    "https://wiki/{query}",
)
HOSTILE = (
    "<!channel> <script>alert(1)</script> [x](http://evil) \r\nBcc: evil@example.org\r\n\x1b[31m {host} {{ 7*7 }} "
    "$(reboot) `id` &amp; \u202e =?utf-8?q?a=0D=0ABcc:_evil=40example.org?="
)


def alert(number: int = 1, **parts: Any) -> Snapshot:
    given: dict[str, Any] = {
        "alert_id": f"{number:032x}",
        "query": "slow",
        "key": {"task_id": f"t{number}"},
        "severity": "warning",
        "state": "firing",
        "revision": 1,
        "start_ms": 1_700_000_000_000,
        "end_ms": 1_700_000_060_000,
        "values": {"period_ms": 65_000, "host": "node5"},
        "summary": f"t{number} took 65 s on node5",
        "runbook": "Look with `yarn logs -applicationId {application}`, then at {host}.",
        "n_matches": 3,
        "n_matches_exact": True,
        "best_confidence": 1.0,
        "at_least_one_lower": 1.0,
        "at_least_one_method": "certain",
        "raised_ms": 1_700_000_001_000,
        "last_seen_ms": 1_700_000_060_000,
        "labels": {
            "alertname": "slow",
            "severity": "warning",
            "task_id": f"t{number}",
            "host": "node5",
            "job": "job_1700000000000_0001",
            "application": "application_1700000000000_0001",
            "queue": "etl",
        },
        "hosts": [["node5", "suspect", "period_ms", 65_000], ["node6", "affected", None, None]],
    }
    return Snapshot(**{**given, **parts})


def hostile(number: int = 1, **parts: Any) -> Snapshot:
    """What a user of the cluster may bring about: texts reach labels by `plain`, values as they come."""
    text = HOSTILE.replace("\r\n", "  ").replace("\x1b", " ").replace("\u202e", " ")
    labels = {**(alert(number).labels or {}), "job": text, "user": text, "host": text, "application": text}
    return alert(
        number,
        **{
            "summary": text,
            "labels": labels,
            "hosts": [[HOSTILE, "suspect", None, None]],
            "values": {"host": HOSTILE},
            **parts,
        },
    )


def news(*alerts: Snapshot, group: bool = False, n_left_out: int = 0, **parts: Any) -> News:
    notice = None
    if group or len(alerts) > 1:
        n_resolved = sum(a.state == "resolved" for a in alerts)
        notice = GroupNotice(
            key='{}:{alertname="slow"}',
            labels={"alertname": "slow"},
            common_labels=common([labels_of(a) for a in alerts]),
            reason="first notification",
            alerts=list(alerts),
            n_firing=len(alerts) - n_resolved + n_left_out,
            n_resolved=n_resolved,
            n_left_out=n_left_out,
        )
    given: dict[str, Any] = {
        "receiver": "ops",
        "dedup_key": "f" * 16,
        "idempotency_key": "a" * 64,
        "now_ms": NOW_MS,
        "links": LINKS,
    }
    return News(alerts=alerts, group=notice, **{**given, **parts})


SETTINGS: dict[str, dict[str, Any]] = {
    "apprise": {"kind": "apprise", "url": "gotify://127.0.0.1:9/token"},
    "webhook": {"url": "http://127.0.0.1:9/hook"},
    "alertmanager": {"kind": "alertmanager", "url": "http://127.0.0.1:9"},
    "slack": {"kind": "slack", "url": "http://127.0.0.1:9/T0/B0/XSECRETX", "channel": "#ops"},
    "teams": {"kind": "teams", "url": "http://127.0.0.1:9/workflows/abcdef"},
    "pagerduty": {"kind": "pagerduty", "routing_key": "R0123456789", "url": "http://127.0.0.1:9/v2/enqueue"},
    "opsgenie": {
        "kind": "opsgenie",
        "api_key": "K0123456789",
        "url": "http://127.0.0.1:9/",
        "responders": [{"type": "team", "name": "hadoop"}],
        "tags": "a, b",
    },
    "email": {
        "kind": "email",
        "smarthost": "127.0.0.1:25",
        "from": "cep@example.org",
        "to": "ops@example.org",
        "tls": "none",
    },
}


def service(kind: str, **settings: Any) -> Service:
    read = Alerting.model_validate({"receivers": {"ops": {**SETTINGS[kind], **settings}}})
    return service_of("alerting.receivers.ops", read.receivers["ops"])
