"""When a message that a receiver did not take is tried again."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

JITTER_RATIO = 0.25
"""Waits are shorter than they could be by up to so much, drawn anew each time: what failed together comes apart."""

_SECONDS = re.compile("[0-9]+")
_MAX_DATE_CHARS = 40
_MAX_DOUBLINGS = 40


def back_off_ms(n_attempts: int, first_ms: int, most_ms: int, drawn: float) -> int:
    """How long to wait after so many attempts, 1 at least: twice as long each time, `most_ms` at most.

    `drawn`: a number in [0, 1) for the jitter.
    """
    whole_ms = min(first_ms << min(n_attempts - 1, _MAX_DOUBLINGS), most_ms)
    return max(1, round(whole_ms * (1 - JITTER_RATIO * drawn)))


def retry_after_ms(header: str | None, now_ms: int, most_ms: int) -> int:
    """How long a Retry-After asks to wait (RFC 9110, 10.2.3: seconds, or a date), `most_ms` at most.

    0 without one, for a time that is over and for what is neither.
    """
    text = (header or "").strip()
    if _SECONDS.fullmatch(text):
        return most_ms if len(text) > 12 else min(int(text) * 1_000, most_ms)
    if not text or len(text) > _MAX_DATE_CHARS:
        return 0
    try:
        date = parsedate_to_datetime(text)
        at_ms = round((date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError, TypeError, IndexError):
        return 0
    return min(max(0, at_ms - now_ms), most_ms)
