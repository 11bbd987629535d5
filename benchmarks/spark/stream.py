"""The stream on Spark: sustained events/s, latency at parts of that, state per bucket, time to recover.

`CLUSTERCEP_BENCH_STREAM_NODES`, `_STEPS` and `_FILES` set the size. One file is one step of the cluster; rows are those
that the configured queries read.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.assembly import checked_queries
from app.config import load_settings
from app.store.api import open_store
from benchmarks.hadoop_stream import Cluster, HadoopStream
from benchmarks.measure import show, size
from spark_jobs.event_store.schema import to_rows
from spark_jobs.session import spark_session
from spark_jobs.stream import StreamJob, StreamOptions
from spark_jobs.stream_alerts import Written
from spark_jobs.stream_processor import CONF
from spark_jobs.stream_sources import FolderInput

ROOT = Path(__file__).parents[2]
LATENESS_MS = 5_000
N_BUCKETS = 4
SHARES = (0.5, 0.9)


@dataclass
class Done:
    """When which micro-batch was in the store."""

    at_s: list[float] = field(default_factory=list)
    n_events: list[int] = field(default_factory=list)
    buckets: dict[tuple[str, int], int] = field(default_factory=dict)

    def take(self, written: Written) -> None:
        """For StreamJob.after."""
        self.at_s.append(time.perf_counter())
        self.n_events.append(sum(n for (name, _, _), n in written.batch.counters.items() if name == "events"))
        for figures in written.batch.buckets:
            if "state_bytes" in figures:
                self.buckets[figures["group"], figures["bucket"]] = figures["state_bytes"]


def files_of(n_nodes: int, n_steps: int, types: frozenset[str]) -> list[pa.Table]:
    """One table of rows per step, of the types that queries read."""
    cluster = Cluster(n_nodes=n_nodes, length_ms=n_steps * 15_000)
    return [to_rows(batch.of_types(types), "benchmark") for batch, _ in HadoopStream(cluster)]


def put(tables: Sequence[pa.Table], folder: Path, first: int) -> None:
    """Files that appear whole at once."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, first):
        part = folder / f".{number:06d}"
        pq.write_table(table, part)
        part.rename(folder / f"{number:06d}.parquet")


def main() -> dict[str, Any]:
    """Figures by name."""
    n_nodes, n_steps = size("STREAM_NODES", 200), size("STREAM_STEPS", 40)
    n_files = size("STREAM_FILES", 8)
    settings = load_settings(ROOT / "config.yaml", {})
    queries = checked_queries(settings)
    read = frozenset().union(*(query.read_types for query in queries.compiled))
    tables = files_of(n_nodes, n_steps, read)
    figures: dict[str, Any] = {"n_nodes": n_nodes, "n_events": sum(table.num_rows for table in tables)}
    conf = {**CONF, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    with tempfile.TemporaryDirectory() as made, spark_session("benchmark", "local[2]", conf) as spark:
        spark.sparkContext.setLogLevel("OFF")
        folder = Path(made)
        with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
            source = FolderInput(str(folder / "in"), "parquet", max_files=n_files)
            options = StreamOptions(source, str(folder / "checkpoint"), N_BUCKETS, LATENESS_MS, once=True)
            done = Done()
            job = StreamJob(options, settings, queries, store, after=done.take)
            half = len(tables) // 2
            put(tables[:half], folder / "in", 0)
            job.start(spark).awaitTermination()
            seconds = np.diff(done.at_s[:-1])  # the first micro-batch starts the workers, the last has no events
            events_per_s = sum(done.n_events[1 : len(seconds) + 1]) / max(1e-9, float(seconds.sum()))
            figures["sustained_events_per_s"] = round(events_per_s)
            figures["state_bytes_per_bucket"] = _spread(list(done.buckets.values()))
            started, n_before = time.perf_counter(), len(done.at_s)
            put(tables[half : half + 1], folder / "in", half)
            job.start(spark).awaitTermination()
            figures["recovery_s"] = round(done.at_s[n_before] - started, 2)
            left = tables[half + 1 :]
            live = replace(options, once=False, trigger_ms=0, source=replace(source, max_files=None))
            figures["latency"] = [
                _latency(
                    replace(job, options=live, after=(mine := Done()).take),
                    spark,
                    mine,
                    part,
                    folder / "in",
                    half + 1 + at,
                    share,
                    events_per_s,
                )
                for share, (at, part) in zip(SHARES, _halves(left), strict=True)
            ]
    show("stream", list(figures), [[figures[name] for name in figures]])
    return figures


def _latency(
    job: StreamJob,
    spark: Any,
    done: Done,
    tables: Sequence[pa.Table],
    folder: Path,
    first: int,
    share: float,
    events_per_s: float,
) -> dict[str, Any]:
    """From a file's appearance to the end of the micro-batch that has taken it in, without the lateness."""
    query = job.start(spark)
    query.processAllAvailable()
    appeared: list[tuple[float, int]] = []
    pause = threading.Event()
    n_told = sum(done.n_events)
    for number, table in enumerate(tables, first):
        put([table], folder, number)
        appeared.append((time.perf_counter(), table.num_rows))
        pause.wait(table.num_rows / (share * events_per_s))
    query.processAllAvailable()
    query.stop()
    ends = np.cumsum(done.n_events)
    waits, n = [], n_told
    for at_s, n_rows in appeared:
        n += n_rows
        waits.append(done.at_s[min(int(np.searchsorted(ends, n)), len(done.at_s) - 1)] - at_s)
    return {"share": share, "median_s": round(median(waits), 2), "worst_s": round(max(waits), 2), "n_files": len(waits)}


def _halves(tables: Sequence[pa.Table]) -> list[tuple[int, Sequence[pa.Table]]]:
    middle = len(tables) // 2
    return [(0, tables[:middle]), (middle, tables[middle:])]


def _spread(sizes: Sequence[int]) -> dict[str, int]:
    return {"least": min(sizes), "median": int(median(sizes)), "most": max(sizes)} if sizes else {}


__all__ = ["main"]
