"""Logs that were read in a wrong time zone: their events lie outside of their job's history, a whole zone away from it.

Log lines have no zone. Read in another one than they were written in, a log's events get ids of their own beside those
that were read rightly before: nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from collectors.base import Problem
from collectors.time_units import HOUR_MS, MINUTE_MS

KIND = "time_zone"
SLACK_MS = MINUTE_MS
"""So far events may lie outside of their job: containers start before it, and clocks differ."""
MOST_SHIFT_MS = 26 * HOUR_MS
"""Between the two zones that are furthest apart, from UTC-12 to UTC+14."""
LEAST_SHIFT_MS = 30 * MINUTE_MS
STEPS_MS = (HOUR_MS, 30 * MINUTE_MS, 15 * MINUTE_MS)
"""Zones differ by whole hours, few by halves and quarters."""


def zone_shift_ms(first_ms: int, last_ms: int, start_ms: int, end_ms: int) -> int | None:
    """By how much events of a log, from first to last, have to be later to lie within their job; None: they do, or no
    zone brings them there. Of several shifts the roundest, of those the smallest.
    """
    if first_ms <= end_ms + SLACK_MS and last_ms >= start_ms - SLACK_MS:
        return None
    low_ms, high_ms = start_ms - SLACK_MS - first_ms, end_ms + SLACK_MS - last_ms
    for step_ms in STEPS_MS:
        nearest_ms = -(-low_ms // step_ms) * step_ms if low_ms > 0 else high_ms // step_ms * step_ms
        if low_ms <= nearest_ms <= high_ms and LEAST_SHIFT_MS <= abs(nearest_ms) <= MOST_SHIFT_MS:
            return nearest_ms
    return None


def zone_problem(row: Mapping[str, Any]) -> Problem | None:
    """The warning about a log: `place`, `job_id`, `n_events` (from `first_ms` to `last_ms`), and the job's `start_ms`
    and `end_ms` by its history; None where there is nothing to warn of."""
    shift_ms = zone_shift_ms(row["first_ms"], row["last_ms"], row["start_ms"], row["end_ms"])
    if shift_ms is None:
        return None
    minutes = abs(shift_ms) // MINUTE_MS
    shown = f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    message = (
        f"its {row['n_events']} events of {row['job_id']} lie outside of the job's history, and within it when they "
        f"are {shown} {'later' if shift_ms > 0 else 'earlier'}: is it of another time zone than it is read in? "
        "Ingest it with --time-zone, and remove what was stored: clustercep store delete --source container_log --from "
        "... --to ..."
    )
    return Problem("container_log", str(row["place"]), KIND, message)


def zone_problems(rows: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Those of all such rows."""
    return [problem for problem in map(zone_problem, rows) if problem is not None]


__all__ = ["KIND", "zone_problem", "zone_problems", "zone_shift_ms"]
