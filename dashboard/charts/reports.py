"""Charts of the reports: how slow hosts are, map output of the whole cluster that waits."""

from __future__ import annotations

import altair as alt
import pandas as pd

from dashboard.charts.axes import (
    BLUE,
    GREY,
    VERMILION,
    TimeAxis,
    bytes_axis,
    distinct_labels,
    layered,
    top_legend,
    y_axis,
)
from dashboard.units import size_texts

MAX_HOSTS = 40


def host_chart(hosts: pd.DataFrame, straggler_ratio: float) -> alt.LayerChart:
    """Ratio of the hosts' attempts to what their jobs expect: a point for the median, a line from the end of its
    confidence interval to what 90 % of the attempts stay below; rules at 1 (as expected) and at a straggler's ratio.

    `hosts` as of the report's table, the slowest first; the first MAX_HOSTS are drawn.
    """
    shown = hosts.head(MAX_HOSTS)
    labels = distinct_labels(shown["host"].tolist())
    data = shown.assign(label=labels)[["label", "median_ratio", "low_ratio", "p90_ratio", "n_attempts", "n_stragglers"]]
    y = alt.Y("label:N", sort=labels, axis=y_axis("Host"))
    tips = [
        alt.Tooltip("label:N", title="host"),
        alt.Tooltip("median_ratio:Q", title="median ratio", format=".2f"),
        alt.Tooltip("low_ratio:Q", title="surely at least", format=".2f"),
        alt.Tooltip("p90_ratio:Q", title="90 % below", format=".2f"),
        alt.Tooltip("n_attempts:Q", title="attempts", format=",d"),
        alt.Tooltip("n_stragglers:Q", title="stragglers", format=",d"),
    ]
    scale = alt.Scale(zero=True, nice=True)
    base = alt.Chart(data).encode(y=y, tooltip=tips)
    title = "Time taken / time expected"
    lines = base.mark_rule(strokeWidth=2, color=GREY).encode(
        x=alt.X("low_ratio:Q", title=title, scale=scale), x2="p90_ratio"
    )
    points = base.mark_point(filled=True, size=90, opacity=1, color=BLUE).encode(x=alt.X("median_ratio:Q"))
    limits = pd.DataFrame({"at": [1.0, straggler_ratio], "what": ["as expected", "straggler"]})
    rules = (
        alt.Chart(limits)
        .mark_rule(strokeDash=[4, 3])
        .encode(
            x="at:Q",
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=["as expected", "straggler"], range=[GREY, VERMILION]),
                legend=top_legend(None),
            ),
            tooltip=[alt.Tooltip("what:N", title="line"), alt.Tooltip("at:Q", title="ratio")],
        )
    )
    return layered(lines, points, rules, height=max(60, 22 * len(labels)))


def cluster_queue_chart(queue: pd.DataFrame, axis: TimeAxis) -> alt.LayerChart:
    """Map output that waits, by windows; a band up to what jobs of unseen fetches may have waiting besides.

    `queue`: t_ms (end of a window), low, high (bytes), n_waiting, n_unknown.
    """
    sizes = {"at_least": size_texts(queue["low"]), "at_most": size_texts(queue["high"])}
    data = axis.data(queue.assign(**sizes), ["t_ms"])
    tips = [
        axis.tip("t_ms", "until"),
        alt.Tooltip("at_least:N", title="at least"),
        alt.Tooltip("at_most:N", title="at most"),
        alt.Tooltip("n_waiting:Q", title="jobs with data that waits", format=",d"),
        alt.Tooltip("n_unknown:Q", title="jobs that are not known", format=",d"),
    ]
    base = alt.Chart(data).encode(x=axis.x("t_ms"), tooltip=tips)
    y = alt.Y("low:Q", axis=bytes_axis("Queued map output", queue["low"], queue["high"]))
    layers = [
        base.mark_area(interpolate="step-after", opacity=0.15, color=BLUE).encode(y=y),
        base.mark_line(interpolate="step-after", color=BLUE).encode(y=y),
    ]
    if len(data) and (data["low"] != data["high"]).any():
        layers.append(base.mark_area(interpolate="step-after", opacity=0.3, color=BLUE).encode(y=y, y2="high:Q"))
    return layered(*layers, height=260)


__all__ = ["cluster_queue_chart", "host_chart"]
