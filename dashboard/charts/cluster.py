"""The cluster over time: heat map of hosts, LoadStd with imbalance episodes, alerts."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from app.durations import size_unit
from dashboard.charts.axes import (
    BLUE,
    CATEGORIES,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    TimeAxis,
    distinct_labels,
    group,
    layered,
    top_legend,
    y_axis,
)
from dashboard.charts.drawn import specification
from dashboard.cluster.data import SERIES, HeatMap
from dashboard.text import inert

SELECTION = "cell"
"""Name of the selection: a click on a row of the heat map, field `place`."""

NUMBER_LABEL = "abs(datum.value) >= 1000 ? format(datum.value, '~s') : format(datum.value, '~g')"
"""Thousands as k; small numbers as they are, not in thousandths."""

SEVERITIES = {"critical": VERMILION, "warning": ORANGE, "info": SKY}
NODE_MARKS = {
    "NodeLost": (VERMILION, "cross"),
    "NodeUnhealthy": (ORANGE, "triangle-up"),
    "ContainerKilled": (PURPLE, "square"),
}


def row_labels(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    """A label per row: the host's name, or the first and the number of a group's hosts."""
    labels = distinct_labels([row[0] for row in rows], 30)
    return [label if len(row) == 1 else f"{label} +{len(row) - 1}" for label, row in zip(labels, rows, strict=True)]


def heat_chart(found: HeatMap, metric: str, unit: str, marks: pd.DataFrame, axis: TimeAxis) -> alt.LayerChart:
    """Hosts over time; cells without any sample are grey, whatever the colours of values.

    `marks` as of cluster_data.node_marks.
    """
    labels = row_labels(found.rows)
    place, column = (array.ravel() for array in np.indices(found.value.shape))
    left_ms = found.bins.start_ms + column * found.bins.width_ms
    value = found.value.ravel()
    cells = pd.DataFrame(
        {
            "place": place.astype(np.int16),
            "host": pd.Categorical.from_codes(place.tolist(), categories=pd.Index(labels)),
            "from_ms": left_ms.astype(np.float64),
            "to_ms": (left_ms + found.bins.width_ms).astype(np.float64),
            "value": value.astype(np.float32),
            "coverage": found.coverage.ravel().astype(np.float32),
        }
    )
    cells = axis.data(cells, ["from_ms", "to_ms"])
    there, missing = cells[~np.isnan(value)], cells[np.isnan(value)]
    y = alt.Y(
        "host:N",
        scale=alt.Scale(domain=labels, padding=0.0),
        sort=None,
        axis=y_axis("Host", labelOverlap=True, ticks=False, domain=False),
    )
    unit_text = f" ({inert(unit, 20)})" if unit else ""
    title = f"{inert(metric, 40)}{unit_text}"
    picked = alt.selection_point(name=SELECTION, fields=["place"], on="click", empty=False)
    span = [alt.Tooltip("host:N", title="host"), axis.tip("from_ms", "after"), axis.tip("to_ms", "until")]
    filled = (
        alt.Chart(there)
        .mark_rect()
        .encode(
            x=axis.x("from_ms"),
            x2="to_ms",
            y=y,
            color=alt.Color(
                "value:Q",
                scale=alt.Scale(scheme="viridis", domain=value_domain(found, unit)),
                legend=top_legend(f"{title}, {found.aggregation} of the cell", gradientLength=260),
            ),
            tooltip=[
                *span,
                alt.Tooltip("value:Q", title=title, format=",.3~f"),
                alt.Tooltip("coverage:Q", title="covered by samples", format=".0%"),
            ],
        )
        .add_params(picked)
    )
    layers: list[Any] = [filled]
    if len(missing):
        layers.append(_constant(missing.assign(kind="no sample"), axis, y, span))
    if len(marks):
        layers.append(_node_layer(marks, found.rows, labels, axis, y))
    return layered(*layers, height=heat_px(len(labels)), independent=("color", "shape"))


def heat_px(n_rows: int) -> int:
    """Height of a heat map of so many rows."""
    return min(900, max(90, (20 if n_rows <= 40 else 5) * n_rows))


def value_domain(found: HeatMap, unit: str) -> list[float]:
    """Of the colours: 0 to 100 for a percentage, else from 0 (or the least negative value) to the greatest."""
    known = found.value[~np.isnan(found.value)]
    if unit == "%":
        return [0.0, max(100.0, float(known.max()) if len(known) else 100.0)]
    if not len(known):
        return [0.0, 1.0]
    low, high = min(0.0, float(known.min())), float(known.max())
    return [low, high if high > low else low + 1.0]


def load_chart(load: pd.DataFrame, bands: pd.DataFrame, axis: TimeAxis, unit: str = "") -> alt.LayerChart:
    """Standard deviation over the hosts in `unit`, each step as wide as its interval, over bands of imbalance."""
    n_clusters = max(load["cluster"].nunique(), bands["cluster"].nunique()) if len(load) or len(bands) else 0
    names = _series_names(load, of_many=n_clusters > 1)
    data = axis.data(load, ["t_from_ms", "t_to_ms"]).assign(series=names)
    data = data[["series", "t_from_ms", "t_to_ms", "mean", "low", "high", "n_steps", "n_missing"]]
    data = data.astype(dict.fromkeys(("mean", "low", "high", "n_steps", "n_missing"), float))
    known = list(dict.fromkeys(names))
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=known, range=[CATEGORIES[n % len(CATEGORIES)] for n in range(len(known))]),
        legend=top_legend("LoadStd of"),
    )
    y = alt.Y("mean:Q", axis=y_axis(f"Standard deviation ({unit})" if unit else "Standard deviation", tickCount=4))
    tips = [
        alt.Tooltip("series:N", title="LoadStd of"),
        axis.tip("t_from_ms", "from"),
        axis.tip("t_to_ms", "to"),
        alt.Tooltip("mean:Q", title="mean", format=",.3f"),
        alt.Tooltip("low:Q", title="least", format=",.3f"),
        alt.Tooltip("high:Q", title="greatest", format=",.3f"),
        alt.Tooltip("n_steps:Q", title="steps", format=",d"),
        alt.Tooltip("n_missing:Q", title="hosts without a sample", format=",d"),
    ]
    base = alt.Chart(data).encode(y=y, color=colour)
    lines: list[Any] = []
    if len(data) and (data["low"] != data["high"]).any():
        band = base.mark_rect(opacity=0.25)
        lines.append(band.encode(x=axis.x("t_from_ms"), x2="t_to_ms", y=alt.Y("low:Q"), y2="high:Q"))
    lines.append(base.mark_line(strokeWidth=1, interpolate="step-before").encode(x=axis.x("t_to_ms")))
    lines.append(base.mark_rule(strokeWidth=3).encode(x=axis.x("t_from_ms"), x2="t_to_ms", tooltip=tips))
    if not len(bands):
        return layered(*lines, height=150)
    behind = _band_layer(bands, axis, of_many=n_clusters > 1)
    return layered(behind, group(*lines), height=150, independent=("color",))


def alert_chart(alerts: pd.DataFrame, axis: TimeAxis) -> alt.LayerChart:
    """Episodes of alerts by query; `alerts`: query, severity, state, summary, t_from_ms, t_to_ms."""
    labels = distinct_labels(alerts["query"].tolist())
    told = alerts.assign(query=labels, summary=[inert(text, 120) for text in alerts["summary"]])
    told = told[["query", "severity", "state", "summary", "t_from_ms", "t_to_ms"]]
    times = ["t_from_ms", "t_to_ms"]
    data = axis.data(told, times)
    present = [name for name in SEVERITIES if name in set(data["severity"])]
    base = alt.Chart(data).encode(
        y=alt.Y("query:N", sort=None, axis=y_axis("Alerts of", ticks=False)),
        x=axis.x("t_from_ms", title=False),
        color=alt.Color(
            "severity:N",
            scale=alt.Scale(domain=present, range=[SEVERITIES[name] for name in present]),
            legend=top_legend("alerts"),
        ),
        tooltip=[
            alt.Tooltip("query:N", title="query"),
            alt.Tooltip("summary:N", title="summary"),
            alt.Tooltip("severity:N", title="severity"),
            alt.Tooltip("state:N", title="state"),
            axis.tip("t_from_ms", "from"),
            axis.tip("t_to_ms", "to"),
        ],
    )
    bars = base.mark_bar(height=8, opacity=0.8).encode(x2="t_to_ms")
    starts = base.properties(data=axis.data(axis.within(told, "t_from_ms"), times))
    starts = starts.mark_point(shape="triangle-down", filled=True, size=70, opacity=1)
    return layered(bars, starts, height=max(40, 20 * len(set(labels))))


def host_chart(series: pd.DataFrame, name: str, unit: str, axis: TimeAxis) -> dict[str, Any]:
    """One metric of one host: samples as wide as their intervals; binned ones with a band of least and greatest.

    Its specification for `draw`: a page has dozens, which differ in their data, title and scale.
    """
    columns = ["t_from_ms", "t_to_ms", "mean", "low", "high", "n_steps"]
    data = axis.data(series, ["t_from_ms", "t_to_ms"])[columns]
    data = data.astype(dict.fromkeys(("mean", "low", "high", "n_steps"), float))
    if len(data) and unit in _BYTES:
        n_bytes, name_of_unit = size_unit(float(data["high"].max()))
        data[["mean", "low", "high"]] /= n_bytes
        unit = f"{name_of_unit}{_BYTES[unit]}"
    unit_text = f" ({inert(unit, 20)})" if unit else ""
    low, high = (0.0, 0.0) if not len(data) else (min(0.0, float(data["low"].min())), float(data["high"].max()))
    domain = json.dumps([low, high if high > low else low + 1.0])
    title = f"{inert(name, 40)}{unit_text}"
    has_band = bool(len(data)) and bool((data["low"] != data["high"]).any())
    text = _host_chart(axis, has_band).replace(json.dumps([_DOMAIN]), domain)
    spec = json.loads(text.replace(json.dumps(_TITLE), json.dumps(title)))
    if len(title) > TITLE_CHARS:  # of two lines, as a narrow window would cut it
        spec["title"]["text"] = [inert(name, 40), unit_text.strip()]
    return {**spec, "datasets": {_SERIES: data}}


_BYTES = {"bytes": "", "bytes/sec": "/s"}
"""Units that are shown as KiB, MiB and so on, with what stands behind."""

TITLE_CHARS = 18
"""What stands in one line above a chart of a third of a window of 800 pixels."""

_DOMAIN, _TITLE, _SERIES = "<domain>", "<title>", "series"
"""What stands for a chart's own. The title, which may look like either, is put in last."""


@lru_cache(maxsize=64)
def _host_chart(axis: TimeAxis, has_band: bool) -> str:
    """The specification that all charts of a host share, as JSON."""
    y = alt.Y(
        "mean:Q",
        axis=alt.Axis(title=None, tickCount=4, labelExpr=NUMBER_LABEL, minExtent=45, maxExtent=45),
        scale=alt.Scale(domain=[_DOMAIN]),
    )
    tips = [
        axis.tip("t_from_ms", "from"),
        axis.tip("t_to_ms", "to"),
        alt.Tooltip("mean:Q", title=_TITLE, format=",.3~f"),
        alt.Tooltip("low:Q", title="least", format=",.3~f"),
        alt.Tooltip("high:Q", title="greatest", format=",.3~f"),
        alt.Tooltip("n_steps:Q", title="samples", format=",d"),
    ]
    base = alt.Chart().encode(y=y)
    layers: list[Any] = []
    if has_band:
        band = base.mark_rect(opacity=0.25, color=BLUE)
        layers.append(band.encode(x=axis.x("t_from_ms"), x2="t_to_ms", y=alt.Y("low:Q"), y2="high:Q"))
    layers.append(base.mark_line(strokeWidth=1, interpolate="step-before", color=BLUE).encode(x=axis.x("t_to_ms")))
    rule = base.mark_rule(strokeWidth=3, color=BLUE)
    layers.append(rule.encode(x=axis.x("t_from_ms", title=False), x2="t_to_ms", tooltip=tips))
    chart = layered(*layers, height=130).properties(
        data=alt.NamedData(_SERIES), title=alt.TitleParams(_TITLE, fontSize=12, anchor="start", frame="bounds")
    )
    return json.dumps(specification(chart))


def _constant(missing: pd.DataFrame, axis: TimeAxis, y: alt.Y, span: list[alt.Tooltip]) -> Any:
    colour = alt.Color("kind:N", scale=alt.Scale(domain=["no sample"], range=[GREY]), legend=top_legend(None))
    return (
        alt.Chart(missing[["host", "from_ms", "to_ms", "kind"]])
        .mark_rect(opacity=0.3)
        .encode(
            x=axis.x("from_ms"), x2="to_ms", y=y, color=colour, tooltip=[*span, alt.Tooltip("kind:N", title="value")]
        )
    )


def _node_layer(
    marks: pd.DataFrame, rows: tuple[tuple[str, ...], ...], labels: list[str], axis: TimeAxis, y: alt.Y
) -> Any:
    row_of = {host: label for row, label in zip(rows, labels, strict=True) for host in row}
    shown = marks[marks["host"].isin(row_of)]
    shown = shown.assign(at_ms=shown["t_from_ms"].clip(lower=axis.from_ms))  # when it may have been, within the span
    data = axis.data(shown, ["at_ms", "t_from_ms", "t_to_ms"]).assign(
        on=[inert(host, 60) for host in shown["host"]],
        host=shown["host"].map(row_of),
        reason=[inert(reason, 120) for reason in shown["reason"]],
    )
    present = [name for name in NODE_MARKS if name in set(data["type"])]
    colours, shapes = ([NODE_MARKS[name][part] for name in present] for part in (0, 1))
    legend = top_legend("events of nodes")
    return (
        alt.Chart(data[["type", "host", "on", "reason", "at_ms", "t_from_ms", "t_to_ms"]])
        .mark_point(filled=True, size=110, opacity=1, stroke="white", strokeWidth=1)
        .encode(
            x=axis.x("at_ms"),
            y=y,
            color=alt.Color("type:N", scale=alt.Scale(domain=present, range=colours), legend=legend),
            shape=alt.Shape("type:N", scale=alt.Scale(domain=present, range=shapes), legend=legend),
            tooltip=[
                alt.Tooltip("type:N", title="event"),
                alt.Tooltip("on:N", title="host"),
                alt.Tooltip("reason:N", title="reason"),
                axis.tip("t_from_ms", "from"),
                axis.tip("t_to_ms", "to"),
            ],
        )
    )


def _band_layer(bands: pd.DataFrame, axis: TimeAxis, *, of_many: bool) -> Any:
    data = axis.data(bands, ["t_from_ms", "t_to_ms"]).assign(
        series=_series_names(bands, of_many=of_many),
        kind="imbalance",
        busy_ratio=bands["busy_ratio"].astype(float),
        n_steps=bands["n_steps"].astype(float),
    )
    colour = alt.Color("kind:N", scale=alt.Scale(domain=["imbalance"], range=[ORANGE]), legend=top_legend(None))
    return (
        alt.Chart(data[["series", "kind", "t_from_ms", "t_to_ms", "n_steps", "busy_ratio"]])
        .mark_rect(opacity=0.3)
        .encode(
            x=axis.x("t_from_ms"),
            x2="t_to_ms",
            color=colour,
            tooltip=[
                alt.Tooltip("series:N", title="imbalance of"),
                axis.tip("t_from_ms", "from"),
                axis.tip("t_to_ms", "to"),
                alt.Tooltip("n_steps:Q", title="steps", format=",d"),
                alt.Tooltip("busy_ratio:Q", title="busy hosts, on average", format=".0%"),
            ],
        )
    )


def _series_names(frame: pd.DataFrame, *, of_many: bool) -> list[str]:
    """The metric, with the cluster's name when there are several."""
    pairs = zip(*(frame[name].tolist() for name in SERIES), strict=True)
    return distinct_labels([f"{metric} ({cluster})" if of_many and cluster else metric for metric, cluster in pairs])


__all__ = ["SELECTION", "alert_chart", "heat_chart", "heat_px", "host_chart", "load_chart", "row_labels"]
