"""Durations, sizes, times and numbers as people write and read them: `15 s`, `2 min`, `1 day`, `64 MiB`, `43.48`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator

from app.errors import AppError
from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "milliseconds": 1,
    "s": SECOND_MS,
    "second": SECOND_MS,
    "seconds": SECOND_MS,
    "m": MINUTE_MS,
    "min": MINUTE_MS,
    "minute": MINUTE_MS,
    "minutes": MINUTE_MS,
    "h": HOUR_MS,
    "hour": HOUR_MS,
    "hours": HOUR_MS,
    "d": DAY_MS,
    "day": DAY_MS,
    "days": DAY_MS,
}
UNITS_BYTES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}

_MOST_WHOLE = 1e15
_BYTES, _MILLISECONDS = ("bytes", "B"), ("ms", "milliseconds")

_UNITS_S = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

_QUANTITY = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([A-Za-z]+)\s*")


def parse_duration_ms(text: str) -> int:
    """`15 s` -> 15000; raises ValueError for anything else than a number and a unit of time."""
    return _quantity(
        text, UNITS_MS, "a number and a unit of time, such as '500 ms', '15 s', '2 min', '1 h' or '30 days'"
    )


def parse_size_bytes(text: str) -> int:
    """`64 MiB` -> 67108864; raises ValueError for anything else than a number and a unit of size."""
    return _quantity(text, UNITS_BYTES, "a number and a unit of size, such as '500 kB' or '64 MiB'")


def format_duration(duration_ms: float) -> str:
    """`63665` -> `1 min 4 s`, `10716` -> `10.7 s`: at most two neighbouring units, rounded to the nearest.

    Below a minute seconds have one decimal, below a second milliseconds none, below half a millisecond two significant
    digits, so that only what is less than a microsecond reads as none; a minus sign stands before negative ones.
    """
    if duration_ms < 0:
        return f"-{format_duration(-duration_ms)}"
    if 0.001 <= duration_ms < 0.5:
        return f"{duration_ms:.2g} ms"
    if round(duration_ms) < 1_000:
        return f"{round(duration_ms)} ms"
    if round(duration_ms / 100) < 600:
        return f"{round(duration_ms / 1_000, 1):g} s"
    for (unit, unit_s), (smaller, smaller_s) in pairwise(_UNITS_S):
        n_smaller = round(duration_ms / 1_000 / smaller_s)
        n_units, rest = divmod(n_smaller, unit_s // smaller_s)
        if n_units:
            return f"{n_units} {unit} {rest} {smaller}" if rest else f"{n_units} {unit}"
    raise AssertionError("a minute or more has minutes")


def format_size(n_bytes: float) -> str:
    """`144049176` -> `137.4 MiB`; a minus sign stands before negative ones."""
    if n_bytes < 0:
        return f"-{format_size(-n_bytes)}"
    number = float(n_bytes)
    for unit in _SIZE_UNITS[:-1]:
        rounded = round(number) if unit == "B" else round(number, 1)
        if rounded < 1024:
            return f"{rounded} {unit}"
        number /= 1024
    return f"{number:,.1f} {_SIZE_UNITS[-1]}"


def size_unit(n_bytes: float) -> tuple[int, str]:
    """The unit in which a size is best read, for a scale up to it: how many bytes it has, and its name."""
    power = 0
    while power < len(_SIZE_UNITS) - 1 and n_bytes >= 1024 ** (power + 1):
        power += 1
    return 1024**power, _SIZE_UNITS[power]


_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_number(number: float, *, grouped: bool = False) -> str:
    """`43.4843127` -> `43.48`, `3333333.3` -> `3333333`: four significant digits, but digits before the point stay.

    With an exponent below 1e-4 and from 1e15, up to which doubles know whole numbers. `grouped`: thousands are set off.
    """
    if not 1_000 <= abs(number) < _MOST_WHOLE:
        return f"{number:.4g}"
    return f"{number:,.0f}" if grouped else f"{number:.0f}"


def format_with_unit(number: float, unit: str) -> str:
    """`92.96 %`, and bytes and milliseconds as sizes and durations; empty units are none."""
    if unit in _BYTES:
        return format_size(number)
    if unit in _MILLISECONDS:
        return format_duration(number)
    return f"{number if isinstance(number, int) else format_number(number)} {unit}".rstrip()


def format_time(time_ms: float) -> str:
    """`1795178714919` -> `2026-11-20 14:05:14.919 UTC`; without the milliseconds where they are 0.

    Raises ValueError for what no calendar shows.
    """
    try:
        at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=round(time_ms))
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{time_ms!r}: expected milliseconds since 1970 between the years 1 and 9999") from error
    text = at.isoformat(sep=" ", timespec="milliseconds" if at.microsecond else "seconds")
    return text.replace("+00:00", " UTC")


def parse_time_ms(option: str, text: str, now_ms: int) -> int:
    """A time as people write it: ISO 8601 (UTC unless it names a zone), or a duration before now. Raises AppError."""
    try:
        return now_ms - parse_duration_ms(text.removesuffix(" ago"))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise AppError(
            f"{option}: found {text!r}; expected a time such as 2026-05-01T12:30 (UTC unless it names a zone), or a "
            "duration before now such as '2 h'"
        ) from None


def _quantity(text: str, units: dict[str, int], expected: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in units:
        raise ValueError(f"expected {expected}")
    return round(float(match[1]) * units[match[2].lower()])


def _read_duration(value: object) -> object:
    # A number without a unit is refused: is 15 seconds or milliseconds?
    return parse_duration_ms(value if isinstance(value, str) else "")


def _read_signed_duration(value: object) -> object:
    if isinstance(value, str) and value.strip().startswith("-"):
        return -parse_duration_ms(value.strip()[1:])
    return _read_duration(value)


def _read_size(value: object) -> object:
    return parse_size_bytes(value) if isinstance(value, str) and not value.strip().isdigit() else value


DurationMs = Annotated[int, BeforeValidator(_read_duration)]
"""A duration written with its unit, kept in milliseconds."""

SignedDurationMs = Annotated[int, BeforeValidator(_read_signed_duration)]
"""A duration written with its unit, with a minus sign where it is negative, kept in milliseconds."""

SizeBytes = Annotated[int, BeforeValidator(_read_size)]
"""A size, in bytes or with its unit, kept in bytes."""
