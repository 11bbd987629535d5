"""Values of windows over time, with the threshold of HAVING."""

from __future__ import annotations

import altair as alt
import pandas as pd

from dashboard.charts.axes import CATEGORIES, VERMILION, TimeAxis, layered, top_legend, y_axis
from dashboard.text import inert

POWER_LABEL = "'10^' + format(datum.value, '~g')"


def window_chart(
    data: pd.DataFrame, name: str, thresholds: pd.DataFrame, axis: TimeAxis, *, in_powers: bool
) -> alt.LayerChart:
    """A line per group over the ends of windows; marked are those that HAVING lets through.

    data: group, end_ms, y, told (the value with its unit), is_let_through, piece (windows that follow each other).
    thresholds: y, told. in_powers: `y` are powers of ten.
    """
    groups = list(dict.fromkeys(data["group"]))
    points = axis.data(data, ["end_ms"])
    title = inert(name, 60)
    power = {"labelExpr": POWER_LABEL} if in_powers else {}
    y = alt.Y("y:Q", axis=y_axis(title, tickCount=5, **power), scale=alt.Scale(zero=not in_powers))
    colours = alt.Scale(domain=groups, range=[CATEGORIES[n % len(CATEGORIES)] for n in range(len(groups))])
    legend = top_legend(None) if len(groups) > 1 else None
    base = alt.Chart(points).encode(
        x=axis.x("end_ms"),
        y=y,
        color=alt.Color("group:N", scale=colours, legend=legend),
        tooltip=[
            alt.Tooltip("group:N", title="group"),
            axis.tip("end_ms", "window until"),
            alt.Tooltip("told:N", title=title),
            alt.Tooltip("is_let_through:N", title="let through by HAVING"),
        ],
    )
    layers = [
        base.mark_line(strokeWidth=1).encode(detail="piece:N"),
        base.transform_filter("!datum.is_let_through").mark_point(size=12, filled=True),
        base.transform_filter("datum.is_let_through").mark_point(size=55, filled=True, shape="diamond"),
    ]
    if len(thresholds):
        lines = alt.Chart(thresholds).encode(y=y)
        layers.append(lines.mark_rule(color=VERMILION, strokeDash=[6, 4]))
        told = lines.mark_text(color=VERMILION, align="left", dx=6, dy=-7, fontSize=12)
        layers.append(told.encode(x=alt.value(0), text="told:N"))
    return layered(*layers, height=230)


__all__ = ["window_chart"]
