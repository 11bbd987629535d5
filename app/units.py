"""Named values as people read them: a duration as `1 min 4 s`, a size as `137.4 MiB`, a time as a date.

Which of these a value is, its name says: by the unit of the attributes of that name (collectors/events.csv), else by
how it ends (`_ms`, `_bytes`, `at_ms`), as RETURN values and metrics are named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any

from app.durations import format_duration, format_number, format_size, format_time
from collectors.schema import event_table

LONGEST_DURATION_MS = 10**11
"""Three years. What is named `_ms` and greater is a time since 1970, which every time of a real cluster exceeds."""

_TIME_NAMES = frozenset({"t_lo_ms", "t_hi_ms", "first_lo_ms", "last_hi_ms", "start_ms", "end_ms"})


class Unit(StrEnum):
    """How a number is to be read."""

    DURATION = "duration"
    SIZE = "size"
    TIME = "time"


@lru_cache(maxsize=1_000)
def unit_of(name: str) -> Unit | None:
    """By the name alone; None for what has none of these units."""
    last = name.rpartition(".")[2]
    units = {row.unit for row in event_table() if row.attribute == last}
    if last in _TIME_NAMES or last == "at_ms" or last.endswith("_at_ms"):
        return Unit.TIME
    if units == {"ms"} or last.endswith("_ms"):
        return Unit.DURATION
    if units == {"bytes"} or last == "bytes" or last.endswith("_bytes"):
        return Unit.SIZE
    return None


def value_text(name: str, value: Any, time_text: Callable[[int], str] = format_time) -> Any:
    """A number with its unit, grouped by thousands or rounded; whatever is no finite number stays as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    unit = unit_of(name)
    if unit is Unit.TIME or (unit is Unit.DURATION and abs(value) >= LONGEST_DURATION_MS):
        try:
            return time_text(round(value))
        except (ValueError, OverflowError):
            return value  # no calendar shows it
    if unit is Unit.DURATION:
        return format_duration(value)
    if unit is Unit.SIZE:
        return format_size(value)
    return f"{value:,}" if isinstance(value, int) else format_number(value, grouped=True)
