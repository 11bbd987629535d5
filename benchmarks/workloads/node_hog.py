"""Workload H with a node that something else takes: its tasks and fetches from it take longer.

As `hadoop_stream`, and besides what the shipped queries read: how attempts end, from where a reducer fetches, which
host is furthest from the mean load, and a sample of each running attempt at each step, as the ResourceManager's
collector polls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.hadoop_stream import Cluster, HadoopStream
from engine.events import EventBatch, Int64Array

_ENDS = ("MapEnd", "Mapper", "ReducerEnd", "Reducer", "JobEnd")
_BUSY_PERCENT = 100.0


@dataclass(frozen=True)
class Hog:
    """From `from_ms` on node `node` is busy with something else: of jobs that begin then its tasks take `factor` times
    as long, and so do fetches from it, `fetch_factor` times."""

    from_ms: int
    node: int = 7
    factor: float = 8.0
    fetch_factor: float = 40.0


class HoggedStream(HadoopStream):
    """The batches of a cluster with such a node, each with the watermark after it."""

    def __init__(self, cluster: Cluster, hog: Hog) -> None:
        super().__init__(cluster)
        self._hog = hog
        self._now_ms = 0
        self._running = pa.table({"end_ms": pa.array([], pa.int64())})

    def __iter__(self) -> Iterator[tuple[EventBatch, int]]:
        """See `HadoopStream`."""
        for end_ms in range(self.cluster.step_ms, self.cluster.length_ms + 1, self.cluster.step_ms):
            self._now_ms = end_ms
            self._told = pa.concat_tables([self._told, self._attempt_samples(end_ms)], promote_options="default")
            yield self._step(end_ms), end_ms + 1

    @property
    def _is_hogged(self) -> bool:
        return self._now_ms > self._hog.from_ms

    def _tasks(self, n: int, median_ms: float, sigma: float) -> tuple[Int64Array, Int64Array]:
        hosts, durations = super()._tasks(n, median_ms, sigma)
        if self._is_hogged:
            durations = np.where(hosts == self._hog.node, (durations * self._hog.factor).astype(np.int64), durations)
        return hosts, durations

    def _metrics(self, start_ms: int, end_ms: int) -> list[pa.Table]:
        samples, derived = super()._metrics(start_ms, end_ms)
        values = samples.column("value").to_numpy().copy()
        load = values[:: self.cluster.n_metrics]
        if self._is_hogged:
            load[self._hog.node] = _BUSY_PERCENT
        furthest = int(np.argmax(np.abs(load - load.mean())))
        samples = _with(samples, "value", values)
        derived = _with(derived, "val", np.full(2, float(np.std(load))))
        derived = derived.append_column("host_1", pa.repeat(f"node{furthest}", 2))
        return [samples, derived.append_column("value_1", pa.array(np.full(2, load[furthest])))]

    def _job(self, start_ms: int) -> pa.Table:
        table = super()._job(start_ms)
        kinds = table.column("type")
        ended = pc.is_in(kinds, pa.array(_ENDS))
        table = table.append_column("status", pc.if_else(ended, "SUCCEEDED", pa.scalar(None, pa.string())))
        table = self._with_sources(table)
        self._follow(table)
        return table

    def _with_sources(self, table: pa.Table) -> pa.Table:
        """The hosts that reducers fetch from, and what fetches from the hog take."""
        kinds = np.asarray(table.column("type").to_pylist())
        maps = table.column("host").take(pa.array(np.flatnonzero(kinds == "MapStart"))).to_pylist()
        pulls = np.flatnonzero(kinds == "DataPull")  # of each reducer from all maps in turn
        sources = np.tile(np.asarray(maps, object), len(pulls) // len(maps))
        column = np.full(table.num_rows, None, object)
        column[pulls] = sources
        table = table.append_column("source_host", pa.array(column, pa.string()))
        if not self._is_hogged:
            return table
        slow = np.zeros(table.num_rows, np.bool_)
        slow[pulls] = sources == f"node{self._hog.node}"
        periods = table.column("period_ms")
        longer = pc.cast(pc.multiply(pc.cast(periods, pa.float64()), self._hog.fetch_factor), pa.int64())
        return _with(table, "period_ms", pc.if_else(pa.array(slow), longer, periods))

    def _follow(self, table: pa.Table) -> None:
        """Keep the attempts of a job until they end."""
        names = ["job_id", "task_id", "attempt_id", "host"]
        for kind in ("Map", "Reduce"):
            told = "Map" if kind == "Map" else "Reducer"
            starts = table.filter(pc.equal(table.column("type"), f"{told}Start"))
            ends = table.filter(pc.equal(table.column("type"), f"{told}End"))
            attempts = starts.select(names)
            attempts = attempts.append_column("start_ms", starts.column("t_lo_ms"))
            attempts = attempts.append_column("end_ms", ends.column("t_lo_ms"))
            attempts = attempts.append_column("task_type", pa.repeat(kind.upper(), len(attempts)))
            self._running = pa.concat_tables([self._running, attempts], promote_options="default")

    def _attempt_samples(self, end_ms: int) -> pa.Table:
        """Of each attempt that is running at the end of a step."""
        self._running = self._running.filter(pc.greater(self._running.column("end_ms"), end_ms)).combine_chunks()
        if not self._running.num_rows:
            return self._told.slice(0, 0)
        running = self._running.filter(pc.less(self._running.column("start_ms"), end_ms))
        n = running.num_rows
        started, ends = running.column("start_ms").to_numpy(), running.column("end_ms").to_numpy()
        return pa.table(
            {
                **{name: running.column(name) for name in ("job_id", "task_id", "attempt_id", "host", "task_type")},
                "type": pa.repeat("TaskSample", n),
                "t_lo_ms": np.full(n, end_ms),
                "t_hi_ms": np.full(n, end_ms),
                "source_rank": np.full(n, 2, np.int32),
                "source_seq": np.arange(n),
                "clock_id": pa.repeat("rest:cluster", n),
                "elapsed_ms": end_ms - started,
                "progress": (end_ms - started) / (ends - started),
            }
        )


def _with(table: pa.Table, name: str, values: object) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.chunked_array([_array(values)]))


def _array(values: object) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else pa.array(values)


__all__ = ["Hog", "HoggedStream"]
