"""Life times, begun and finished attempts, and queued data of jobs (SASE++, Figure 7 a to d)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from dashboard.charts.axes import BLUE, CATEGORIES, ORANGE, TimeAxis, bytes_axis, layered, top_legend, y_axis
from dashboard.charts.marks import AlertMark, Threshold, alert_rules, threshold_rules
from dashboard.units import size_texts

KIND_NAMES = {"MAP": "mappers", "REDUCE": "reducers"}
KIND_COLOURS = alt.Scale(domain=list(KIND_NAMES.values()), range=[BLUE, ORANGE])


def life_time_chart(lives: pd.DataFrame, title: str, limits: Sequence[Threshold] = ()) -> alt.LayerChart:
    """Share of attempts that ran at most so long, a line per job; `lives`: job, life_ms, n, share (Figure 7 a, b).

    `limits`: in seconds.
    """
    data = lives.assign(life_s=lives["life_ms"].astype(float) / 1000)[["job", "life_s", "n", "share"]]
    names = list(dict.fromkeys(data["job"]))
    base = alt.Chart(data).encode(
        x=alt.X("life_s:Q", title="Running time (s)", scale=alt.Scale(nice=True, zero=True)),
        y=alt.Y("share:Q", title=f"Share of {title}", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color(
            "job:N",
            scale=alt.Scale(domain=names, range=[CATEGORIES[n % len(CATEGORIES)] for n in range(len(names))]),
            legend=top_legend(None, columns=1) if len(names) > 1 else None,
        ),
        tooltip=[
            alt.Tooltip("job:N", title="job"),
            alt.Tooltip("life_s:Q", title="at most (s)", format=",.3f"),
            alt.Tooltip("share:Q", title="share", format=".1%"),
            alt.Tooltip("n:Q", title=title, format=",d"),
        ],
    )
    lines = (base.mark_line(interpolate="step-after"), base.mark_point(size=18, filled=True))
    return layered(*lines, *threshold_rules(limits, "x"), height=230)


def progress_chart(curves: pd.DataFrame, axis: TimeAxis, marks: Sequence[AlertMark] = ()) -> alt.LayerChart:
    """Attempts begun and finished so far; a band where times are intervals and the number is therefore not certain."""
    data = axis.data(curves, ["t_ms"]).assign(kind=curves["kind"].map(KIND_NAMES))
    colour = alt.Color("kind:N", scale=KIND_COLOURS, legend=top_legend(None))
    tips = [
        axis.tip("t_ms", "at"),
        alt.Tooltip("kind:N", title="attempts of"),
        alt.Tooltip("what:N", title="what"),
        alt.Tooltip("n_low:Q", title="at least", format=",d"),
        alt.Tooltip("n_high:Q", title="at most", format=",d"),
    ]
    dash = alt.StrokeDash(
        "what:N", scale=alt.Scale(domain=["begun", "finished"], range=[[4, 3], [1, 0]]), legend=top_legend(None)
    )
    base = alt.Chart(data).encode(x=axis.x("t_ms"), tooltip=tips)
    y = alt.Y("n_low:Q", axis=y_axis("Attempts so far", format=",d", tickMinStep=1))
    line = base.mark_line(interpolate="step-after").encode(y=y, color=colour, strokeDash=dash)
    layers = [line]
    if len(data) and (data["n_low"] != data["n_high"]).any():
        band = base.mark_area(interpolate="step-after", opacity=0.25)
        layers.insert(0, band.encode(y=y, y2="n_high:Q", color=colour, detail="what:N"))
    return layered(*layers, *alert_rules(marks, axis), height=220)


def queue_chart(
    curve: pd.DataFrame,
    peak: tuple[float, float] | None,
    axis: TimeAxis,
    marks: Sequence[AlertMark] = (),
    limits: Sequence[Threshold] = (),
) -> alt.LayerChart:
    """Map output that waits for reducers; a band where times are intervals (Figure 7 c, d). `limits`: in bytes."""
    sizes = {"at_least": size_texts(curve["bytes_low"]), "at_most": size_texts(curve["bytes_high"])}
    data = axis.data(curve.assign(**sizes), ["t_ms"])
    tips = [
        axis.tip("t_ms", "at"),
        alt.Tooltip("at_least:N", title="at least"),
        alt.Tooltip("at_most:N", title="at most"),
        alt.Tooltip("n_changes:Q", title="changes so far", format=",d"),
    ]
    base = alt.Chart(data).encode(x=axis.x("t_ms"), tooltip=tips)
    limited = pd.Series([limit.value for limit in limits], dtype=float)
    y = alt.Y("bytes_low:Q", axis=bytes_axis("Queued map output", curve["bytes_low"], curve["bytes_high"], limited))
    layers = [
        base.mark_area(interpolate="step-after", opacity=0.15, color=BLUE).encode(y=y),
        base.mark_line(interpolate="step-after", color=BLUE).encode(y=y),
    ]
    if len(data) and (data["bytes_low"] != data["bytes_high"]).any():
        band = base.mark_area(interpolate="step-after", opacity=0.3, color=BLUE)
        layers.append(band.encode(y=y, y2="bytes_high:Q"))
    if peak is not None:
        at_peak = {"t_ms": [peak[0]], "bytes_low": [peak[1]], "size": size_texts([peak[1]])}
        top = axis.data(pd.DataFrame(at_peak), ["t_ms"])
        mark = alt.Chart(top).encode(
            x=axis.x("t_ms"),
            y=y,
            tooltip=[axis.tip("t_ms", "peak at"), alt.Tooltip("size:N", title="size")],
        )
        layers.append(mark.mark_point(shape="triangle-down", filled=True, size=90, color=ORANGE, yOffset=-7))
    return layered(*layers, *threshold_rules(limits, "y"), *alert_rules(marks, axis), height=220)


__all__ = ["life_time_chart", "progress_chart", "queue_chart"]
