"""Time intervals as Alertmanager has them: times of day, weekdays, days of the month, months and years, in a place.

An interval holds at a time when each kind of range that it names has a range that holds it. Without a place it is UTC.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
MONTHS = tuple(name.lower() for name in calendar.month_name[1:])

Range = tuple[int, int]
"""Both ends belong to it; of times of day (in minutes) the end does not."""

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
KEYS = ("times", "weekdays", "days_of_month", "months", "years", "location")


@dataclass(frozen=True)
class TimeInterval:
    """One interval; of each kind of range None means any."""

    times: tuple[Range, ...] | None = None
    weekdays: tuple[Range, ...] | None = None
    """0 is Sunday."""
    days_of_month: tuple[Range, ...] | None = None
    """From 1; negative ones count from the end of the month, whose last day is -1."""
    months: tuple[Range, ...] | None = None
    years: tuple[Range, ...] | None = None
    location: tzinfo | None = field(default=UTC)
    """None: the place of this machine."""

    def holds(self, time_ms: int) -> bool:
        """Whether a time lies in it."""
        at = datetime.fromtimestamp(time_ms / 1_000, UTC).astimezone(self.location)
        minute = at.hour * 60 + at.minute
        if self.times is not None and not any(start <= minute < end for start, end in self.times):
            return False
        if self.days_of_month is not None and not _is_day_in(at, self.days_of_month):
            return False
        named = ((self.weekdays, at.isoweekday() % 7), (self.months, at.month), (self.years, at.year))
        return all(ranges is None or _is_in(value, ranges) for ranges, value in named)


def _is_in(value: int, ranges: Sequence[Range]) -> bool:
    return any(first <= value <= last for first, last in ranges)


def _is_day_in(at: datetime, ranges: Sequence[Range]) -> bool:
    """Days that the month does not have are left out; a range that begins behind its end holds none."""
    n_days = calendar.monthrange(at.year, at.month)[1]
    for first, last in ranges:
        first_day, last_day = (day if day > 0 else n_days + day + 1 for day in (first, last))
        if first_day <= n_days and max(first_day, 1) <= at.day <= min(last_day, n_days):
            return True
    return False


def parse_interval(section: Mapping[str, Any]) -> TimeInterval:
    """An element of `time_intervals`; raises ValueError that says which key, what was found and expected."""
    unknown = sorted(set(map(str, section)) - set(KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; expected {', '.join(KEYS)}")
    return TimeInterval(
        times=_each(section, "times", _time_range),
        weekdays=_weekdays(section),
        days_of_month=_each(section, "days_of_month", _day_range),
        months=_each(section, "months", lambda text: _named_range(text, MONTHS, 1)),
        years=_each(section, "years", _year_range),
        location=_location(section.get("location")),
    )


def interval_section(interval: TimeInterval) -> dict[str, Any]:
    """An interval as `parse_interval` reads it."""
    section: dict[str, Any] = {}
    if interval.times is not None:
        section["times"] = [{"start_time": _clock(start), "end_time": _clock(end)} for start, end in interval.times]
    if interval.weekdays is not None:
        section["weekdays"] = [f"{WEEKDAYS[first]}:{WEEKDAYS[last]}" for first, last in interval.weekdays]
    for name in ("days_of_month", "months", "years"):
        if (ranges := getattr(interval, name)) is not None:
            section[name] = [f"{first}:{last}" for first, last in ranges]
    if interval.location is None:
        section["location"] = "Local"
    elif isinstance(interval.location, ZoneInfo):
        section["location"] = interval.location.key
    return section


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _each(section: Mapping[str, Any], key: str, parse: Any) -> tuple[Range, ...] | None:
    found = section.get(key)
    if found is None:
        return None
    if not isinstance(found, list):
        raise ValueError(f"{key}: found {found!r}; expected a list")
    try:
        return tuple(parse(item) for item in found) or None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _weekdays(section: Mapping[str, Any]) -> tuple[Range, ...] | None:
    """A range that goes on behind saturday, such as friday:monday, is two."""
    last_day = len(WEEKDAYS) - 1
    found = _each(section, "weekdays", lambda text: _named_range(text, WEEKDAYS, 0, goes_round=True))
    if found is None:
        return None
    parts = [((first, last),) if first <= last else ((first, last_day), (0, last)) for first, last in found]
    return tuple(part for of_one in parts for part in of_one)


def _time_range(item: object) -> Range:
    if not isinstance(item, Mapping) or set(item) != {"start_time", "end_time"}:
        raise ValueError(f"found {item!r}; expected start_time and end_time")
    start, end = (_minute(item[name]) for name in ("start_time", "end_time"))
    if start >= end:
        raise ValueError(
            f"found {item['start_time']} to {item['end_time']}; expected an end behind the start (over midnight: two "
            "ranges)"
        )
    return start, end


def _minute(value: object) -> int:
    # YAML 1.1 reads 22:00 without quotes as a number in base 60.
    text = f"{value // 60:02}:{value % 60:02}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    if not _TIME.fullmatch(text):
        raise ValueError(f"found {text!r}; expected a time of day from 00:00 to 24:00")
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _ends(item: object) -> tuple[str, str]:
    first, _, last = str(item).strip().lower().partition(":")
    return first.strip(), (last or first).strip()


def _named_range(item: object, names: Sequence[str], first_number: int, *, goes_round: bool = False) -> Range:
    """A name or a range of names; months may be numbers, too. `goes_round`: the end may stand before the start."""

    def number(text: str) -> int:
        if text in names:
            return names.index(text) + first_number
        if first_number and text.isdecimal() and 1 <= int(text) <= len(names):
            return int(text)
        raise ValueError(f"found {text!r}; expected one of {', '.join(names)}")

    first, last = map(number, _ends(item))
    if first > last and not goes_round:
        raise ValueError(f"found {item!r}; expected an end that is not before the start")
    return first, last


def _number(text: str, what: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,4}", text):
        raise ValueError(f"found {text!r}; expected {what}")
    return int(text)


def _day_range(item: object) -> Range:
    what = "days from 1 to 31, or from -31 to -1 counted from the month's end"
    first, last = (_number(text, what) for text in _ends(item))
    for day in (first, last):
        if not 1 <= abs(day) <= 31:
            raise ValueError(f"found {day}; expected {what}")
    if (first < 0) == (last < 0) and first > last:
        raise ValueError(f"found {item!r}; expected an end that is not before the start")
    if first < 0 < last:
        raise ValueError(f"found {item!r}; expected a negative end behind a negative start")
    return first, last


def _year_range(item: object) -> Range:
    first, last = (_number(text, "years such as 2027") for text in _ends(item))
    if first > last:
        raise ValueError(f"found {item!r}; expected an end that is not before the start")
    return first, last


def _location(name: object) -> tzinfo | None:
    if name is None:
        return UTC
    if name == "Local":
        return None
    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"location: found {name!r}; expected a time zone such as Europe/Berlin, or Local") from None


__all__ = ["TimeInterval", "interval_section", "parse_interval"]
