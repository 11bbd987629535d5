"""Silences for tests."""

from __future__ import annotations

import json

from app.alerting.dispatch.matchers import Matcher
from app.alerting.silencing import Silencing


def silencing_of(query: str, key_text: str | None, until_ms: int) -> Silencing:
    """Of a query, and of one key unless None, from the beginning of time."""
    key = {} if key_text is None else json.loads(key_text)
    of_key = (Matcher(name, "=", str(value)) for name, value in key.items())
    return Silencing((Matcher("alertname", "=", query), *of_key), 0, until_ms)
