"""From files to matches: job history through the life-time queries, Ganglia RRDs through a load query.

The baseline of each figure is the collector alone on the same files, in the same run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import engine
from benchmarks.collectors.collect import STEP_S, T0_MS, write_histories, write_rrds
from benchmarks.measure import median_seconds, show
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.metrics.load_balance import LoadDeriver, LoadOptions
from collectors.schema import load_event_types
from collectors.time_units import DAY_MS
from engine.events import FOREVER_MS, EventBatch

QUERIES = Path(__file__).resolve().parents[2] / "queries"
STEADY = """
PATTERN SEQ(LoadStd+ b[])
WHERE   skip_till_any_match { b[i].val >= b[i-1].val AND count(b[]) >= 4 }
WITHIN  2 minutes
OUTPUT  COLLAPSED
"""


def main(
    n_jobs: int = 40, n_maps: int = 200, n_reduces: int = 20, n_hosts: int = 200, n_metrics: int = 10
) -> dict[str, Any]:
    """Print a table and return its figures."""
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
        history = measure_history(Path(folder) / "history", n_jobs, n_maps, n_reduces)
        rrds = measure_rrds(Path(folder) / "rrds", n_hosts, n_metrics)
    show(
        "from file to match",
        ("source", "events", "rows", "seconds", "per second", "collector alone", "ratio"),
        [[".jhist (events)", *history.values()], ["RRDs (hosts x metrics)", *rrds.values()]],
    )
    return {"job_history": history, "rrd": rrds}


def measure_history(folder: Path, n_jobs: int, n_maps: int, n_reduces: int) -> dict[str, float]:
    """Finished histories, each replayed as a source of its own, as the pipeline does."""
    write_histories(folder, n_jobs, n_maps, n_reduces)
    schema = load_event_types()
    names = ("mapper-lifetimes", "reducer-lifetimes")
    queries = [engine.compile_query((QUERIES / f"{n}.cep").read_text(), schema, name=n) for n in names]
    n_events = n_rows = 0

    def read() -> tuple[EventBatch, ...]:
        polled = JobHistoryCollector(JobHistoryOptions((folder,))).poll(T0_MS + DAY_MS)
        return tuple(finished.events for finished in polled.finished)

    def match() -> None:
        nonlocal n_events, n_rows
        batches = read()
        n_events = sum(len(batch) for batch in batches)
        n_rows = sum(len(engine.Engine(queries, schema).process(batch, FOREVER_MS)) for batch in batches)

    seconds, alone = median_seconds(match), median_seconds(read)
    return _figures(seconds, alone, n_events, n_rows, n_events)


def measure_rrds(folder: Path, n_hosts: int, n_metrics: int) -> dict[str, float]:
    """One hour of samples of every host and metric; the load is derived from one of the metrics."""
    n_files = len(write_rrds(folder, n_hosts, n_metrics, n_steps=240))
    now_ms = T0_MS + 241 * STEP_S * 1000
    schema = load_event_types()
    query = engine.compile_query(STEADY, schema, name="steady")
    n_events = n_rows = 0

    def read() -> tuple[EventBatch, int]:
        options = GangliaRrdOptions(folder, metric_pattern=".*", lateness_ms=0)
        polled = GangliaRrdCollector(options).poll(now_ms)
        return polled.events, polled.watermark_ms

    def match() -> None:
        nonlocal n_events, n_rows
        samples, watermark_ms = read()
        load = LoadDeriver(LoadOptions(metric="metric_0")).derive(samples, watermark_ms)
        n_events = len(samples)
        n_rows = len(engine.Engine([query], schema).process(load, FOREVER_MS))

    seconds, alone = median_seconds(match), median_seconds(read)
    return _figures(seconds, alone, n_events, n_rows, n_files)


def _figures(seconds: float, alone: float, n_events: int, n_rows: int, n_units: int) -> dict[str, float]:
    return {
        "n_events": n_events,
        "n_rows": n_rows,
        "seconds": round(seconds, 3),
        "per_s": round(n_units / seconds),
        "collector_alone_per_s": round(n_units / alone),
        "ratio": round(seconds / alone, 2),
    }
