"""What the page of the cluster reads of the event log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.cluster.bins import TimeBins, bins_over
from dashboard.cluster.data import (
    DEFAULT_STEP_MS,
    MAX_LOAD_STEPS,
    NODE_EVENTS,
    HostGrid,
    episodes,
    heat_map_bins,
    load_steps,
    metric_series,
    node_marks,
    step_of,
)
from dashboard.cluster.hottest import NEEDED, hottest
from dashboard.events.source import EventSource
from dashboard.times import Span

SLICE_EVENTS = 1_000_000
"""About so many events are in memory at a time."""

LEAST_SLICE_MS = 60_000
"""Shorter spans are not cut: the log counts whole row groups, however little of them a span touches."""

PROBE_MS = 5 * 60_000
"""The names of metrics are looked for in so much of the end of the span: a log of months has millions of samples."""

PAUSE_STEPS = 2
"""An episode of imbalance goes on after so many balanced steps."""

MAX_MARKS = 500
MAX_POINTS = 500
"""Of one metric of one host."""


@dataclass(frozen=True)
class MetricNames:
    """The metrics of a span with their units ("" where unknown), by name."""

    units: dict[str, str]
    n_hosts: int


def metric_names(log: EventSource, from_ms: int, to_ms: int) -> MetricNames:
    """Metrics with a sample in the last PROBE_MS of the span; of the whole span when there is none."""
    for begin_ms in sorted({max(from_ms, to_ms - PROBE_MS), from_ms}, reverse=True):
        found: dict[str, str] = {}
        hosts: set[str] = set()
        for samples, _, _ in _slices(log, ("name", "unit", "host"), begin_ms, to_ms):
            pairs = samples.group_by(["name", "unit"]).aggregate([])
            for name, unit in zip(pairs.column("name").to_pylist(), pairs.column("unit").to_pylist(), strict=True):
                if name is not None and (unit or name not in found):
                    found[name] = unit or ""
            hosts |= {host for host in pc.unique(samples.column("host")).to_pylist() if host is not None}
        if found:
            return MetricNames(dict(sorted(found.items())), len(hosts))
    return MetricNames({}, 0)


def read_hottest(
    log: EventSource, from_ms: int, to_ms: int, hosts_with: str, further: Sequence[str] = ()
) -> pd.DataFrame:
    """See cluster.hottest.hottest, of the last PROBE_MS of the span."""
    names = pa.array(sorted({*NEEDED, *further}))
    parts = _slices(log, ("name", "host", "value", "t_hi_ms"), max(from_ms, to_ms - PROBE_MS), to_ms, whole=True)
    wanted = (
        _with_hosts(part.filter(pc.fill_null(pc.is_in(part.column("name"), names), False)), hosts_with)
        for part, _, _ in parts
    )
    return hottest(wanted, further)


def read_grid(log: EventSource, metric: str, from_ms: int, to_ms: int, hosts_with: str) -> tuple[HostGrid, int]:
    """The samples of a metric in the closed span by host and column, and their step.

    Only hosts whose name contains `hosts_with`, in any case. Hosts that only have other metrics get a row too.
    """
    grid: HostGrid | None = None
    step_ms = DEFAULT_STEP_MS
    columns = ("name", "host", "value", "t_lo_ms", "t_hi_ms")
    for samples, begin_ms, end_ms in _slices(log, columns, from_ms, to_ms, equal={"name": metric}):
        mine = _with_hosts(samples, hosts_with)
        if grid is None and mine.num_rows:
            step_ms = step_of(mine)
            grid = HostGrid(heat_map_bins(from_ms, to_ms, step_ms))
        if grid is not None:
            grid.add(mine, begin_ms, end_ms)
    if grid is not None:
        grid.know(known_hosts(log, from_ms, to_ms, hosts_with))
    return grid or HostGrid(heat_map_bins(from_ms, to_ms, step_ms)), step_ms


def known_hosts(log: EventSource, from_ms: int, to_ms: int, hosts_with: str) -> list[str]:
    """The hosts that have a sample of any metric in the closed span, by name; see `read_grid` for `hosts_with`."""
    hosts = log.last_seen("host", types=("Metric",), from_ms=from_ms, to_ms=to_ms)
    named = _with_hosts(pa.table({"host": pa.array(sorted(hosts), pa.string())}), hosts_with)
    found: list[str] = named.column("host").to_pylist()
    return found


@dataclass(frozen=True)
class Load:
    """LoadStd and imbalance of a span."""

    steps: pd.DataFrame
    """See cluster_data.load_steps."""
    episodes: pd.DataFrame
    """See cluster_data.episodes."""
    metrics: tuple[str, ...]
    """Metrics that the load is derived from."""


def read_load(log: EventSource, metric: str, from_ms: int, to_ms: int) -> Load:
    """Of the metric when the load is derived from it, else of whatever it is derived from."""
    columns = ("type", "t_lo_ms", "t_hi_ms", "clock_id", "name", "val", "n_missing", "busy_ratio")
    events = log.read(types=("LoadStd", "Balance", "Imbalance"), from_ms=from_ms, to_ms=to_ms, columns=columns)
    names = sorted(name for name in pc.unique(events.column("name")).to_pylist() if name is not None)
    if metric in names:
        events = events.filter(pc.fill_null(pc.equal(events.column("name"), metric), False))
        names = [metric]
    bins = bins_over(from_ms, to_ms, 1_000, MAX_LOAD_STEPS)
    return Load(load_steps(events, bins), episodes(events, PAUSE_STEPS), tuple(names))


def read_node_marks(log: EventSource, from_ms: int, to_ms: int, hosts_with: str) -> tuple[pd.DataFrame, int]:
    """See cluster_data.node_marks."""
    columns = ("type", "host", "t_lo_ms", "t_hi_ms", "reason")
    events = log.read(types=NODE_EVENTS, from_ms=from_ms, to_ms=to_ms, columns=columns)
    return node_marks(_with_hosts(events, hosts_with), MAX_MARKS)


def read_host(log: EventSource, host: str, from_ms: int, to_ms: int) -> pd.DataFrame:
    """All metrics of one host (see cluster_data.metric_series)."""
    columns = ("name", "unit", "host", "value", "t_lo_ms", "t_hi_ms")
    slices = _slices(log, columns, from_ms, to_ms, whole=True, equal={"host": host})
    tables = [samples for samples, _, _ in slices]
    bins: TimeBins = bins_over(from_ms, to_ms, 1_000, MAX_POINTS)
    return metric_series(pa.concat_tables(tables) if tables else _nothing(columns), bins, MAX_POINTS)


def _slices(
    log: EventSource,
    columns: tuple[str, ...],
    from_ms: int,
    to_ms: int,
    *,
    whole: bool = False,
    equal: Mapping[str, str] | None = None,
) -> Iterator[tuple[pa.Table, int, int]]:
    """Samples, those with `equal` values, by slices of time (samples, from, to), both ends inclusive.

    A sample that touches two slices is in both; `whole`: only in the one that has its end (in the last one, too, when
    it ends after the span).
    """
    log = log.snapshot()
    needed = tuple(dict.fromkeys((*columns, "t_hi_ms")))
    for begin_ms, end_ms in _cut(log, from_ms, to_ms):
        samples = log.read(types=("Metric",), from_ms=begin_ms, to_ms=end_ms, equal=equal, columns=needed)
        if whole and end_ms < to_ms:
            samples = samples.filter(pc.less_equal(samples.column("t_hi_ms"), end_ms))
        yield samples.select(list(columns)), begin_ms, end_ms


def _cut(log: EventSource, from_ms: int, to_ms: int) -> Iterator[Span]:
    """The span in parts of about SLICE_EVENTS samples at most, however unevenly they lie: an address may ask for all
    years there are.
    """
    n_samples = log.count(types=("Metric",), from_ms=from_ms, to_ms=to_ms)
    if n_samples <= SLICE_EVENTS or to_ms - from_ms < LEAST_SLICE_MS:
        yield from_ms, to_ms
        return
    middle_ms = (from_ms + to_ms) // 2
    yield from _cut(log, from_ms, middle_ms)
    yield from _cut(log, middle_ms + 1, to_ms)


def _with_hosts(events: pa.Table, text: str) -> pa.Table:
    if not text:
        return events
    return events.filter(pc.fill_null(pc.match_substring(events.column("host"), text, ignore_case=True), False))


def _nothing(columns: tuple[str, ...]) -> pa.Table:
    return pa.table({name: pa.array([], pa.null()) for name in columns})


__all__ = [
    "Load",
    "MetricNames",
    "known_hosts",
    "metric_names",
    "read_grid",
    "read_host",
    "read_hottest",
    "read_load",
    "read_node_marks",
]
