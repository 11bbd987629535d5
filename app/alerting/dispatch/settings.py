"""`alerting.route`, `inhibit_rules` and `time_intervals`, as Alertmanager's configuration has them.

Durations may be written as there (`1h30m`, `1d`) and as everywhere else in the configuration (`90 min`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from app.alerting.dispatch.intervals import TimeInterval, parse_interval
from app.alerting.dispatch.matchers import Matchers, made, parse_matchers
from app.durations import parse_duration_ms
from app.section import Section
from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MAX_INTERVAL_MS = 366 * DAY_MS
ALL_LABELS = "..."
"""In `group_by`: alerts are together only when all of their labels are equal."""

_PARTS = (
    ("y", 365 * DAY_MS),
    ("w", 7 * DAY_MS),
    ("d", DAY_MS),
    ("h", HOUR_MS),
    ("m", MINUTE_MS),
    ("s", SECOND_MS),
    ("ms", 1),
)
_COMPOUND = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit, _ in _PARTS))


def _duration(value: object) -> object:
    """Milliseconds of a duration in either form; raises ValueError."""
    text = value.strip() if isinstance(value, str) else "0" if value == 0 and value is not False else ""
    if text == "0":
        return 0
    match = _COMPOUND.fullmatch(text) if text else None
    if match is None:
        return parse_duration_ms(text)
    return sum(int(n) * part_ms for n, (_, part_ms) in zip(match.groups(), _PARTS, strict=True) if n is not None)


RouteDuration = Annotated[int, BeforeValidator(_duration)]


def _matchers(value: object) -> object:
    """A list of texts, each one or more matchers; raises ValueError."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError('expected a list of matchers such as severity="critical"')
    return tuple(matcher for item in value for matcher in parse_matchers(item))


MatcherList = Annotated[Matchers, BeforeValidator(_matchers)]


def _equalities(value: object, operator: str) -> Matchers:
    """The older form `{label: value}`; raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping of labels to values")
    return tuple(made(str(name), operator, str(found)) for name, found in sorted(value.items()))


def _merge_older(section: object, prefix: str) -> object:
    """`match` and `match_re` (of inhibition `source_match` and so on) are matchers, too."""
    if not isinstance(section, dict):
        return section
    merged = {name: value for name, value in section.items() if name not in (f"{prefix}match", f"{prefix}match_re")}
    older = (("match", "="), ("match_re", "=~"))
    found = [_equalities(section[f"{prefix}{name}"], op) for name, op in older if section.get(f"{prefix}{name}")]
    if found:
        key = f"{prefix}matchers"
        first = merged.get(key) or []
        texts = [first] if isinstance(first, str) else list(first) if isinstance(first, list | tuple) else first
        if not isinstance(texts, list):
            return merged
        merged[key] = [*texts, *(str(matcher) for matchers in found for matcher in matchers)]
    return merged


MAX_ROUTE_LABELS, MAX_ROUTE_LABEL_CHARS = 50, 1_000


def _texts(value: object) -> object:
    """Values without quotes, such as `tier: 1`, are texts, too."""
    if not isinstance(value, Mapping):
        return value
    return {name: str(one) if isinstance(one, int | float) else one for name, one in value.items()}


class RouteSettings(Section):
    """A node of the routing tree."""

    receiver: str | None = None
    matchers: MatcherList = ()
    continue_: bool = Field(default=False, alias="continue")
    group_by: tuple[str, ...] | None = None
    group_wait_ms: RouteDuration | None = Field(default=None, ge=0, le=MAX_INTERVAL_MS)
    group_interval_ms: RouteDuration | None = Field(default=None, ge=SECOND_MS, le=MAX_INTERVAL_MS)
    repeat_interval_ms: RouteDuration | None = Field(default=None, ge=SECOND_MS, le=MAX_INTERVAL_MS)
    escalate_to: str | None = None
    """The receiver that is told of an alert that nobody has acknowledged."""
    escalate_after_ms: RouteDuration | None = Field(default=None, ge=SECOND_MS, le=MAX_INTERVAL_MS)
    mute_time_intervals: tuple[str, ...] = ()
    active_time_intervals: tuple[str, ...] = ()
    labels: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default={}, max_length=MAX_ROUTE_LABELS)
    """Of the route, for messages: they change nothing about who is told."""
    routes: tuple[RouteSettings, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _older(cls, section: object) -> object:
        return _merge_older(section, "")

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for name, value in labels.items():
            if not name or len(name) > 200 or not name.isprintable():
                raise ValueError(f"found {name[:50]!r}; expected a label's name of 1 to 200 characters")
            if len(value) > MAX_ROUTE_LABEL_CHARS:
                raise ValueError(f"{name} has {len(value)} characters; expected at most {MAX_ROUTE_LABEL_CHARS}")
        return labels

    @field_validator("group_by")
    @classmethod
    def _distinct(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is None:
            return None
        if len(set(names)) != len(names):
            raise ValueError("a label is named twice; expected each once")
        if ALL_LABELS in names and len(names) > 1:
            raise ValueError("'...' means all labels; expected it alone, or the labels without it")
        return names


class InhibitRuleSettings(Section):
    """While an alert matches the source, those that match the target and have equal labels are not told; a side without
    matchers is matched by all, as in Alertmanager."""

    name: str | None = None
    source_matchers: MatcherList = ()
    target_matchers: MatcherList = ()
    equal: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _older(cls, section: object) -> object:
        return _merge_older(_merge_older(section, "source_"), "target_")


def _interval(value: object) -> object:
    if isinstance(value, TimeInterval):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping with times, weekdays, days_of_month, months, years or location")
    return parse_interval(value)


class TimeIntervalSettings(Section):
    """Times under a name: any of the intervals."""

    name: str = Field(min_length=1)
    time_intervals: tuple[Annotated[Any, BeforeValidator(_interval)], ...] = Field(min_length=1)

    def holds(self, time_ms: int) -> bool:
        """Whether a time lies in any of the intervals."""
        return any(interval.holds(time_ms) for interval in self.time_intervals)


__all__ = ["ALL_LABELS", "InhibitRuleSettings", "RouteSettings", "TimeIntervalSettings"]
