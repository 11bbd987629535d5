"""The cluster: hosts over time for a metric, the spread of the load, and one host more closely."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import pandas as pd
import streamlit as st

from app.alerting.lifecycle import State, state_text
from app.durations import format_size
from collectors.time_units import HOUR_MS, MINUTE_MS
from dashboard import links
from dashboard.charts.axes import TimeAxis
from dashboard.charts.cluster import SELECTION, alert_chart, heat_chart, heat_px, host_chart, load_chart
from dashboard.charts.drawn import draw
from dashboard.charts.job_timeline import attempt_chart
from dashboard.cluster.configured import further_metrics
from dashboard.cluster.data import Aggregation, HeatMap, HostOrder, heat_map, n_heat_rows, natural_key
from dashboard.cluster.hottest import LOAD, MEMORY, RATES, SHARES
from dashboard.cluster.reading import (
    PAUSE_STEPS,
    PROBE_MS,
    Load,
    MetricNames,
    known_hosts,
    metric_names,
    read_grid,
    read_host,
    read_hottest,
    read_load,
    read_node_marks,
)
from dashboard.events.source import EventSource, chosen_source, not_read
from dashboard.jobs.data import chosen_attempts, lanes
from dashboard.jobs.reading import LOOK_BACK_MS, read_attempts_on
from dashboard.on_sight import AROUND_PX, on_sight
from dashboard.static_table import Cell, Share, show_table
from dashboard.store import AlertFilter, AlertRow, live_store, settings
from dashboard.text import inert, md
from dashboard.times import duration, followed_span_picker, shown, zone

DEFAULT_SPAN_MS = HOUR_MS
REFRESH_S = 15
"""How often a span that follows looks whether there is more."""
MAX_HOTTEST = 12
LEAST_EPISODE_MS = MINUTE_MS
"""Imbalance that is over sooner is counted and not drawn: one task more or less makes it."""
MAX_ALERTS = 200
MAX_BARS = 300
MAX_METRICS = 24
N_BESIDE = 3
"""Metrics of a host in a row."""
LOAD_PX, HOST_PX, ATTEMPTS_PX = 300, 200, 250
"""What charts take, about; see `on_sight`."""
PREFERRED = ("cpu_user", "load_one")

AGGREGATIONS: tuple[Aggregation, ...] = ("mean", "max")
ORDERS: tuple[HostOrder, ...] = ("highest first", "name")


def page() -> None:
    """The heat map and what belongs to its span."""
    st.title("Cluster")
    source = chosen_source()
    if source is None:
        _nothing("No event is known.", "Enable one of them and start `clustercep run`")
        return
    log, known = source.events, source.span
    (from_ms, to_ms), follows = followed_span_picker("cluster", known, DEFAULT_SPAN_MS)
    if follows and log.is_live:
        _follow(known[1], log)
    names = metric_names(log, from_ms, to_ms)
    if not names.units:
        _nothing(
            f"There is no sample between {shown(from_ms)} and {shown(to_ms)}; what is known ends at {shown(known[1])}.",
            "Choose another span above",
        )
        return
    metric, aggregation, order, hosts_with = _choices(names)
    axis = TimeAxis(from_ms, to_ms, zone().key)
    marks, n_more = read_node_marks(log, from_ms, to_ms, hosts_with)
    hosts = sorted({*known_hosts(log, from_ms, to_ms, hosts_with), *marks["host"].tolist()}, key=natural_key)

    @cache  # what stands below the first screen is made when it is looked at, and by whichever part is first
    def found() -> HeatMap:
        with st.spinner("Reading samples", show_time=True):
            grid, step_ms = read_grid(log, metric, from_ms, to_ms, hosts_with)
        grid.know(list(dict.fromkeys(marks["host"].tolist())))
        return heat_map(grid, step_ms, aggregation, order, min(to_ms, known[1]))

    _hottest(read_hottest(log, from_ms, to_ms, hosts_with, further_metrics(settings())), names.units)
    _alerts(from_ms, to_ms, axis)
    _heat(found, len(hosts), metric, names.units[metric], marks, n_more, axis)
    st.subheader("Spread of the load", anchor=False)
    on_sight("cluster-load", LOAD_PX, lambda: _load(read_load(log, metric, from_ms, to_ms), metric, names.units, axis))
    _host(found, hosts, axis, log)


def _nothing(reason: str, remedy: str) -> None:
    st.info(
        f"{md(reason)} Samples come from Ganglia (sources.ganglia_rrd, gmond) or exporters (sources.prometheus): the "
        f"page Health shows what is enabled and what it reports. {remedy}, or see recorded samples with "
        f"`clustercep demo`.{not_read()}",
        icon=":material/dns:",
    )


def _choices(names: MetricNames) -> tuple[str, Aggregation, HostOrder, str]:
    options = list(names.units)
    first = next((options.index(name) for name in PREFERRED if name in names.units), 0)
    with st.container(horizontal=True, gap="medium"):
        metric = st.selectbox(
            "Metric", options, index=first, format_func=lambda name: inert(name, 60), key="metric", bind="query-params"
        )
        hosts_with = st.text_input("Host contains", key="hosts", bind="query-params", max_chars=100)
        aggregation = st.segmented_control(
            "Cells show the", AGGREGATIONS, default="mean", required=True, key="show", bind="query-params"
        )
        order = st.segmented_control(
            "Order of hosts", ORDERS, default="highest first", required=True, key="order", bind="query-params"
        )
    return metric or options[first], aggregation or "mean", order or "highest first", hosts_with or ""


@st.fragment(run_every=REFRESH_S)
def _follow(until_ms: int, log: EventSource) -> None:
    """Show the page anew once more is known than when it was made."""
    known = log.span()
    if known is not None and known[1] > until_ms:
        st.rerun()
    st.caption(f"Up to {shown(until_ms)}, and further as events come.")


def _hottest(frame: pd.DataFrame, units: Mapping[str, str]) -> None:
    """The busiest hosts, and what keeps them busy."""
    if len(frame.columns) < 2 or frame.empty:
        return
    st.subheader("Hottest hosts", anchor=False)
    top = frame.head(MAX_HOTTEST)
    show_table(
        {inert(name, 60): [_hottest_cell(str(name), value, units) for value in top[name]] for name in top},
        label="Hottest hosts",
        numbers=(LOAD, "Load", *RATES, *(inert(name, 60) for name in top if units.get(str(name), "%") != "%")),
    )
    more = f" {len(top):,} of {len(frame):,} hosts are shown." if len(frame) > len(top) else ""
    memory = "; memory without buffers and cached files" if MEMORY in top else ""
    st.caption(f"Means of the last {duration(PROBE_MS)} of the span, the busiest host first{memory}.{more}")


def _hottest_cell(column: str, value: Any, units: Mapping[str, str]) -> Cell:
    """Nothing where the host has no such sample, which is not zero."""
    if column == "Host":
        return inert(value, 60)
    if math.isnan(value):
        return None
    if column in SHARES:
        return Share(value)
    if column in units:
        return _measured(value, units[column])
    return f"{format_size(value)}/s" if column in RATES else f"{value:.2f}"


def _measured(value: float, unit: str) -> Cell:
    """A metric of the settings, in its unit."""
    if unit == "%":
        return Share(value)
    if unit in ("bytes", "bytes/sec"):
        return format_size(value) + ("/s" if unit == "bytes/sec" else "")
    return f"{value:,.4g} {inert(unit, 20)}".rstrip()


def _n_episodes(n: int) -> str:
    return "1 episode of imbalance" if n == 1 else f"{n:,} episodes of imbalance"


def _alerts(from_ms: int, to_ms: int, axis: TimeAxis) -> None:
    wanted = AlertFilter(from_ms=from_ms, to_ms=to_ms, merged=False, limit=MAX_ALERTS)
    alerts = live_store()
    if alerts is None:
        return  # what the events come from says that no alert is known
    st.subheader("Alerts", anchor=False)
    rows = alerts.alerts(wanted)
    if not rows:
        st.caption("No alert in this span.")
        return
    frame = pd.DataFrame(
        {
            "query": [row.query for row in rows],
            "severity": [row.severity for row in rows],
            "state": [state_text(row.state, row.silenced) for row in rows],
            "summary": [row.summary for row in rows],
            "t_from_ms": [row.onset_ms for row in rows],
            "t_to_ms": [_until_ms(row, to_ms) for row in rows],
        }
    )
    height_px = max(40, 20 * frame["query"].nunique()) + AROUND_PX
    on_sight("cluster-alerts", height_px, lambda: draw(alert_chart(frame, axis), alt="Alerts over time, by query"))
    if len(rows) == MAX_ALERTS:
        n, exact = alerts.count_alerts(wanted)
        st.caption(f"The latest {MAX_ALERTS} of {n:,}{'' if exact else ' or more'} alerts.")
    given: dict[str, Any] = {"from": from_ms, "to": to_ms}
    links.link("alerts", "Alerts of this span", icon=":material/notifications_active:", **given)


def _until_ms(alert: AlertRow, to_ms: int) -> int:
    """The end of its bar: what still fires does so to the end of the span."""
    return alert.last_seen_ms if alert.state == State.RESOLVED else max(alert.last_seen_ms, to_ms)


def _heat(
    found: Callable[[], HeatMap],
    n_hosts: int,
    metric: str,
    unit: str,
    marks: pd.DataFrame,
    n_more: int,
    axis: TimeAxis,
) -> None:
    st.subheader(f"{md(metric, 60)} by host", anchor=False)
    key, was_clicked = "heat", "heat-clicked"

    def clicked() -> None:
        host = clicked_host(st.session_state[key].selection.get(SELECTION, []), found())
        if host is not None:
            st.session_state["host"] = host
            st.session_state[was_clicked] = True

    def show() -> None:
        if st.session_state.pop(was_clicked, False):
            st.rerun()  # the host stands elsewhere on the page
        shown_map = found()
        if not shown_map.rows:
            st.info("No host has a sample. Take the filter of hosts away to see all.", icon=":material/filter_alt_off:")
            return
        draw(
            heat_chart(shown_map, metric, unit, marks, axis),
            on_select=clicked,
            selection_mode=SELECTION,
            key=key,
            alt=f"Heat map of {inert(metric, 60)}, hosts over time",
        )
        st.caption(_told(shown_map) + (f" {n_more:,} further events of nodes are not drawn." if n_more else ""))

    on_sight("cluster-heat", heat_px(n_heat_rows(n_hosts)) + AROUND_PX, show)


def clicked_host(points: Sequence[Mapping[str, Any]], found: HeatMap) -> str | None:
    """The host (of several in a row the first) that a selection of the heat map means; None for none."""
    for point in points:
        place = point.get("place")
        if isinstance(place, int | float) and 0 <= place < len(found.rows):
            return found.rows[int(place)][0]
    return None


def _told(found: HeatMap) -> str:
    """How cells come about."""
    cells = f"{found.value.size:,} cells of {duration(found.bins.width_ms)}"
    rows = "one row per host"
    if found.hosts_per_row > 1:
        rows = f"up to {found.hosts_per_row} hosts, neighbours in their order, share a row"
    how = "mean, weighted by time," if found.aggregation == "mean" else "greatest value"
    joined = found.bins.width_ms > found.step_ms or found.hosts_per_row > 1
    what = f"each shows the {how} of its samples" if joined else "each is one sample"
    return (
        f"{found.n_hosts:,} hosts, {rows}; {cells}, {what} (step {duration(found.step_ms)}). Grey: no sample, which is "
        "not zero. Click a row to see the host more closely."
    )


def _load(load: Load, metric: str, units: Mapping[str, str], axis: TimeAxis) -> None:
    if not len(load.steps) and not len(load.episodes):
        st.info(
            "LoadStd is not known in this span. It is derived from the samples of load.metric over all hosts.",
            icon=":material/show_chart:",
        )
        return
    long = load.episodes[load.episodes["t_to_ms"] - load.episodes["t_from_ms"] >= LEAST_EPISODE_MS]
    found = {units.get(name, "") for name in load.metrics}
    unit = found.pop() if len(found) == 1 else ""
    draw(load_chart(load.steps, long, axis, unit), alt="Standard deviation of the load over time")
    of = ", ".join(md(name, 60) for name in load.metrics)
    other = "" if metric in load.metrics else f" It is derived from {of} alone, whatever metric is shown above."
    thin = " Several steps share a point: the line is their mean." if (load.steps["n_steps"] > 1).any() else ""
    st.caption(
        f"Population standard deviation of {of} over all hosts, each step as wide as its samples. "
        f"{_n_episodes(len(long))} of at least {duration(LEAST_EPISODE_MS)} (orange bands), "
        f"{len(load.episodes) - len(long):,} shorter: the share of busy hosts was between the limits of the settings "
        f"(load.low_ratio, load.high_ratio); up to {PAUSE_STEPS} other steps between do not end one.{other}{thin}"
    )


def _host(found: Callable[[], HeatMap], hosts: Sequence[str], axis: TimeAxis, log: EventSource) -> None:
    st.subheader("One host", anchor=False)
    host = st.selectbox(
        "Host",
        hosts,
        index=None,
        format_func=lambda name: inert(name, 60),
        key="host",
        bind="query-params",
        placeholder="Choose a host, or click a row of the heat map",
    )
    if host is not None:
        on_sight("cluster-host", HOST_PX + ATTEMPTS_PX, lambda: _one_host(host, found(), axis, log))


def _one_host(host: str, found: HeatMap, axis: TimeAxis, log: EventSource) -> None:
    beside = next((row for row in found.rows if host in row and len(row) > 1), None)
    if beside is not None:
        st.caption(
            f"It shares a row of the heat map with {', '.join(md(name, 40) for name in beside if name != host)}."
        )
    _metrics_of(host, axis, log)
    _attempts_on(host, axis, log)
    links.link("alerts", f"Alerts of {md(host, 60)}", icon=":material/notifications_active:", host=host)


def _metrics_of(host: str, axis: TimeAxis, log: EventSource) -> None:
    series = read_host(log, host, int(axis.from_ms), int(axis.to_ms))
    if not len(series):
        st.info("This host has no sample in the span.", icon=":material/show_chart:")
        return
    names = list(dict.fromkeys(series["name"]))
    drawn = names[:MAX_METRICS]
    for first in range(0, len(drawn), N_BESIDE):
        row = drawn[first : first + N_BESIDE]
        on_sight(f"cluster-host-{first}", HOST_PX, partial(_metrics_beside, series, row, axis))
    if len(names) > MAX_METRICS:
        left = ", ".join(md(name, 40) for name in names[MAX_METRICS : MAX_METRICS + 50])
        st.caption(f"The first {MAX_METRICS} of {len(names):,} metrics by name; not shown: {left}")


def _metrics_beside(series: pd.DataFrame, names: Sequence[str], axis: TimeAxis) -> None:
    for name, column in zip(names, st.columns(N_BESIDE), strict=False):
        part = series[series["name"] == name]
        chart = host_chart(part, name, str(part["unit"].iloc[0]), axis)
        draw(chart, place=column, alt=f"{inert(name, 60)} of the host over time")


def _attempts_on(host: str, axis: TimeAxis, log: EventSource) -> None:
    table = read_attempts_on(log, host, int(axis.from_ms), int(axis.to_ms))
    if not len(table):
        st.caption("No attempt is known to have run there in this span.")
        return
    drawn = chosen_attempts(table, pd.Series(False, index=table.index), MAX_BARS)
    on_sight(
        "cluster-host-attempts",
        ATTEMPTS_PX,
        lambda: draw(
            attempt_chart(drawn.attempts.assign(lane=lanes(drawn.attempts), straggler="", limit_ms=float("nan")), axis),
            alt="Attempts that ran on the host",
        ),
    )
    left = f" The {len(drawn.attempts):,} that did not succeed or ran longest are drawn." if drawn.left_out else ""
    st.caption(
        f"{drawn.n_all:,} attempts ran there in this span.{left} What began more than {duration(LOOK_BACK_MS)} before "
        "it and has not ended is not known here."
    )
    jobs = list(dict.fromkeys(table["attempt_id"].map(_job_of)))
    with st.container(horizontal=True):
        for job_id in jobs[:20]:
            links.link("job", md(job_id, 60), icon=":material/work:", id=job_id)


def _job_of(attempt_id: str) -> str:
    """attempt_1700000000000_0001_m_000002_0 belongs to job_1700000000000_0001."""
    return "_".join(["job", *attempt_id.split("_")[1:3]])
