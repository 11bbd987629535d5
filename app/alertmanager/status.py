"""GET /status and /receivers: what we are, and the routing tree as a configuration of Alertmanager."""

from __future__ import annotations

from typing import Any

import yaml

from app.alerting.dispatch.intervals import interval_section
from app.alerting.dispatch.settings import RouteSettings
from app.alerting.text import iso
from app.alertmanager.alerts import receiver_names
from app.process.metrics.counters import program_version
from app.settings import Alerting, Settings

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def status_json(settings: Settings, started_ms: int) -> dict[str, Any]:
    """As Alertmanager tells it; we are in no cluster."""
    unknown = dict.fromkeys(("branch", "buildDate", "buildUser", "goVersion", "revision"), "")
    return {
        "cluster": {"peers": [], "status": "disabled"},
        "config": {"original": config_text(settings)},
        "uptime": iso(started_ms),
        "versionInfo": {**unknown, "version": program_version()},
    }


def config_text(settings: Settings) -> str:
    """Who is told, without secrets, as `amtool config routes` reads it; receivers by their names alone."""
    alerting = settings.alerting
    names = list(alerting.receivers) if alerting.route is not None else receiver_names(settings)
    document: dict[str, Any] = {"route": _route_of(alerting, names)}
    if alerting.inhibit_rules:
        document["inhibit_rules"] = [
            {
                "source_matchers": [str(matcher) for matcher in rule.source_matchers],
                "target_matchers": [str(matcher) for matcher in rule.target_matchers],
                **({"equal": list(rule.equal)} if rule.equal else {}),
            }
            for rule in alerting.inhibit_rules
        ]
    if alerting.all_time_intervals:
        document["time_intervals"] = [
            {"name": named.name, "time_intervals": [interval_section(one) for one in named.time_intervals]}
            for named in alerting.all_time_intervals
        ]
    document["receivers"] = [{"name": name} for name in names]
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _route_of(alerting: Alerting, names: list[str]) -> dict[str, Any]:
    if alerting.route is not None:
        return _route(alerting.route)
    # Each receiver is told of each alert by itself, at once.
    alone = {"receiver": names[0], "group_by": ["..."], "group_wait": "0s"}
    if len(names) == 1:
        return alone
    return {**alone, "routes": [{"receiver": name, "continue": True} for name in names]}


def _route(route: RouteSettings) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if route.receiver is not None:
        told["receiver"] = route.receiver
    if route.matchers:
        told["matchers"] = [str(matcher) for matcher in route.matchers]
    if route.continue_:
        told["continue"] = True
    if route.group_by is not None:
        told["group_by"] = list(route.group_by)
    for name in ("group_wait", "group_interval", "repeat_interval"):
        if (value := getattr(route, f"{name}_ms")) is not None:
            told[name] = go_duration(value)
    for name in ("mute_time_intervals", "active_time_intervals"):
        if value := getattr(route, name):
            told[name] = list(value)
    if route.routes:
        told["routes"] = [_route(child) for child in route.routes]
    return told


def go_duration(duration_ms: int) -> str:
    """As Alertmanager writes durations: `1h30m`, `0s`."""
    text, left = "", duration_ms
    for unit, unit_ms in _UNITS:
        n, left = divmod(left, unit_ms)
        text += f"{n}{unit}" if n else ""
    return text or "0s"


__all__ = ["config_text", "go_duration", "status_json"]
