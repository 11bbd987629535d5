"""An alert at a glance: durations as bars beside those of their peers, values as a curve, both with the threshold."""

from __future__ import annotations

from collections import Counter

import altair as alt
import pandas as pd

from app.durations import format_duration
from dashboard.alerts.comparison import Comparison, Curve
from dashboard.charts.axes import BLUE, GREY, VERMILION, layered

BAR_PX = 22
CURVE_PX = 200


def bars(found: Comparison) -> alt.LayerChart:
    """The offender on top, in a colour of its own and named so."""
    labels = apart([f"▶ {bar.label}" if bar.is_offender else bar.label for bar in found.bars])
    data = pd.DataFrame(
        {
            "label": labels,
            "seconds": [bar.duration_ms / 1000 for bar in found.bars],
            "told": [format_duration(bar.duration_ms) for bar in found.bars],
            "who": ["this alert" if bar.is_offender else "its peers" for bar in found.bars],
        }
    )
    longest = max([*data["seconds"], (found.threshold_ms or 0) / 1000])
    axis = alt.Axis(labelLimit=260, ticks=False, domain=False, labelOverlap=False)  # each bar says what it is
    y = alt.Y("label:N", title=None, sort=labels, axis=axis)
    x = alt.X("seconds:Q", title="seconds", scale=alt.Scale(domain=[0, longest * 1.15 or 1]))
    colour = alt.Color(
        "who:N", scale=alt.Scale(domain=["this alert", "its peers"], range=[VERMILION, BLUE]), legend=None
    )
    tips = [alt.Tooltip("label:N", title="attempt"), alt.Tooltip("told:N", title="took")]
    base = alt.Chart(data)
    drawn = base.mark_bar(height=14).encode(y=y, x=x, color=colour, tooltip=tips)
    told = base.mark_text(align="left", dx=4, color=GREY).encode(y=y, x=x, text="told:N")
    layers: list[alt.Chart] = [drawn, told, _rule(found.average_ms / 1000, "average of its peers", [2, 2])]
    if found.threshold_ms is not None:
        layers.append(_rule(found.threshold_ms / 1000, "threshold", [6, 3]))
    return layered(*layers, height=bars_px(len(found.bars)))


def bars_px(n_bars: int) -> int:
    """Height of so many."""
    return BAR_PX * max(2, n_bars)


def curve(found: Curve, zone: str) -> alt.LayerChart:
    """The value over time, and where it is too much. `zone`: of the browser that draws it, for the title."""
    times = pd.to_datetime([time_ms for time_ms, _ in found.points], unit="ms", utc=True)
    data = pd.DataFrame({"time": times, "value": [value for _, value in found.points]})
    x = alt.X("time:T", title=f"Time ({zone})", axis=alt.Axis(format="%H:%M:%S", labelOverlap=True))
    tips = [alt.Tooltip("time:T", format="%Y-%m-%d %H:%M:%S"), alt.Tooltip("value:Q", format=".4~g")]
    title = f"{found.name} ({found.unit})" if found.unit else found.name
    line = alt.Chart(data).mark_line(point=True, color=BLUE).encode(
        x=x, y=alt.Y("value:Q", title=title), tooltip=tips
    )  # fmt: skip
    layers: list[alt.Chart] = [line]
    if found.threshold is not None:
        rule = alt.Chart(pd.DataFrame({"at": [found.threshold], "what": ["threshold"]}))
        layers.append(
            rule.mark_rule(color=VERMILION, strokeDash=[6, 3]).encode(y="at:Q", tooltip=["what:N", alt.Tooltip("at:Q")])
        )
    return layered(*layers, height=CURVE_PX)


def _rule(seconds: float, what: str, dash: list[int]) -> alt.Chart:
    data = pd.DataFrame({"at": [seconds], "what": [what]})
    mark = alt.Chart(data).mark_rule(color=VERMILION, strokeDash=dash)
    drawn: alt.Chart = mark.encode(x="at:Q", tooltip=["what:N", alt.Tooltip("at:Q", title="seconds", format=".4~g")])
    return drawn


def apart(labels: list[str]) -> list[str]:
    """Each with a row of its own: equal ones are numbered."""
    seen: Counter[str] = Counter()
    apart = []
    for label in labels:
        seen[label] += 1
        apart.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return apart
