"""Durations and sizes as people write them: `15 s`, `2 min`, `1 day`, `64 MiB`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "milliseconds": 1,
    "s": 1_000,
    "second": 1_000,
    "seconds": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
UNITS_BYTES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}

_QUANTITY = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([A-Za-z]+)\s*")


def parse_duration_ms(text: str) -> int:
    """`15 s` -> 15000; raises ValueError for anything else than a number and a unit of time."""
    return _quantity(
        text, UNITS_MS, "a number and a unit of time, such as '500 ms', '15 s', '2 min', '1 h' or '30 days'"
    )


def parse_size_bytes(text: str) -> int:
    """`64 MiB` -> 67108864; raises ValueError for anything else than a number and a unit of size."""
    return _quantity(text, UNITS_BYTES, "a number and a unit of size, such as '500 kB' or '64 MiB'")


def format_duration(duration_ms: int) -> str:
    """`90000` -> `1 min 30 s`: at most two parts, the biggest first."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    parts = []
    rest = duration_ms // 1_000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        n_units, rest = divmod(rest, seconds)
        if n_units:
            parts.append(f"{n_units} {unit}")
    return " ".join(parts[:2])


def _quantity(text: str, units: dict[str, int], expected: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in units:
        raise ValueError(f"expected {expected}")
    return round(float(match[1]) * units[match[2].lower()])


def _read_duration(value: object) -> object:
    # A number without a unit is refused: is 15 seconds or milliseconds?
    return parse_duration_ms(value if isinstance(value, str) else "")


def _read_size(value: object) -> object:
    return parse_size_bytes(value) if isinstance(value, str) and not value.strip().isdigit() else value


DurationMs = Annotated[int, BeforeValidator(_read_duration)]
"""A duration written with its unit, kept in milliseconds."""

SizeBytes = Annotated[int, BeforeValidator(_read_size)]
"""A size, in bytes or with its unit, kept in bytes."""
