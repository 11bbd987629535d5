"""Spans of time in milliseconds, and the latest time that counts as one."""

from __future__ import annotations

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

MAX_TIME_MS = 253_402_300_799_999
"""End of the year 9999: a later time is no time."""

__all__ = ["DAY_MS", "HOUR_MS", "MAX_TIME_MS", "MINUTE_MS", "SECOND_MS"]
