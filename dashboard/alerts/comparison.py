"""What an alert's own events show at a glance: durations beside those of their peers, a value over time, the decisive
record. All of it is taken from the kept evidence, by the order of the pattern: what completes a match comes last in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dashboard.events.hosts import LOAD_TYPES, host_of, hosts_of
from dashboard.store import AlertRow, EvidenceRow
from dashboard.text import inert
from dashboard.units import shown_value

DURATIONS = ("period_ms", "elapsed_ms")
VALUES = ("val", "value")
MIN_POINTS = 3
MAX_BARS = 20
FACTOR = "factor"
"""The parameter of a query that compares a duration with the average of others."""
MIN_RISE = "min_rise"
"""The parameter of a query that compares a value with the first one."""

_BESIDE_ITS_HOST = re.compile(r"value_\d+")
"""An attribute of a step's load that `hosts_of` tells."""
_SHORT = re.compile(r"(?:attempt|task)_\d+_\d+_([mr]_\d+)(?:_(\d+))?")


@dataclass(frozen=True, slots=True)
class Bar:
    """One duration, in milliseconds."""

    label: str
    duration_ms: float
    is_offender: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The offender and then its peers, the longest first. Thresholds in milliseconds."""

    bars: tuple[Bar, ...]
    n_left_out: int
    average_ms: float
    """Of all peers."""
    threshold_ms: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over time (milliseconds since the epoch). `unit`: `%`, or nothing where none is known."""

    name: str
    unit: str
    points: tuple[tuple[int, float], ...]
    threshold: float | None


def comparison(evidence: Sequence[EvidenceRow], parameters: Mapping[str, Any]) -> Comparison | None:
    """None where fewer than two events have a duration of their own."""
    timed = [(row, duration) for row in evidence if (duration := _number(row.attributes, DURATIONS)) is not None]
    if len(timed) < 2:
        return None
    offender = timed[-1]
    peers = sorted(timed[:-1], key=lambda found: found[1][1], reverse=True)
    average_ms = fmean(duration for _, (_, duration) in peers)
    factor = parameters.get(FACTOR)
    bars = [_bar(row, duration[1], is_offender=row is offender[0]) for row, duration in (offender, *peers[:MAX_BARS])]
    threshold_ms = factor * average_ms if isinstance(factor, int | float) else None
    return Comparison(tuple(bars), max(0, len(peers) - MAX_BARS), average_ms, threshold_ms)


def curve(evidence: Sequence[EvidenceRow], parameters: Mapping[str, Any]) -> Curve | None:
    """The values of the variable that has most of them; None where fewer than MIN_POINTS have one."""
    by_variable: dict[str, list[tuple[int, float, str, str]]] = {}
    for row in evidence:
        if (found := _number(row.attributes, VALUES)) is not None and row.t_hi_ms is not None:
            name = row.attributes.get("name")
            shown = inert(name, 60) if isinstance(name, str) else found[0]
            shown = f"standard deviation of {shown}" if row.type in LOAD_TYPES else shown
            unit = row.attributes.get("unit")
            own = inert(unit, 20) if isinstance(unit, str) else ""
            by_variable.setdefault(row.variable, []).append((row.t_hi_ms, found[1], shown, own))
    points = max(by_variable.values(), key=len, default=[])
    if len(points) < MIN_POINTS:
        return None
    rise = parameters.get(MIN_RISE)
    threshold = points[0][1] + rise if isinstance(rise, int | float) else None
    return Curve(points[0][2], points[0][3], tuple((time_ms, value) for time_ms, value, *_ in points), threshold)


def decisive(alert: AlertRow, evidence: Sequence[EvidenceRow]) -> EvidenceRow | None:
    """The event that tells most: the last one of those with a line, if there are any, with the values that the alert
    shows, else the last one of them."""
    kept = [row for row in evidence if row.type is not None]
    told = [row for row in kept if row.raw] or kept
    shown = [row for row in told if _shares(alert, row)] or told
    return shown[-1] if shown else None


def in_words(row: EvidenceRow) -> str:
    """An event that has no line: `TaskSample on node4: elapsed_ms 2 min 4 s, progress 0.667`. A match of another query
    is told with its suspect, not with the host that suffers."""
    suspect = row.attributes.get("suspect")
    is_match = isinstance(suspect, str) and suspect != ""
    where = inert(suspect, 60) if is_match else hosts_of(row.type, row.attributes)
    told = ", ".join(
        f"{inert(name, 60)} {inert(shown_value(name, value))}"
        for name, value in row.attributes.items()
        if _is_number(value) and not _BESIDE_ITS_HOST.fullmatch(name)
    )
    on = f" {where}" if where and where.startswith("from ") else f" on {where}" if where else ""
    return f"{inert(row.type)}{on}{f': {told}' if told else ''}"


def _shares(alert: AlertRow, row: EvidenceRow) -> bool:
    """Whether it has the duration, or the value, that the alert tells of; queries give values names of their own."""
    told = {value for value in alert.values.values() if _is_number(value)}
    has_duration = any(name in row.attributes and row.attributes[name] == alert.values.get(name) for name in DURATIONS)
    return has_duration or any(_is_number(row.attributes.get(name)) and row.attributes[name] in told for name in VALUES)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(attributes: Mapping[str, Any], names: Sequence[str]) -> tuple[str, float] | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return name, float(value)
    return None


def _bar(row: EvidenceRow, duration_ms: float, *, is_offender: bool) -> Bar:
    attributes = row.attributes
    named = ("map_attempt_id", "attempt_id", "task_id", "job_id")
    subject = next((attributes[name] for name in named if attributes.get(name)), "")
    return Bar(
        " ".join(filter(None, (_short(subject), host_of(attributes)))) or inert(row.type), duration_ms, is_offender
    )


def _short(subject: object) -> str:
    text = inert(subject, 60)
    found = _SHORT.fullmatch(text)
    if found is None:
        return text
    return f"{found[1]} (attempt {int(found[2]) + 1})" if found[2] and found[2] != "0" else found[1]
