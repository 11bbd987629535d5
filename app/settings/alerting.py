"""Receivers and routes of alerts; `alerting` in config.yaml."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pydantic import Field, field_validator, model_validator

from app.alerting.dispatch.settings import InhibitRuleSettings, RouteSettings, TimeIntervalSettings
from app.alerting.receivers.settings import AnyReceiver
from app.durations import DurationMs
from app.nearest_name import did_you_mean
from app.section import Section
from collectors.time_units import DAY_MS


class Alerting(Section):
    """How matches become alerts and who is told."""

    group_gap_ms: DurationMs = Field(default=60_000, ge=0)
    max_evidence_events: int = Field(default=200, ge=1)
    max_age_ms: DurationMs = Field(default=DAY_MS, ge=0)
    external_url: str = "http://127.0.0.1:8501"
    external_labels: dict[str, str] = Field(default_factory=dict)
    links: dict[str, str] = Field(default_factory=dict, max_length=10)
    runbook_url: str | None = None
    receivers: dict[str, AnyReceiver] = Field(default_factory=dict)
    route: RouteSettings | None = None
    inhibit_rules: tuple[InhibitRuleSettings, ...] = ()
    time_intervals: tuple[TimeIntervalSettings, ...] = ()
    mute_time_intervals: tuple[TimeIntervalSettings, ...] = ()
    """What `time_intervals` was called in Alertmanager."""

    @property
    def all_time_intervals(self) -> tuple[TimeIntervalSettings, ...]:
        """Under either name."""
        return (*self.time_intervals, *self.mute_time_intervals)

    @model_validator(mode="after")
    def _tree(self) -> Alerting:
        if self.route is None:
            if self.inhibit_rules:
                raise ValueError("inhibit_rules without a route have no effect; expected a route, too")
            return self
        names = [interval.name for interval in self.all_time_intervals]
        if len(set(names)) != len(names):
            raise ValueError("time_intervals: a name is given twice; expected each once")
        problems = [*_root_problems(self.route), *_route_problems(self.route, "route", self.receivers, names)]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @field_validator("links")
    @classmethod
    def _names_of_links(cls, links: dict[str, str]) -> dict[str, str]:
        for name, template in links.items():
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,39}", name) or name == "runbook":
                raise ValueError(f"{name}: expected a link's name: letters, digits and _; the runbook has runbook_url")
            _check_link(template, f"{name}: ")
        return links

    @field_validator("runbook_url")
    @classmethod
    def _web_page(cls, template: str | None) -> str | None:
        if template is not None:
            _check_link(template, "")
        return template

    @field_validator("external_labels")
    @classmethod
    def _names_of_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for name, value in labels.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in ("alertname", "severity"):
                raise ValueError(
                    f"{name}: expected a label's name: letters, digits and _, not alertname or severity, which are the "
                    "query's own"
                )
            if not value or len(value) > 200 or not value.isprintable():
                raise ValueError(f"{name}: found {value[:50]!r}; expected one line of 1 to 200 characters")
        return labels


def _check_link(template: str, place: str) -> None:
    if not template.startswith(("http://", "https://")) or len(template) > 1_000 or not template.isprintable():
        raise ValueError(
            f"{place}found {template[:80]!r}; expected http://... or https://..., with {{host}} and the like"
        )


def _root_problems(root: RouteSettings) -> Iterator[str]:
    if root.receiver is None:
        yield "route.receiver: found nothing; expected the receiver of what no other route matches"
    given = {
        "matchers": root.matchers,
        "continue": root.continue_,
        "mute_time_intervals": root.mute_time_intervals,
        "active_time_intervals": root.active_time_intervals,
    }
    for name, value in given.items():
        if value:
            yield f"route.{name}: expected none, since the root takes every alert; put it into one of its routes"


def _route_problems(
    route: RouteSettings,
    key: str,
    receivers: Collection[str],
    intervals: Collection[str],
    above: tuple[str | None, int | None] = (None, None),
) -> Iterator[str]:
    """`above`: escalate_to and escalate_after of the routes above."""
    escalate_to, after_ms = route.escalate_to or above[0], route.escalate_after_ms or above[1]
    if (escalate_to is None) != (after_ms is None):
        given, lacking = ("escalate_to", "escalate_after") if after_ms is None else ("escalate_after", "escalate_to")
        yield f"{key}.{given}: found it without {lacking}; expected both: the second receiver, and after how long"
    if route.receiver is not None and route.receiver not in receivers:
        yield f"{key}.receiver: {_unknown(route.receiver, 'receiver', receivers)}"
    if route.escalate_to is not None and route.escalate_to not in receivers:
        yield f"{key}.escalate_to: {_unknown(route.escalate_to, 'receiver', receivers)}"
    for kind in ("mute_time_intervals", "active_time_intervals"):
        for name in getattr(route, kind):
            if name not in intervals:
                yield f"{key}.{kind}: {_unknown(name, 'time interval', intervals)}"
    for number, child in enumerate(route.routes):
        yield from _route_problems(
            child, f"{key}.routes.{number}", receivers, intervals, (escalate_to, after_ms) if after_ms else above
        )


def _unknown(found: str, kind: str, known: Collection[str]) -> str:
    expected = f"one of {', '.join(sorted(known))}" if known else f"{kind}s: there are none"
    return f"there is no {kind} {found!r}; expected {expected}{did_you_mean(found, sorted(known), '; ')}"


__all__ = ["Alerting"]
