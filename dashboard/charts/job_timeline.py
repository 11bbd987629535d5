"""Attempts of a job as bars by host, the density of many attempts, and fetches by source host."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dashboard.charts.axes import (
    BLUE,
    FIT_WIDTH,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    TimeAxis,
    distinct_labels,
    group,
    layered,
    top_legend,
    y_axis,
)
from dashboard.charts.marks import AlertMark, alert_rules
from dashboard.cluster.bins import TimeBins
from dashboard.units import duration_texts, size_texts
from engine.events import Float64Array

STATUSES = {
    "SUCCEEDED": (BLUE, "circle"),
    "RUNNING": (GREEN, "triangle-right"),
    "FAILED": (VERMILION, "cross"),
    "KILLED": (PURPLE, "square"),
    "NO END SEEN": (GREY, "triangle-right"),
    "UNKNOWN": (GREY, "diamond"),
}
PHASES = {"shuffle": ORANGE, "sort": YELLOW, "reduce": SKY}
MAX_HEIGHT_PX = 1_000
TIMES = ("start_lo_ms", "start_hi_ms", "end_lo_ms", "end_hi_ms")


def attempt_chart(attempts: pd.DataFrame, axis: TimeAxis, marks: Sequence[AlertMark] = ()) -> alt.LayerChart:
    """Bars by host and lane; `attempts` as of job_data.attempts with `lane`, `straggler` ("", or why it is one) and
    `limit_ms` (how long the rule for stragglers lets it run).

    Colour and end mark tell the status, a frame the stragglers, with a tick where each passed its limit, an inner
    stripe the phases of a reducer; pale ends are times that are only known to lie within an interval.
    """
    rows = _with_rows(attempts)
    rows = rows.assign(limit_at=rows["start_lo_ms"].astype(float) + rows["limit_ms"].astype(float))
    order = list(dict.fromkeys(rows.sort_values(["host_order", "lane"])["row"]))
    first_lanes = list(dict.fromkeys(rows[rows["lane"] == 0].sort_values("host_order")["row"]))
    # Of a host that has many lanes only the first is labelled.
    y = alt.Y(
        "row:O",
        scale=alt.Scale(domain=order, paddingInner=0.15),
        axis=y_axis("Host", values=first_lanes, ticks=True, grid=True),
    )
    data = axis.data(rows, (*TIMES, "limit_at"))
    data = data.assign(sure_from=data["start_hi_ms"], sure_to=np.maximum(data["start_hi_ms"], data["end_lo_ms"]))
    present = [status for status in STATUSES if status in set(data["status"])]
    status_scale = alt.Scale(domain=present, range=[STATUSES[status][0] for status in present])
    shape_scale = alt.Scale(domain=present, range=[STATUSES[status][1] for status in present])
    legend = top_legend("status", symbolType="square", symbolSize=110, symbolOpacity=1, symbolStrokeWidth=0)
    colour = alt.Color("status:N", scale=status_scale, legend=legend)
    columns = ["row", "attempt", "host_label", "kind", "status", "took", "straggler", "progress"]
    bars = data[[*columns, *TIMES, "limit_at", "sure_from", "sure_to"]]
    base = alt.Chart(bars).encode(y=y, tooltip=_tips(axis))
    layers = [base.mark_bar().encode(x=axis.x("sure_from"), x2="sure_to", color=colour)]
    layers += _unsure_ends(bars, axis, y, colour)
    framed = bars[bars["straggler"] != ""]
    if len(framed):
        frame = alt.Chart(framed.assign(mark="straggler")).mark_bar(fillOpacity=0, strokeWidth=1.5)
        stroke = alt.Scale(domain=["straggler"], range=[ORANGE])
        layers.append(
            frame.encode(
                y=y,
                x=axis.x("start_lo_ms"),
                x2="end_hi_ms",
                stroke=alt.Stroke("mark:N", scale=stroke, legend=top_legend(None)),
                tooltip=_tips(axis),
            )
        )
        passed = framed[framed["limit_at"] < framed["end_hi_ms"]]
        if len(passed):
            tick = alt.Chart(passed).mark_tick(color=VERMILION, thickness=2.5)
            tips = [alt.Tooltip("attempt:N", title="attempt"), axis.tip("limit_at", "straggler by the rule from")]
            layers.append(tick.encode(y=y, x=axis.x("limit_at"), tooltip=tips))
    marked = bars[(bars["status"] != "SUCCEEDED") & bars.index.isin(axis.within(rows, "end_hi_ms").index)]
    if len(marked):
        shape = alt.Shape("status:N", scale=shape_scale, legend=None)  # the page tells what the marks mean
        ends = alt.Chart(marked).mark_point(filled=True, size=70, opacity=1, stroke="white", strokeWidth=0.7)
        layers.append(ends.encode(y=y, x=axis.x("end_hi_ms"), color=colour, shape=shape, tooltip=_tips(axis)))
    layers += alert_rules(marks, axis)
    per_row_px = min(18.0, max(6.0, MAX_HEIGHT_PX / max(1, len(order))))
    height = max(30, round(len(order) * per_row_px))
    phases = _phases(data, axis, y)
    if phases is None:
        return layered(*layers, height=height)
    return layered(group(*layers), phases, height=height, independent=("color",))


def density_chart(occupied: Float64Array, hosts: Sequence[str | None], bins: TimeBins, axis: TimeAxis) -> Any:
    """How many attempts each host runs, averaged over each column; shape (hosts, bins.n)."""
    labels = distinct_labels(hosts)
    host, column = np.nonzero(occupied)
    left_ms = bins.start_ms + column * bins.width_ms
    frame = pd.DataFrame(
        {
            "host": pd.Categorical.from_codes(host.tolist(), categories=pd.Index(labels)),
            "from_ms": left_ms.astype(np.float64),
            "to_ms": (left_ms + bins.width_ms).astype(np.float64),
            "n": occupied[host, column].round(2),
        }
    )
    return (
        alt.Chart(axis.data(frame, ["from_ms", "to_ms"]))
        .mark_rect()
        .encode(
            x=axis.x("from_ms"),
            x2="to_ms",
            y=alt.Y("host:N", scale=alt.Scale(domain=labels), sort=None, axis=y_axis("Host", labelOverlap=True)),
            color=alt.Color(
                "n:Q",
                scale=alt.Scale(scheme="viridis", domainMin=0),
                legend=top_legend("attempts that run", gradientLength=200),
            ),
            tooltip=[
                alt.Tooltip("host:N", title="host"),
                axis.tip("from_ms", "from"),
                axis.tip("to_ms", "to"),
                alt.Tooltip("n:Q", title="attempts, on average", format=",.2f"),
            ],
        )
        .properties(height=int(min(600, max(80, 16 * len(labels)))), autosize=FIT_WIDTH)
    )


def fetch_chart(
    pulls: pd.DataFrame,
    hosts: list[str],
    axis: TimeAxis,
    blamed: Collection[str] = (),
    marks: Sequence[AlertMark] = (),
) -> Any:
    """Fetches of map output as bars by the host that served them; `hosts` from the top, `blamed` ones with a mark; the
    longer, the brighter."""
    named = distinct_labels(hosts)
    labels = {host: f"▶ {label}" if host in blamed else label for host, label in zip(hosts, named, strict=True)}
    shown = pulls.assign(source_host=pulls["source_host"].fillna(""))
    shown = shown[shown["source_host"].isin(labels)]
    data = axis.data(shown, ["t_from_ms", "t_to_ms"]).assign(
        host=shown["source_host"].map(labels),
        reducer=distinct_labels(shown["attempt_id"].tolist(), 80),
        mapper=distinct_labels(shown["map_attempt_id"].tolist(), 80),
        period_s=shown["period_ms"] / 1000,
        took=duration_texts(shown["period_ms"]),
        size=size_texts(shown["bytes"]),
    )
    columns = ["host", "reducer", "mapper", "size", "took", "period_s", "t_from_ms", "t_to_ms"]
    base = alt.Chart(data[columns]).encode(
        y=alt.Y("host:N", scale=alt.Scale(domain=list(labels.values())), sort=None, axis=y_axis("Served by host")),
        color=alt.Color(
            "period_s:Q",
            scale=alt.Scale(scheme="viridis", domainMin=0),
            legend=top_legend("duration of the fetch (s)", gradientLength=200),
        ),
        tooltip=[
            alt.Tooltip("host:N", title="served by"),
            alt.Tooltip("mapper:N", title="output of"),
            alt.Tooltip("reducer:N", title="fetched by"),
            alt.Tooltip("size:N", title="size"),
            alt.Tooltip("took:N", title="duration"),
            axis.tip("t_to_ms", "done"),
        ],
    )
    bars = base.mark_bar(opacity=0.85).encode(x=axis.x("t_from_ms"), x2="t_to_ms")
    ends = base.mark_tick(thickness=2).encode(x=axis.x("t_to_ms"))  # the shortest bars are thinner than a pixel
    return layered(bars, ends, *alert_rules(marks, axis), height=fetches_px(len(labels)))


def fetches_px(n_hosts: int) -> int:
    """Height of the chart of fetches from so many hosts."""
    return max(40, 22 * n_hosts)


def _with_rows(attempts: pd.DataFrame) -> pd.DataFrame:
    """With the columns that marks and tooltips need; a row of the chart is a lane of a host."""
    hosts = distinct_labels([None if pd.isna(host) else str(host) for host in attempts["host"]])
    host_order = pd.Series(hosts, index=attempts.index, dtype=object)
    order = {host: place for place, host in enumerate(sorted(set(hosts), key=lambda host: (len(host), host)))}
    lane = attempts["lane"].astype(int)
    row = [host if n == 0 else f"{host} · {n + 1}" for host, n in zip(hosts, lane, strict=True)]
    return attempts.assign(
        host_label=hosts,
        host_order=host_order.map(order),
        row=row,
        attempt=distinct_labels(attempts["attempt_id"].tolist(), 80),
        took=duration_texts(attempts["duration_ms"]),
    )


def _tips(axis: TimeAxis) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("attempt:N", title="attempt"),
        alt.Tooltip("host_label:N", title="host"),
        alt.Tooltip("status:N", title="status"),
        alt.Tooltip("straggler:N", title="straggler"),
        alt.Tooltip("took:N", title="duration"),
        alt.Tooltip("progress:Q", title="progress", format=".0%"),
        axis.tip("start_lo_ms", "begun, earliest"),
        axis.tip("start_hi_ms", "begun, latest"),
        axis.tip("end_lo_ms", "end, earliest"),
        axis.tip("end_hi_ms", "end, latest"),
    ]


def _unsure_ends(bars: pd.DataFrame, axis: TimeAxis, y: alt.Y, colour: alt.Color) -> list[Any]:
    """Pale bars where an attempt may have run."""
    found = []
    for begin, end in (("start_lo_ms", "sure_from"), ("sure_to", "end_hi_ms")):
        part = bars[bars[begin] < bars[end]]
        if len(part):
            pale = alt.Chart(part).mark_bar(opacity=0.35)
            found.append(pale.encode(y=y, x=axis.x(begin), x2=end, color=colour, tooltip=_tips(axis)))
    return found


def _phases(data: pd.DataFrame, axis: TimeAxis, y: alt.Y) -> Any:
    """A stripe per known phase of a reducer, back from its end: a log may tell its begin later than the history."""
    per_second = 1.0 if axis.since_ms is None else 1 / 1000
    end = data["end_lo_ms"]
    parts = []
    for phase in reversed(PHASES):
        length = data[f"{phase}_ms"].astype(float) * per_second
        known = length.notna() & end.notna()
        begin = np.maximum(end - length, data["start_lo_ms"])
        part = data[known].assign(phase=phase, phase_from=begin[known], phase_to=np.maximum(begin, end)[known])
        parts.append(part.assign(took=duration_texts(data.loc[known, f"{phase}_ms"])))
        end = end - length
    stripes = pd.concat(parts)[["row", "attempt", "phase", "phase_from", "phase_to", "took"]]
    if not len(stripes):
        return None
    return (
        alt.Chart(stripes)
        .mark_bar(height={"band": 0.3})
        .encode(
            y=y,
            x=axis.x("phase_from"),
            x2="phase_to",
            color=alt.Color(
                "phase:N",
                scale=alt.Scale(domain=list(PHASES), range=list(PHASES.values())),
                legend=top_legend("phase of a reducer"),
            ),
            tooltip=[
                alt.Tooltip("attempt:N", title="attempt"),
                alt.Tooltip("phase:N", title="phase"),
                alt.Tooltip("took:N", title="duration"),
            ],
        )
    )


__all__ = ["attempt_chart", "density_chart", "fetch_chart", "fetches_px"]
