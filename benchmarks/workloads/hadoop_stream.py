"""Workload H: the events of a Hadoop cluster of any size and length, batch by batch, all from a seed.

`Cluster` states every distribution. A batch covers one metric step: the samples of all nodes, what is derived from them
and what tasks did meanwhile; nothing is kept from batch to batch but what running jobs have still to tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collectors.metrics.load_balance import LoadOptions
from collectors.schema import load_event_types
from engine.events import HEADER, EventBatch, Int64Array

Columns = dict[str, Any]
SCHEMA = load_event_types()


@dataclass(frozen=True)
class Cluster:
    """What is drawn, and from which distribution. Times in ms."""

    n_nodes: int = 1_000
    length_ms: int = 3_600_000
    seed: int = 10

    step_ms: int = 15_000
    """Between two samples of a metric; a sample covers (t - step, t]."""
    events_per_node_s: float = 13.62
    """Overall. What jobs do not tell are samples: so many metrics does a node have."""

    jobs_per_node_s: float = 0.0005
    """Poisson: with 1,000 nodes a job every two seconds."""
    maps_median: float = 60.0
    maps_sigma: float = 0.8
    """Log-normal number of map tasks of a job, 1 to 1,000."""
    maps_per_reducer: int = 12
    """A job has a reducer for each so many maps, at least 1."""
    map_median_ms: float = 25_000.0
    map_sigma: float = 0.5
    reduce_median_ms: float = 75_000.0
    reduce_sigma: float = 0.5
    """Log-normal durations of a task on a host of speed 1."""
    wait_mean_ms: float = 10_000.0
    """Exponential time from the job's start to a map's; reducers start when a twentieth of the maps have ended."""
    speed_sigma: float = 0.15
    slow_share: float = 0.02
    slow_factor: float = 3.0
    """Log-normal speed of hosts; a few hosts are slower by this factor."""
    shuffle_share: float = 0.6
    """A reducer pulls every map's output at a uniform time of this first part of its life."""
    pull_mean_ms: float = 400.0
    output_mean_bytes: float = 64e6 / 12
    """Exponential size of what one map has for one reducer."""

    load_mean_percent: float = 50.0
    load_swing_percent: float = 40.0
    load_period_ms: int = 900_000
    """The load of one half of the hosts swings up around the mean while that of the other half swings down."""
    load_noise_percent: float = 4.0

    @property
    def n_metrics(self) -> int:
        """Samples of one node in one step; the first is cpu_user."""
        maps = self.maps_median * math.exp(self.maps_sigma**2 / 2)
        pairs = self.maps_median**2 * math.exp(2 * self.maps_sigma**2) / self.maps_per_reducer  # a map and a reducer
        told = self.jobs_per_node_s * (2 + 3 * maps + 3 * maps / self.maps_per_reducer + 2 * pairs)
        return max(1, round((self.events_per_node_s - told) * self.step_ms / 1_000))


class HadoopStream:
    """The batches of a cluster, each with the watermark after it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._random = np.random.default_rng(cluster.seed)
        speeds = self._random.lognormal(0.0, cluster.speed_sigma, cluster.n_nodes)
        slow = self._random.random(cluster.n_nodes) < cluster.slow_share
        self._speeds = np.where(slow, speeds * cluster.slow_factor, speeds)
        self._swings = np.where(np.arange(cluster.n_nodes) % 2, 1.0, -1.0) * cluster.load_swing_percent
        self._hosts = pa.array([f"node{n}" for n in range(cluster.n_nodes)])
        self._clocks = pa.array([f"host:node{n}" for n in range(cluster.n_nodes)])
        self._samples = self._constant_columns()
        self._told = _nothing_told()
        self._n_jobs = 0
        self._n_events = 0
        self._n_told = 0

    def __iter__(self) -> Iterator[tuple[EventBatch, int]]:
        """Batches of one step; whatever jobs would tell after the end is left out."""
        for end_ms in range(self.cluster.step_ms, self.cluster.length_ms + 1, self.cluster.step_ms):
            yield self._step(end_ms), end_ms + 1

    def _step(self, end_ms: int) -> EventBatch:
        """All events in (end - step, end], in stream order."""
        cluster = self.cluster
        start_ms = end_ms - cluster.step_ms
        n_new = self._random.poisson(cluster.jobs_per_node_s * cluster.n_nodes * cluster.step_ms / 1_000)
        told = [self._told, *(self._job(start_ms) for _ in range(n_new))]
        pending = pa.concat_tables(told, promote_options="default")
        due = pc.less_equal(pending.column("t_lo_ms"), end_ms)
        self._told = pending.filter(pc.invert(due)).combine_chunks()
        ready = pending.filter(due)
        order = np.argsort(ready.column("t_lo_ms").to_numpy(), kind="stable")
        ready = ready.take(pa.array(order))
        if ready.num_rows:  # one logical source, in the order in which it tells
            numbers = pa.array(np.arange(self._n_told, self._n_told + ready.num_rows))
            ready = ready.set_column(ready.column_names.index("source_seq"), "source_seq", numbers)
            self._n_told += ready.num_rows
        tables = [*self._metrics(start_ms, end_ms), ready]
        batch = _in_header_order(pa.concat_tables(tables, promote_options="default").combine_chunks(), self._n_events)
        self._n_events += len(batch)
        return batch

    # ------------------------------------------------------------------ samples

    def _constant_columns(self) -> Columns:
        """What all steps have in common: hosts by turns, for each of them every metric."""
        n_nodes, n_metrics = self.cluster.n_nodes, self.cluster.n_metrics
        names = pa.array(["cpu_user", *(f"metric{n}" for n in range(1, n_metrics))])
        n = n_nodes * n_metrics
        return {
            "type": pa.repeat("Metric", n),
            "source_rank": np.zeros(n, np.int32),
            "source_seq": np.arange(n),
            "clock_id": pa.repeat("ganglia:cluster", n),
            "host": self._hosts.take(pa.array(np.repeat(np.arange(n_nodes), n_metrics))),
            "name": names.take(pa.array(np.tile(np.arange(n_metrics), n_nodes))),
        }

    def _metrics(self, start_ms: int, end_ms: int) -> list[pa.Table]:
        """The samples of one step, then LoadStd and Balance or Imbalance, as the collectors derive them."""
        cluster = self.cluster
        swing = self._swings * np.sin(2 * np.pi * end_ms / cluster.load_period_ms)
        noise = self._random.normal(0.0, cluster.load_noise_percent, cluster.n_nodes)
        load = np.clip(cluster.load_mean_percent + swing + noise, 0.0, 100.0)
        n = cluster.n_nodes * cluster.n_metrics
        values = self._random.random(n)
        values[:: cluster.n_metrics] = load
        times = {"t_lo_ms": np.full(n, start_ms + 1), "t_hi_ms": np.full(n, end_ms)}
        options = LoadOptions()
        busy = float(np.count_nonzero(load >= options.busy_percent) / cluster.n_nodes)
        unbalanced = options.low_ratio <= busy <= options.high_ratio
        derived = {
            "type": ["LoadStd", "Imbalance" if unbalanced else "Balance"],
            "source_rank": np.ones(2, np.int32),
            "source_seq": np.array([2 * end_ms, 2 * end_ms + 1]),
            "clock_id": ["load:ganglia:cluster"] * 2,
            "t_lo_ms": np.full(2, start_ms + 1),
            "t_hi_ms": np.full(2, end_ms),
            "name": ["cpu_user"] * 2,
            "val": np.full(2, float(np.std(load))),
            "busy_ratio": pa.array([None, busy]),
            "n_hosts": pa.array([cluster.n_nodes] * 2),
        }
        return [pa.table(self._samples | times | {"value": values}), pa.table(derived)]

    # --------------------------------------------------------------------- jobs

    def _job(self, start_ms: int) -> pa.Table:
        """All that one job tells, in no order: life cycles of its tasks, pulls and the data they move."""
        cluster, random = self.cluster, self._random
        self._n_jobs += 1
        number = self._n_jobs
        begun_ms = start_ms + 1 + int(random.integers(cluster.step_ms))
        n_maps = int(np.clip(np.rint(random.lognormal(np.log(cluster.maps_median), cluster.maps_sigma)), 1, 1_000))
        n_reducers = max(1, n_maps // cluster.maps_per_reducer)
        map_hosts, maps = self._tasks(n_maps, cluster.map_median_ms, cluster.map_sigma)
        map_starts = begun_ms + 1 + random.exponential(cluster.wait_mean_ms, n_maps).astype(np.int64)
        map_ends = map_starts + maps
        reducer_hosts, reducers = self._tasks(n_reducers, cluster.reduce_median_ms, cluster.reduce_sigma)
        ready_ms = int(np.sort(map_ends)[n_maps // 20])
        reducer_starts = ready_ms + 1 + random.exponential(cluster.wait_mean_ms / 5, n_reducers).astype(np.int64)
        # A reducer lasts until it has the output of the last map.
        reducer_ends = np.maximum(reducer_starts, int(map_ends.max())) + reducers
        pulls = np.repeat(np.arange(n_reducers), n_maps)
        sources = np.tile(np.arange(n_maps), n_reducers)
        earliest = np.maximum(reducer_starts[pulls], map_ends[sources])
        room = (reducer_ends[pulls] - earliest) * cluster.shuffle_share
        pulled_at = earliest + 1 + (random.random(len(pulls)) * room).astype(np.int64)
        sizes = random.exponential(cluster.output_mean_bytes, len(pulls)).astype(np.int64)
        parts: list[tuple[str, Int64Array, Int64Array | None, Int64Array, Columns]] = [
            ("JobStart", np.array([begun_ms]), None, map_hosts[:1], {}),
            ("MapStart", map_starts, None, map_hosts, {"task": np.arange(n_maps)}),
            ("MapEnd", map_ends, maps, map_hosts, {"task": np.arange(n_maps)}),
            ("Mapper", map_ends, maps, map_hosts, {"task": np.arange(n_maps)}),
            ("ReducerStart", reducer_starts, None, reducer_hosts, {"task": n_maps + np.arange(n_reducers)}),
            ("ReducerEnd", reducer_ends, reducer_ends - reducer_starts, reducer_hosts,
             {"task": n_maps + np.arange(n_reducers)}),
            ("Reducer", reducer_ends, reducer_ends - reducer_starts, reducer_hosts,
             {"task": n_maps + np.arange(n_reducers)}),
            ("DataPull", pulled_at, 1 + random.exponential(cluster.pull_mean_ms, len(pulls)).astype(np.int64),
             reducer_hosts[pulls], {"task": n_maps + pulls, "bytes": sizes}),
            ("DataIO", pulled_at, None, reducer_hosts[pulls], {"task": n_maps + pulls, "size_bytes": -sizes}),
            ("JobEnd", np.array([reducer_ends.max() + 1]), np.array([reducer_ends.max() + 1 - begun_ms]),
             map_hosts[:1], {}),
        ]  # fmt: skip
        tables = [self._told_by(number, int(map_hosts[0]), *part) for part in parts]
        return pa.concat_tables(tables, promote_options="default")

    def _tasks(self, n: int, median_ms: float, sigma: float) -> tuple[Int64Array, Int64Array]:
        """Hosts and durations of n tasks."""
        hosts = self._random.integers(0, self.cluster.n_nodes, n)
        durations = self._random.lognormal(np.log(median_ms), sigma, n) * self._speeds[hosts]
        return hosts, 1 + durations.astype(np.int64)

    def _told_by(
        self,
        job: int,
        master: int,
        event_type: str,
        times_ms: Int64Array,
        periods_ms: Int64Array | None,
        hosts: Int64Array,
        more: Columns,
    ) -> pa.Table:
        """Events of one type of a job. Life cycles are told by the job's master, pulls by the host itself."""
        n = len(times_ms)
        job_id = f"job_1700000000000_{job:04d}"
        told_by = hosts if event_type in ("DataPull", "DataIO") else np.full(n, master)
        columns: Columns = {
            "type": pa.repeat(event_type, n),
            "t_lo_ms": times_ms,
            "t_hi_ms": times_ms,
            "source_rank": np.full(n, 2, np.int32),
            "source_seq": np.arange(n),
            "clock_id": self._clocks.take(pa.array(told_by)),
            "job_id": pa.repeat(job_id, n),
        }
        if not event_type.startswith(("Job", "Data")):
            columns["host"] = self._hosts.take(pa.array(hosts))
        if "task" in more:
            tasks = pa.array(more["task"]).cast(pa.string())
            columns["task_id"] = pc.binary_join_element_wise(job_id.replace("job", "task"), tasks, "_")
            attempts = pc.binary_join_element_wise(job_id.replace("job", "attempt"), tasks, "0", "_")
            columns["attempt_id"] = attempts
        columns |= {name: values for name, values in more.items() if name != "task"}
        if periods_ms is not None:
            columns["period_ms"] = periods_ms
        return pa.table(columns)


def _nothing_told() -> pa.Table:
    return pa.table({"t_lo_ms": pa.array([], pa.int64()), "type": pa.array([], pa.string())})


def _in_header_order(table: pa.Table, first: int) -> EventBatch:
    """The columns as a batch has them; ids are the numbers of the events in the stream."""
    n = table.num_rows
    ids = pa.array(np.arange(first, first + n)).cast(pa.string())
    arrays = [
        ids if f.name == "event_id" else table.column(f.name) if f.name in table.column_names else pa.nulls(n, f.type)
        for f in HEADER
    ]
    rest = [name for name in table.column_names if name not in HEADER.names]
    kinds = {name: SCHEMA.attributes[name].arrow for name in rest}
    fields = [*HEADER, *(pa.field(name, kind) for name, kind in kinds.items())]
    columns = [*arrays, *(table.column(name).cast(kinds[name]) for name in rest)]
    return EventBatch(pa.Table.from_arrays([_whole(column) for column in columns], schema=pa.schema(fields)))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def in_seconds(batch: EventBatch) -> EventBatch:
    """The batch with a second for each unit of time: as precise as an enumeration of points can bear."""
    lo_ms, hi_ms = batch.t_lo_ms, batch.t_hi_ms
    hi_s = hi_ms // 1_000
    lo_s = np.where(lo_ms < hi_ms, (lo_ms - 1) // 1_000 + 1, hi_s)  # (t - step, t] begins after its first point
    table = batch.table
    for name, values in (("t_lo_ms", lo_s), ("t_hi_ms", hi_s)):
        table = table.set_column(table.column_names.index(name), table.schema.field(name), pa.array(values))
    return EventBatch(table)


__all__ = ["SCHEMA", "Cluster", "HadoopStream", "in_seconds"]
