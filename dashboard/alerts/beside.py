"""The value that a query of one event looks at: over time for the subject of an alert, and beside that of its peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from collectors.time_units import MINUTE_MS
from dashboard.alerts.limits import Limit
from dashboard.events.source import EventSource
from dashboard.store import AlertRow, EvidenceRow
from dashboard.text import inert

BEFORE_MS, AFTER_MS = 30 * MINUTE_MS, 10 * MINUTE_MS
"""How much of the time around an alert is shown."""
LONGEST_MS = 6 * 60 * MINUTE_MS
"""Of an alert that lasts longer the time around the event that it shows."""
PEERS_MS = 10 * MINUTE_MS
"""A peer that has said nothing for so long before the event does not count."""
MAX_EVENTS = 200_000
"""More are not read for a page: a part of them would compare with whoever comes first."""
MAX_BARS = 20
MAX_POINTS = 2_000
MIN_POINTS = 3


@dataclass(frozen=True, slots=True)
class Point:
    """The value of the subject at a time (milliseconds since the epoch), and the limit for it where that is known."""

    at_ms: int
    value: float
    bound: float | None


@dataclass(frozen=True, slots=True)
class SubjectBar:
    """The value of one subject, and the limit for it."""

    label: str
    value: float
    bound: float | None
    is_offender: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """What is shown of one limit. `points` are empty where fewer than MIN_POINTS are known; the offender is the first
    of `bars`, its peers follow, those that are nearest to the limit, or furthest beyond it, first."""

    limit: Limit
    bars: tuple[SubjectBar, ...]
    n_left_out: int
    points: tuple[Point, ...]
    span_ms: tuple[int, int]


def read_beside(events: EventSource | None, alert: AlertRow, row: EvidenceRow, limit: Limit) -> Beside | None:
    """None where the event has no such value. Without `events`, or where they are too many, the event stands alone.

    Raises AppError where events cannot be read.
    """
    value = limit.value_of(row.attributes)
    if value is None or row.t_hi_ms is None:
        return None
    span = _span(alert, row.t_hi_ms)
    own: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    if events is not None:
        equal = {name: given for name in limit.key if isinstance(given := row.attributes.get(name), str)}
        if equal:
            own = _rows(events, limit, span, equal)
        others = _rows(events, limit, (row.t_hi_ms - PEERS_MS, row.t_hi_ms), {})
    subject = _subject(limit, row.attributes)
    points = _points(limit, [found for found in own if _subject(limit, found) == subject])
    offender = SubjectBar(_label(subject, row), value, limit.bound_of(row.attributes), is_offender=True)
    peers = _peers(limit, others, subject, row.t_hi_ms)
    return Beside(limit, (offender, *peers[:MAX_BARS]), max(0, len(peers) - MAX_BARS), points, span)


def _span(alert: AlertRow, at_ms: int) -> tuple[int, int]:
    first, last = min(alert.onset_ms, at_ms), max(alert.last_seen_ms, at_ms)
    if last - first > LONGEST_MS:
        first = last = at_ms
    return first - BEFORE_MS, last + AFTER_MS


def _rows(
    events: EventSource, limit: Limit, span: tuple[int, int], equal: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    types = [limit.event_type]
    if events.count(types=types, from_ms=span[0], to_ms=span[1]) > MAX_EVENTS:
        return []
    columns = list(dict.fromkeys(["t_hi_ms", limit.attribute, *limit.needed, *limit.key]))
    table: pa.Table = events.read(types=types, from_ms=span[0], to_ms=span[1], equal=equal, columns=columns)
    rows: list[Mapping[str, Any]] = table.to_pylist()
    return rows


def _points(limit: Limit, rows: Sequence[Mapping[str, Any]]) -> tuple[Point, ...]:
    found = [
        Point(row["t_hi_ms"], value, limit.bound_of(row)) for row in rows if (value := limit.value_of(row)) is not None
    ]
    found.sort(key=lambda point: point.at_ms)
    if len(found) < MIN_POINTS:
        return ()
    step = -(-len(found) // MAX_POINTS)
    extreme = max if limit.is_upper else min  # none that crosses the limit is thinned away
    return tuple(
        extreme(found[place : place + step], key=lambda point: point.value) for place in range(0, len(found), step)
    )


def _peers(limit: Limit, rows: Sequence[Mapping[str, Any]], subject: tuple[Any, ...], at_ms: int) -> list[SubjectBar]:
    """Their last values until that time."""
    latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        whose = _subject(limit, row)
        if whose == subject or row["t_hi_ms"] > at_ms or limit.value_of(row) is None or not any(whose):
            continue
        if whose not in latest or latest[whose]["t_hi_ms"] <= row["t_hi_ms"]:
            latest[whose] = row
    bars = [
        SubjectBar(_words(whose), value, limit.bound_of(row), is_offender=False)
        for whose, row in latest.items()
        if (value := limit.value_of(row)) is not None
    ]
    return sorted(bars, key=lambda bar: (-bar.value if limit.is_upper else bar.value, bar.label))


def _subject(limit: Limit, attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(attributes.get(name) for name in limit.key)


def _label(subject: tuple[Any, ...], row: EvidenceRow) -> str:
    return _words(subject) or inert(row.type, 60)


def _words(subject: tuple[Any, ...]) -> str:
    return inert(" ".join(str(part) for part in subject if part is not None), 60)


__all__ = ["MAX_BARS", "MAX_EVENTS", "MIN_POINTS", "PEERS_MS", "Beside", "Point", "SubjectBar", "read_beside"]
