"""What databases accept: text without NUL and half characters, JSON without NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any

MAX_RAW_CHARS = 4_000


def storable_text(text: str, max_chars: int | None = None) -> str:
    """`text` with NUL and undecodable bytes written out, cut to `max_chars`."""
    clean = text
    if not text.isascii() or "\x00" in text:
        clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return clean if max_chars is None or len(clean) <= max_chars else clean[: max_chars - 1] + "…"


def storable_values(values: Mapping[str, Any], without: Container[str] = ()) -> dict[str, Any]:
    """Values as JSON, but those of some names: numbers that are not finite become their names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        kind = type(value)
        if name in without:
            continue
        if kind is str:
            found[_storable_name(name)] = value if value.isascii() and "\x00" not in value else storable_text(value)
        elif kind is int or value is None:
            found[_storable_name(name)] = value
        else:
            found[_storable_name(name)] = _storable(value)
    return found


@lru_cache(1_000)
def _storable_name(name: str) -> str:
    return storable_text(name)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return storable_values(value)
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value
