"""A value with its limit: of subjects as bars, of one subject over time with the marks of alerts."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from app.units import Unit, unit_of
from dashboard.alerts.beside import Beside
from dashboard.charts.axes import BLUE, GREY, VERMILION, TimeAxis, bytes_axis, layered, y_axis
from dashboard.charts.comparison import apart, bars_px
from dashboard.charts.marks import THRESHOLD_DASH, AlertMark, alert_rules
from dashboard.units import shown_value

OVER_TIME_PX = 180


def subject_bars(found: Beside) -> alt.LayerChart:
    """The offender on top, in a colour of its own and named so; at each bar a line where its limit is."""
    name, (per, unit) = found.limit.attribute, _unit(found.limit.attribute)
    labels = apart([f"▶ {bar.label}" if bar.is_offender else bar.label for bar in found.bars])
    bounds = [None if bar.bound is None else bar.bound / per for bar in found.bars]
    data = pd.DataFrame(
        {
            "label": labels,
            "value": [bar.value / per for bar in found.bars],
            "bound": pd.Series(bounds, dtype="float64"),
            "told": [str(shown_value(name, bar.value)) for bar in found.bars],
            "limit": ["—" if bar.bound is None else str(shown_value(name, bar.bound)) for bar in found.bars],
            "who": ["this alert" if bar.is_offender else "its peers" for bar in found.bars],
        }
    )
    top = max([*data["value"], *data["bound"].dropna(), 0.0])
    low = min([*data["value"], *data["bound"].dropna(), 0.0])
    axis = alt.Axis(labelLimit=260, ticks=False, domain=False, labelOverlap=False)
    y = alt.Y("label:N", title=None, sort=labels, axis=axis)
    across = _bytes_across(unit, data["value"], data["bound"]) if unit_of(name) is Unit.SIZE else alt.Axis(title=unit)
    x = alt.X("value:Q", axis=across, scale=alt.Scale(domain=[low * 1.15, top * 1.15 or 1]))
    colour = alt.Color(
        "who:N", scale=alt.Scale(domain=["this alert", "its peers"], range=[VERMILION, BLUE]), legend=None
    )
    tips = [
        alt.Tooltip("label:N", title="of"),
        alt.Tooltip("told:N", title=name),
        alt.Tooltip("limit:N", title="threshold"),
    ]
    base = alt.Chart(data)
    layers = [
        base.mark_bar(height=14).encode(y=y, x=x, color=colour, tooltip=tips),
        base.mark_text(align="left", dx=6, color=GREY).encode(y=y, x=x, text="told:N"),
        base.transform_filter("isValid(datum.bound)")
        .mark_tick(color=GREY, thickness=3, size=20)
        .encode(y=y, x=alt.X("bound:Q"), tooltip=tips),
    ]
    return layered(*layers, height=bars_px(len(found.bars)))


def over_time(found: Beside, axis: TimeAxis, marks: Sequence[AlertMark]) -> alt.LayerChart:
    """The subject's own values, the limit as a dashed line (it moves where it is a part of another attribute), and
    where alerts began."""
    name, (per, unit) = found.limit.attribute, _unit(found.limit.attribute)
    data = pd.DataFrame(
        {
            "at_ms": [point.at_ms for point in found.points],
            "value": [point.value / per for point in found.points],
            "bound": pd.Series([None if p.bound is None else p.bound / per for p in found.points], dtype="float64"),
            "told": [str(shown_value(name, point.value)) for point in found.points],
            "limit": ["—" if p.bound is None else str(shown_value(name, p.bound)) for p in found.points],
        }
    )
    is_size = unit_of(name) is Unit.SIZE
    scale = bytes_axis(unit, data["value"], data["bound"]) if is_size else y_axis(unit)
    base = alt.Chart(axis.data(data, ["at_ms"])).encode(
        x=axis.x("at_ms"),
        tooltip=[
            axis.tip("at_ms", "time"),
            alt.Tooltip("told:N", title=name),
            alt.Tooltip("limit:N", title="threshold"),
        ],
    )
    line = base.mark_line(point=True, color=BLUE).encode(y=alt.Y("value:Q", axis=scale))
    limit = (
        base.transform_filter("isValid(datum.bound)")
        .mark_line(color=VERMILION, strokeDash=THRESHOLD_DASH, strokeWidth=1.5)
        .encode(y=alt.Y("bound:Q", axis=scale))
    )
    return layered(line, limit, *alert_rules(marks, axis), height=OVER_TIME_PX)


def _bytes_across(title: str, *columns: pd.Series) -> alt.Axis:
    """As `bytes_axis`, along the bars."""
    upright = bytes_axis(title, *columns)
    return alt.Axis(title=title, values=upright["values"], labelExpr=upright["labelExpr"])


def _unit(name: str) -> tuple[float, str]:
    """(What values are divided by, the axis's title)."""
    unit = unit_of(name)
    if unit is Unit.DURATION:
        return 1_000.0, f"{name.removesuffix('_ms')} (seconds)"
    return 1.0, name.removesuffix("_bytes") if unit is Unit.SIZE else name


__all__ = ["OVER_TIME_PX", "over_time", "subject_bars"]
