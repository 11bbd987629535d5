"""The cluster over time: samples of a metric as cells of a heat map, LoadStd, imbalance episodes, events of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.cluster.bins import TimeBins, bins_over, overlaps
from dashboard.events.frame import event_frame
from engine.events import Float64Array, Int64Array

MAX_CELLS = 12_000
"""Cells of a heat map that are sent to a browser."""
MAX_ROWS = 200
"""Rows of a heat map: more would be thinner than a mouse pointer can tell apart."""
MAX_COLUMNS = 240
FINE_COLUMNS = 480
"""Columns that samples are first put into, before the number of hosts, and so of columns that are shown, is known."""
MAX_LOAD_STEPS = 1_000

DEFAULT_STEP_MS = 15_000
"""Ganglia's usual step, for samples that tell none."""

MIN_STEP_MS = 1_000
"""What is narrower was asked for, and is no mean over a step."""

EPISODE_GAP_STEPS = 3
"""Steps without any balance event that end an episode: nobody knows what was in between."""

Aggregation = Literal["mean", "max"]
HostOrder = Literal["name", "highest first"]

SERIES = ["metric", "cluster"]
"""What tells series of LoadStd and of balance apart."""

NODE_EVENTS = ("NodeLost", "NodeUnhealthy", "ContainerKilled")
"""The gravest first: when there are too many marks, these stay."""


@dataclass
class HostGrid:
    """Samples of one metric, summed by host and column; takes any number of tables, each cut to its slice of time."""

    bins: TimeBins
    hosts: list[str] = field(default_factory=list)
    _rows: dict[str, int] = field(default_factory=dict)
    _weight_ms: list[Float64Array] = field(default_factory=list)
    _total: list[Float64Array] = field(default_factory=list)
    _peak: list[Float64Array] = field(default_factory=list)

    def know(self, hosts: list[str]) -> None:
        """Give hosts a row even if they have no sample."""
        for host in hosts:
            if host not in self._rows:
                self._rows[host] = len(self.hosts)
                self.hosts.append(host)
                self._weight_ms.append(np.zeros(self.bins.n))
                self._total.append(np.zeros(self.bins.n))
                self._peak.append(np.full(self.bins.n, -np.inf))

    def add(self, samples: pa.Table, from_ms: int, to_ms: int) -> None:
        """Take in Metric events (host, t_lo_ms, t_hi_ms, value); only what lies in the closed slice [from, to] counts.

        Samples without a host or a finite value are missing ones.
        """
        table = samples.filter(
            pc.and_(pc.is_valid(samples.column("host")), pc.fill_null(pc.is_finite(samples.column("value")), False))
        )
        encoded = table.column("host").combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        self.know(names)
        to_row = np.array([self._rows[name] for name in names], np.int64)
        row = to_row[encoded.indices.to_numpy()] if names else np.zeros(0, np.int64)
        value = table.column("value").to_numpy()
        lo_ms = np.maximum(table.column("t_lo_ms").to_numpy(), from_ms)
        hi_ms = np.minimum(table.column("t_hi_ms").to_numpy(), to_ms)
        shape = (len(self.hosts), self.bins.n)
        for sample, column, shared_ms in overlaps(self.bins, lo_ms, hi_ms):
            cell = row[sample] * self.bins.n + column
            weight = np.bincount(cell, weights=shared_ms, minlength=shape[0] * shape[1])
            total = np.bincount(cell, weights=shared_ms * value[sample], minlength=shape[0] * shape[1])
            peak = np.full(shape[0] * shape[1], -np.inf)
            np.maximum.at(peak, cell, value[sample])
            for host in np.unique(row[sample]).tolist():
                part = slice(host * self.bins.n, (host + 1) * self.bins.n)
                self._weight_ms[host] += weight[part]
                self._total[host] += total[part]
                np.maximum(self._peak[host], peak[part], out=self._peak[host])

    @property
    def weight_ms(self) -> Float64Array:
        """How much of each cell samples cover; shape (hosts, columns)."""
        return self._stacked(self._weight_ms)

    @property
    def total(self) -> Float64Array:
        """Sum of value times covered ms; shape (hosts, columns)."""
        return self._stacked(self._total)

    @property
    def peak(self) -> Float64Array:
        """Greatest value that touches a cell, -inf without one; shape (hosts, columns)."""
        return self._stacked(self._peak)

    def _stacked(self, rows: list[Float64Array]) -> Float64Array:
        return np.stack(rows) if rows else np.zeros((0, self.bins.n))


@dataclass(frozen=True)
class HeatMap:
    """What a heat map shows; rows are hosts or groups of hosts, the top one first."""

    bins: TimeBins
    rows: tuple[tuple[str, ...], ...]
    """The hosts of each row."""
    value: Float64Array
    """Shape (rows, columns); NaN where there is no sample."""
    coverage: Float64Array
    """Share of the cell, 0 to 1, that samples cover; shape (rows, columns)."""
    n_hosts: int
    aggregation: Aggregation
    step_ms: int

    @property
    def hosts_per_row(self) -> int:
        """1 unless hosts are taken together."""
        return max((len(row) for row in self.rows), default=1)


def heat_map(grid: HostGrid, step_ms: int, aggregation: Aggregation, order: HostOrder, known_until_ms: int) -> HeatMap:
    """At most MAX_CELLS cells in at most MAX_ROWS rows; neighbours in the order of hosts share a row.

    The mean of a cell weighs samples by the time they cover; columns at the end that are not over
    at `known_until_ms` and have no sample are left out: there cannot be one yet.
    """
    hosts = _ordered(grid, order)
    per_row = _hosts_per_row(len(hosts))
    n_rows = n_heat_rows(len(hosts))
    most_columns = max(1, min(MAX_COLUMNS, MAX_CELLS // max(1, n_rows)))
    bins = grid.bins.coarser(-(-grid.bins.n // most_columns))
    with_samples = np.flatnonzero(grid.weight_ms.any(axis=0))
    n_sampled = 0 if not len(with_samples) else int(with_samples[-1]) // (bins.width_ms // grid.bins.width_ms) + 1
    n_known = max(n_sampled, min(bins.n, (known_until_ms - bins.start_ms) // bins.width_ms))
    bins = TimeBins(bins.start_ms, bins.width_ms, n_known)
    factor = bins.width_ms // grid.bins.width_ms
    weight, total, peak = (
        _regrouped(array[hosts], per_row, factor, reduce)[:, :n_known]
        for array, reduce in ((grid.weight_ms, np.add), (grid.total, np.add), (grid.peak, np.maximum))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / weight
    value = np.where(weight > 0, mean if aggregation == "mean" else peak, np.nan)
    rows = tuple(
        tuple(grid.hosts[host] for host in hosts[first : first + per_row].tolist())
        for first in range(0, len(hosts), per_row)
    )
    full_ms = np.array([[len(row) * bins.width_ms] for row in rows], np.float64).reshape(-1, 1)
    return HeatMap(bins, rows, value, np.minimum(1.0, weight / full_ms), len(hosts), aggregation, step_ms)


def n_heat_rows(n_hosts: int) -> int:
    """How many rows a heat map of so many hosts has."""
    return -(-n_hosts // _hosts_per_row(n_hosts))


def _hosts_per_row(n_hosts: int) -> int:
    return max(1, -(-n_hosts // MAX_ROWS))


def heat_map_bins(from_ms: int, to_ms: int, step_ms: int) -> TimeBins:
    """The columns to fill before the number of hosts is known."""
    return bins_over(from_ms, to_ms, step_ms, FINE_COLUMNS)


def step_of(samples: pa.Table) -> int:
    """The usual width of the samples' intervals; of those below a second the usual distance of one host's samples."""
    if not samples.num_rows:
        return DEFAULT_STEP_MS
    lo_ms, hi_ms = (samples.column(name).to_numpy() for name in ("t_lo_ms", "t_hi_ms"))
    widths = hi_ms - lo_ms + 1
    if (step_ms := int(np.median(widths))) >= MIN_STEP_MS:
        return step_ms
    codes = samples.column("host").combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
    order = np.lexsort((hi_ms, codes))
    distances = np.diff(hi_ms[order])[np.diff(codes[order]) == 0]
    distances = distances[distances > 0]
    return int(np.median(distances)) if len(distances) else DEFAULT_STEP_MS


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Orders node2 before node10."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((0, int(part), part) if index % 2 else (1, 0, part) for index, part in enumerate(parts))


def load_steps(events: pa.Table, bins: TimeBins) -> pd.DataFrame:
    """LoadStd by metric and cluster: metric, cluster, t_from_ms, t_to_ms, mean, low, high, n_steps, n_missing.

    One row per step with its interval as it is, or one per column of `bins` when a series has more than MAX_LOAD_STEPS.
    """
    columns = [*SERIES, "t_from_ms", "t_to_ms", "mean", "low", "high", "n_steps", "n_missing"]
    frame = _of_type(events, "LoadStd", ("val", "n_missing"))
    parts = [_thinned_load(part, bins) for _, part in frame.groupby(SERIES, sort=True)]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def episodes(events: pa.Table, pause_steps: int = 0) -> pd.DataFrame:
    """Runs of Imbalance events without a Balance in between; those are one whose pause has at most `pause_steps`.

    Columns: metric, cluster, t_from_ms, t_to_ms, n_steps, busy_ratio (mean). A run also ends where more than
    EPISODE_GAP_STEPS steps are missing. The interval is that of the first and the last event: earliest possible begin,
    latest possible end.
    """
    columns = [*SERIES, "t_from_ms", "t_to_ms", "n_steps", "busy_ratio"]
    both = [_of_type(events, event_type, ("busy_ratio",)) for event_type in ("Balance", "Imbalance")]
    frame = pd.concat([part.assign(unbalanced=bool(index)) for index, part in enumerate(both)], ignore_index=True)
    found = [_joined(_episodes_of(part), pause_steps * _step_of(part)) for _, part in frame.groupby(SERIES, sort=True)]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def node_marks(events: pa.Table, at_most: int) -> tuple[pd.DataFrame, int]:
    """NodeLost, NodeUnhealthy and ContainerKilled events (type, host, t_from_ms, t_to_ms, reason), and how many more.

    The gravest and then the latest are kept, in order of time.
    """
    frame = event_frame(events, ("type", "host", "t_lo_ms", "t_hi_ms", "reason"))
    frame = frame[frame["type"].isin(NODE_EVENTS) & frame["host"].notna()]
    rank = frame["type"].map({name: place for place, name in enumerate(NODE_EVENTS)})
    kept = frame.assign(rank=rank).sort_values(["rank", "t_hi_ms"], ascending=[True, False]).head(at_most)
    kept = kept.sort_values(["t_lo_ms", "host"]).drop(columns="rank").reset_index(drop=True)
    return kept.rename(columns={"t_lo_ms": "t_from_ms", "t_hi_ms": "t_to_ms"}), len(frame) - len(kept)


def metric_series(samples: pa.Table, bins: TimeBins, at_most: int) -> pd.DataFrame:
    """One host's samples by metric: name, unit, t_from_ms, t_to_ms, mean, low, high, n_steps.

    One row per sample, or one per column of `bins` for a metric that has more than `at_most` samples.
    """
    columns = ["name", "unit", "t_from_ms", "t_to_ms", "mean", "low", "high", "n_steps"]
    frame = event_frame(samples, ("name", "unit", "t_lo_ms", "t_hi_ms", "value"))
    frame = frame[np.isfinite(frame["value"].astype(float)) & frame["name"].notna()]
    frame = frame.rename(columns={"t_lo_ms": "t_from_ms", "t_hi_ms": "t_to_ms", "value": "mean"})
    parts = []
    for name, part in frame.groupby("name", sort=True):
        units = part["unit"].dropna()
        thin = _binned(part, bins) if len(part) > at_most else _as_is(part)
        parts.append(thin.assign(name=name, unit=units.iloc[-1] if len(units) else ""))
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _ordered(grid: HostGrid, order: HostOrder) -> Int64Array:
    by_name = sorted(range(len(grid.hosts)), key=lambda host: natural_key(grid.hosts[host]))
    if order == "name" or not by_name:
        return np.array(by_name, np.int64)
    weight = grid.weight_ms.sum(axis=1)
    mean = np.where(weight > 0, grid.total.sum(axis=1) / np.where(weight > 0, weight, 1.0), -np.inf)
    return np.array(sorted(by_name, key=lambda host: -mean[host]), np.int64)


def _regrouped(array: Float64Array, per_row: int, factor: int, reduce: np.ufunc) -> Float64Array:
    """Rows and columns taken together, `per_row` and `factor` at a time."""
    if not array.size:
        return np.zeros((0, -(-array.shape[1] // factor)))
    by_row = reduce.reduceat(array, np.arange(0, array.shape[0], per_row), axis=0)
    regrouped: npt.NDArray[np.float64] = reduce.reduceat(by_row, np.arange(0, array.shape[1], factor), axis=1)
    return regrouped


def _of_type(events: pa.Table, event_type: str, values: tuple[str, ...]) -> pd.DataFrame:
    """Events of one type with their series, in order of time."""
    frame = event_frame(events, ("type", "t_lo_ms", "t_hi_ms", "clock_id", "name", *values))
    frame = frame[frame["type"] == event_type]
    cluster = frame["clock_id"].fillna("").astype(str).str.removeprefix("load:")
    frame = frame.assign(metric=frame["name"].fillna("").astype(str), cluster=cluster)
    for value in values:
        frame[value] = frame[value].astype(float)
    frame = frame.rename(columns={"t_lo_ms": "t_from_ms", "t_hi_ms": "t_to_ms"})
    return frame.sort_values([*SERIES, "t_to_ms", "t_from_ms"]).reset_index(drop=True)


def _thinned_load(part: pd.DataFrame, bins: TimeBins) -> pd.DataFrame:
    part = part[np.isfinite(part["val"])].rename(columns={"val": "mean"})
    n_missing = part["n_missing"].fillna(0)
    if len(part) <= MAX_LOAD_STEPS:
        return _with_series(_as_is(part), part).assign(n_missing=n_missing.to_numpy())
    binned = _binned(part, bins)
    column = _column_of(part, bins)
    inside = (column >= 0) & (column < bins.n)
    missing = n_missing[inside].groupby(column[inside]).max().to_numpy()
    return _with_series(binned, part).assign(n_missing=missing)


def _with_series(frame: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{name: part[name].iloc[0] for name in SERIES})


def _as_is(part: pd.DataFrame) -> pd.DataFrame:
    same = part[["t_from_ms", "t_to_ms", "mean"]].reset_index(drop=True)
    return same.assign(low=same["mean"], high=same["mean"], n_steps=1)


def _column_of(part: pd.DataFrame, bins: TimeBins) -> Int64Array:
    """The column in which each step ends."""
    column: Int64Array = (part["t_to_ms"].to_numpy(np.int64) - bins.start_ms - 1) // bins.width_ms
    return column


def _binned(part: pd.DataFrame, bins: TimeBins) -> pd.DataFrame:
    """By the column in which a step ends: mean, least and greatest value."""
    column = _column_of(part, bins)
    inside = (column >= 0) & (column < bins.n)
    grouped = part["mean"][inside].astype(float).groupby(column[inside])
    found = grouped.agg(["mean", "min", "max", "size"])
    left_ms = bins.start_ms + found.index.to_numpy(np.int64) * bins.width_ms
    return pd.DataFrame(
        {
            "t_from_ms": left_ms + 1,
            "t_to_ms": left_ms + bins.width_ms,
            "mean": found["mean"].to_numpy(),
            "low": found["min"].to_numpy(),
            "high": found["max"].to_numpy(),
            "n_steps": found["size"].to_numpy(),
        }
    )


def _step_of(part: pd.DataFrame) -> int:
    return int(np.median(part["t_to_ms"].to_numpy(np.int64) - part["t_from_ms"].to_numpy(np.int64) + 1))


def _joined(found: pd.DataFrame, pause_ms: int) -> pd.DataFrame:
    """Episodes of one series in order of time, with those joined that follow each other within `pause_ms`."""
    if pause_ms <= 0 or len(found) < 2:
        return found
    begins = found["t_from_ms"].to_numpy(np.int64)[1:] - found["t_to_ms"].to_numpy(np.int64)[:-1] - 1 > pause_ms
    rows = found.assign(joined=np.cumsum(np.r_[True, begins]), busy=found["busy_ratio"] * found["n_steps"])
    by_run = rows.groupby("joined", sort=True)
    whole = by_run.agg(
        metric=("metric", "first"),
        cluster=("cluster", "first"),
        t_from_ms=("t_from_ms", "min"),
        t_to_ms=("t_to_ms", "max"),
        n_steps=("n_steps", "sum"),
        busy=("busy", "sum"),
    )
    return whole.assign(busy_ratio=whole["busy"] / whole["n_steps"]).drop(columns="busy").reset_index(drop=True)


def _episodes_of(part: pd.DataFrame) -> pd.DataFrame:
    part = part.sort_values(["t_to_ms", "t_from_ms"])
    unbalanced = part["unbalanced"].to_numpy(np.bool_)
    lo_ms, hi_ms = (part[name].to_numpy(np.int64) for name in ("t_from_ms", "t_to_ms"))
    step_ms = _step_of(part)
    gap = np.r_[True, lo_ms[1:] - hi_ms[:-1] - 1 > EPISODE_GAP_STEPS * step_ms]
    begins = unbalanced & (gap | ~np.r_[False, unbalanced[:-1]])
    run = np.cumsum(begins)[unbalanced]
    rows = part[unbalanced].assign(run=run)
    found = rows.groupby("run", sort=True).agg(
        metric=("metric", "first"),
        cluster=("cluster", "first"),
        t_from_ms=("t_from_ms", "min"),
        t_to_ms=("t_to_ms", "max"),
        n_steps=("metric", "size"),
        busy_ratio=("busy_ratio", "mean"),
    )
    return found.reset_index(drop=True)
