"""What databases accept: text without NUL and half characters, JSON without NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.json_text import json_text

MAX_RAW_CHARS = 4_000
MAX_MESSAGE_CHARS = 1_000
"""Of what is told of a failure."""


def storable_text(text: str, max_chars: int | None = None) -> str:
    """`text` with NUL and undecodable bytes written out, cut to `max_chars`."""
    clean = text
    if not text.isascii() or "\x00" in text:
        clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return clean if max_chars is None or len(clean) <= max_chars else clean[: max_chars - 1] + "…"


def storable_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON: numbers that are not finite become their names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        kind = type(value)
        if kind is str:
            found[_storable_name(name)] = value if value.isascii() and "\x00" not in value else storable_text(value)
        elif kind is int or value is None:
            found[_storable_name(name)] = value
        else:
            found[_storable_name(name)] = storable(value)
    return found


@lru_cache(1_000)
def _storable_name(name: str) -> str:
    return storable_text(name)


def is_storable_json(text: str) -> bool:
    """Whether a JSON text in ASCII is storable for sure: no character escaped by its number, no NaN or infinity."""
    return "\\u" not in text and "NaN" not in text and "Infinity" not in text


def storable_json(value: Any) -> str:
    """The JSON text of `storable(value)`."""
    text = json_text(value)
    return text if is_storable_json(text) else json_text(storable(value))


def storable_texts(values: Sequence[Any]) -> list[str | None]:
    """The JSON texts of `storable` values; None of None. They are looked at together, as nearly all are storable."""
    texts = [None if value is None else json_text(value) for value in values]
    if is_storable_json("".join(filter(None, texts))):
        return texts
    return [None if value is None else storable_json(value) for value in values]


def storable(value: Any) -> Any:
    """A value of JSON, with texts and numbers as above."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return storable_values(value)
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
