"""JSON of which others decide how much memory it takes: refused by the number of its values before it is parsed.

As Python objects values take up to a hundred times the bytes they are written in: a line of 60 MB may be 1.8 GB.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_VALUES = 2_000_000
"""Some hundred bytes each, a quarter of a kilobyte at worst."""

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],]', re.DOTALL)


class TooManyValuesError(ValueError):
    """A text that holds more values than anybody needs."""


def loads(text: str | bytes, max_values: int = MAX_VALUES) -> Any:
    """The value of a JSON text; raises TooManyValuesError, and what `json.loads` raises."""
    if n_values(text) > max_values:
        raise TooManyValuesError(f"it holds more than {max_values:,} values")
    return json.loads(text)


def n_values(text: str | bytes) -> int:
    """At least as many as it has; commas and brackets in its strings count, too."""
    if isinstance(text, str):
        return 1 + text.count(",") + text.count("[") + text.count("{")
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def extent(text: str, at: int) -> tuple[int, int] | None:
    """(end, number of values) of the object or list that begins at `at`; None when it does not end."""
    n, depth = 1, 0
    for token in _TOKEN.finditer(text, at):
        first = text[token.start()]
        if first in "{[":
            n, depth = n + 1, depth + 1
        elif first == ",":
            n += 1
        elif first in "}]":
            depth -= 1
            if depth <= 0:
                return token.end(), n
    return None


__all__ = ["MAX_VALUES", "TooManyValuesError", "extent", "loads", "n_values"]
