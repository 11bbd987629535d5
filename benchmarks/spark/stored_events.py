"""Workload H as Parquet files per event type: a whole cluster's stream, or what weeks of its jobs tell of some types.

Files are written as the events come, so that memory does not grow with their number: row groups of some ten thousand
events, a new file for each two millions of a type, as the event store has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster, HadoopStream
from engine.events import HEADER, Int64Array

ROWS_PER_GROUP = 65_536
ROWS_PER_FILE = 2_000_000
JOBS_AT_ONCE = 2_000
_LEFT_OUT = ("origin", "raw")
_FIRST_MS = 1_700_000_000_000


class TypeFiles:
    """A folder per event type, and in it files that are full when the next one begins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: dict[str, list[pa.Table]] = {}
        self._n_of_file: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._n_files = 0
        self._open = ExitStack()
        self.n_events = 0

    def __enter__(self) -> TypeFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for event_type in self._waiting:
            self._write(event_type)
        self._open.close()

    def add(self, events: pa.Table) -> None:
        """Events of any types."""
        self.n_events += events.num_rows
        encoded = events.column("type").combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy()
        for code, event_type in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            is_run = rows[-1] - rows[0] + 1 == len(rows)  # what stands together need not be copied
            own = events.slice(rows[0], len(rows)) if is_run else events.take(pa.array(rows))
            self._waiting.setdefault(event_type, []).append(_as_stored(own, event_type))
            if sum(table.num_rows for table in self._waiting[event_type]) >= ROWS_PER_GROUP:
                self._write(event_type)

    def _write(self, event_type: str) -> None:
        tables, self._waiting[event_type] = self._waiting[event_type], []
        if not tables:
            return
        rows = pa.concat_tables(tables)
        if event_type not in self._writers or self._n_of_file[event_type] >= ROWS_PER_FILE:
            self._begin_file(event_type, rows.schema)
        self._writers[event_type].write_table(rows, row_group_size=ROWS_PER_GROUP)
        self._n_of_file[event_type] += rows.num_rows

    def _begin_file(self, event_type: str, schema: pa.Schema) -> None:
        if event_type in self._writers:
            self._writers[event_type].close()
        place = self._folder / event_type
        place.mkdir(parents=True, exist_ok=True)
        self._n_files += 1
        dictionaries = [field.name for field in schema if field.name != "event_id" and pa.types.is_string(field.type)]
        writer = pq.ParquetWriter(
            place / f"{self._n_files:06d}.parquet", schema, compression="zstd", use_dictionary=dictionaries
        )
        self._writers[event_type] = self._open.enter_context(writer)
        self._n_of_file[event_type] = 0


def _as_stored(events: pa.Table, event_type: str) -> pa.Table:
    """The header and the attributes of the type; those that H does not tell are null."""
    kinds = {field.name: field.type for field in HEADER if field.name not in _LEFT_OUT}
    kinds |= {name: kind.arrow for name, kind in SCHEMA.types[event_type].items()}
    present = set(events.column_names)
    columns = {
        name: events.column(name) if name in present else pa.nulls(events.num_rows, kind)
        for name, kind in kinds.items()
    }
    return pa.table(columns, schema=pa.schema(list(kinds.items())))


def write_cluster(n_events: int, folder: Path) -> int:
    """The stream of 1,000 nodes for as long as about `n_events` take; returns how many there are."""
    cluster = Cluster()
    length_ms = round(n_events / (cluster.n_nodes * cluster.events_per_node_s) * 1_000)
    with TypeFiles(folder) as files:
        for batch, _ in HadoopStream(Cluster(length_ms=max(length_ms, cluster.step_ms))):
            files.add(batch.table)
    return files.n_events


def write_jobs(n_events: int, types: Collection[str], folder: Path) -> int:
    """At least `n_events` of these types, and no others: as many jobs as that takes; returns how many there are.

    `types`: JobStart, JobEnd, Mapper, ReducerStart, ReducerEnd, LoadStd.
    """
    cluster = Cluster()
    random = np.random.default_rng(cluster.seed)
    start_ms = _FIRST_MS
    with TypeFiles(folder) as files:
        first_job = 1
        while files.n_events < n_events:
            gaps = random.exponential(1_000 / (cluster.jobs_per_node_s * cluster.n_nodes), JOBS_AT_ONCE)
            begun = start_ms + np.cumsum(gaps).astype(np.int64)
            for table in _of_jobs(cluster, random, begun, first_job, types):
                files.add(_numbered(table, files.n_events))
            if "LoadStd" in types:
                files.add(_numbered(_load(cluster, random, start_ms, int(begun[-1])), files.n_events))
            start_ms = int(begun[-1])
            first_job += JOBS_AT_ONCE
    return files.n_events


def _of_jobs(
    cluster: Cluster, random: np.random.Generator, begun: Int64Array, first_job: int, types: Collection[str]
) -> Iterator[pa.Table]:
    """As `HadoopStream` draws each job, for many of them together."""
    n = len(begun)
    drawn = np.rint(random.lognormal(np.log(cluster.maps_median), cluster.maps_sigma, n))
    n_maps = np.clip(drawn, 1, 1_000).astype(np.int64)
    n_reducers = np.maximum(1, n_maps // cluster.maps_per_reducer)
    of_map, of_reducer = np.repeat(np.arange(n), n_maps), np.repeat(np.arange(n), n_reducers)
    map_ms = _durations(cluster, random, len(of_map), cluster.map_median_ms, cluster.map_sigma)
    map_ends = begun[of_map] + 1 + random.exponential(cluster.wait_mean_ms, len(of_map)).astype(np.int64) + map_ms
    by_end = map_ends[np.lexsort((map_ends, of_map))]
    firsts = np.cumsum(n_maps) - n_maps
    ready, last = by_end[firsts + n_maps // 20], by_end[firsts + n_maps - 1]
    waits = random.exponential(cluster.wait_mean_ms / 5, len(of_reducer)).astype(np.int64)
    reducer_starts = ready[of_reducer] + 1 + waits
    reducer_ms = _durations(cluster, random, len(of_reducer), cluster.reduce_median_ms, cluster.reduce_sigma)
    reducer_ends = np.maximum(reducer_starts, last[of_reducer]) + reducer_ms
    ends = np.maximum.reduceat(reducer_ends, np.cumsum(n_reducers) - n_reducers) + 1
    told: list[tuple[str, Int64Array, Int64Array, Int64Array | None]] = [
        ("JobStart", np.arange(n), begun, None),
        ("JobEnd", np.arange(n), ends, ends - begun),
        ("Mapper", of_map, map_ends, map_ms),
        ("ReducerStart", of_reducer, reducer_starts, None),
        ("ReducerEnd", of_reducer, reducer_ends, reducer_ends - reducer_starts),
    ]
    jobs = pa.array([f"job_1700000000000_{number:04d}" for number in range(first_job, first_job + n)])
    for event_type, of_job, times_ms, periods_ms in told:
        if event_type in types:
            yield _told(event_type, jobs, of_job, times_ms, periods_ms)


def _durations(cluster: Cluster, random: np.random.Generator, n: int, median_ms: float, sigma: float) -> Int64Array:
    slow = np.where(random.random(n) < cluster.slow_share, cluster.slow_factor, 1.0)
    speeds = random.lognormal(0.0, cluster.speed_sigma, n) * slow
    return 1 + (random.lognormal(np.log(median_ms), sigma, n) * speeds).astype(np.int64)


def _told(
    event_type: str, jobs: pa.Array, of_job: Int64Array, times_ms: Int64Array, periods_ms: Int64Array | None
) -> pa.Table:
    n = len(times_ms)
    job_ids = jobs.take(pa.array(of_job))
    columns: dict[str, Any] = {
        "type": pa.repeat(event_type, n),
        "t_lo_ms": times_ms,
        "t_hi_ms": times_ms,
        "source_rank": np.full(n, 2, np.int32),
        "clock_id": pc.binary_join_element_wise("host", job_ids, ":"),
        "job_id": job_ids,
    }
    if not event_type.startswith("Job"):
        counted = np.arange(n) - np.repeat(np.flatnonzero(np.diff(of_job, prepend=-1)), np.bincount(of_job))
        kind = "m" if event_type == "Mapper" else "r"
        numbers = pa.array(counted).cast(pa.string())
        of_task = pc.replace_substring(job_ids, "job", "task")
        columns["task_id"] = pc.binary_join_element_wise(of_task, kind, numbers, "_")
        of_attempt = pc.replace_substring(job_ids, "job", "attempt")
        columns["attempt_id"] = pc.binary_join_element_wise(of_attempt, kind, numbers, "0", "_")
    if periods_ms is not None:
        columns["period_ms"] = periods_ms
    return pa.table(columns)


def _load(cluster: Cluster, random: np.random.Generator, start_ms: int, end_ms: int) -> pa.Table:
    """LoadStd of the steps that end in (start, end]: two halves of the hosts swing against each other."""
    step_ms = cluster.step_ms
    ends = np.arange(start_ms // step_ms + 1, end_ms // step_ms + 1) * step_ms
    swing = cluster.load_swing_percent * np.sin(2 * np.pi * ends / cluster.load_period_ms)
    n = len(ends)
    return pa.table(
        {
            "type": pa.repeat("LoadStd", n),
            "t_lo_ms": ends - step_ms + 1,
            "t_hi_ms": ends,
            "source_rank": np.ones(n, np.int32),
            "clock_id": pa.repeat("load:ganglia:cluster", n),
            "val": np.hypot(swing, cluster.load_noise_percent) + random.normal(0.0, 0.1, n),
        }
    )


def _numbered(table: pa.Table, first: int) -> pa.Table:
    numbers = np.arange(first, first + table.num_rows)
    return table.append_column("event_id", pa.array(numbers).cast(pa.string())).append_column(
        "source_seq", pa.array(numbers)
    )


def files_of(folder: Path, types: Sequence[str]) -> list[Path]:
    """The files of these types."""
    return [path for event_type in sorted(types) for path in sorted((folder / event_type).glob("*.parquet"))]


__all__ = ["files_of", "write_cluster", "write_jobs"]
