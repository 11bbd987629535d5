"""What databases accept: text without NUL and half characters, JSON without NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MAX_RAW_CHARS = 4_000


def storable_text(text: str, max_chars: int | None = None) -> str:
    """`text` with NUL and undecodable bytes written out, cut to `max_chars`."""
    clean = text
    if not text.isascii() or "\x00" in text:
        clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return clean if max_chars is None or len(clean) <= max_chars else clean[: max_chars - 1] + "…"


def storable_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON: numbers that are not finite become their names."""
    return {_storable_name(name): _storable(value) for name, value in values.items()}


@lru_cache(1_000)
def _storable_name(name: str) -> str:
    return storable_text(name)


def _storable(value: Any) -> Any:
    if type(value) is int or value is None:
        return value
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return storable_values(value)
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value
