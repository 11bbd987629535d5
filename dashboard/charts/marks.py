"""What stands across a chart: when alerts began, and thresholds of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts.axes import BLUE, ORANGE, VERMILION, TimeAxis
from dashboard.looks import SEVERITIES, SIGNS
from dashboard.text import inert

MAX_MARKS = 50
COLOURS = {"critical": VERMILION, "warning": ORANGE, "info": BLUE}
THRESHOLD_DASH = [6, 3]
MARK_DASH = [2, 3]


@dataclass(frozen=True, slots=True)
class AlertMark:
    """When an alert began, in milliseconds since the epoch."""

    onset_ms: float
    severity: str
    query: str
    summary: str


def alert_rules(marks: Sequence[AlertMark], axis: TimeAxis) -> list[Any]:
    """A dotted line for each alert within the axis, the most severe where they are very many, with the sign of its
    severity at the top. For `layered`."""
    inside = [mark for mark in marks if axis.from_ms <= mark.onset_ms <= axis.to_ms and mark.severity in COLOURS]
    inside.sort(key=lambda mark: (SEVERITIES.index(mark.severity), mark.onset_ms))
    kept = inside[:MAX_MARKS]
    layers: list[Any] = []
    for severity in SEVERITIES:
        of_severity = [mark for mark in kept if mark.severity == severity]
        if not of_severity:
            continue
        frame = pd.DataFrame(
            {
                "onset_ms": [mark.onset_ms for mark in of_severity],
                "alert": [inert(mark.query, 80) for mark in of_severity],
                "says": [inert(mark.summary, 200) for mark in of_severity],
                "severity": severity,
                "sign": SIGNS[severity],
            }
        )
        base = alt.Chart(axis.data(frame, ["onset_ms"])).encode(
            x=axis.x("onset_ms"),
            tooltip=[
                alt.Tooltip("alert:N", title="alert"),
                alt.Tooltip("severity:N", title="severity"),
                alt.Tooltip("says:N", title="says"),
                axis.tip("onset_ms", "began"),
            ],
        )
        colour = COLOURS[severity]
        layers.append(base.mark_rule(color=colour, strokeDash=MARK_DASH, strokeWidth=1.5))
        layers.append(
            base.mark_text(color=colour, baseline="bottom", fontSize=11).encode(text="sign:N", y=alt.value(-1))
        )
    return layers


def marks_caption(marks: Sequence[AlertMark]) -> str:
    """What they mean; empty without any."""
    if not marks:
        return ""
    known = [f"{SIGNS[severity]} {severity}" for severity in SEVERITIES if any(m.severity == severity for m in marks)]
    return f"Dotted lines are where this job's alerts began ({', '.join(known)})."


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit of a query."""

    query: str
    value: float
    told: str
    """With its unit."""


def threshold_rules(thresholds: Sequence[Threshold], channel: str) -> list[Any]:
    """A dashed line for each, across the axis `channel` (x or y). For `layered`."""
    if not thresholds:
        return []
    frame = pd.DataFrame(
        {
            "at": [threshold.value for threshold in thresholds],
            "query": [inert(threshold.query, 80) for threshold in thresholds],
            "told": [threshold.told for threshold in thresholds],
        }
    )
    place: Any = {"x": alt.X("at:Q"), "y": alt.Y("at:Q")}[channel]
    tips = [alt.Tooltip("query:N", title="threshold of"), alt.Tooltip("told:N", title="at")]
    return [
        alt.Chart(frame)
        .mark_rule(color=VERMILION, strokeDash=THRESHOLD_DASH, strokeWidth=1.5)
        .encode(place, tooltip=tips)
    ]


__all__ = ["AlertMark", "Threshold", "alert_rules", "marks_caption", "threshold_rules"]
