"""Events of the recorded cluster, and streams of files for tests."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from collectors.base import Collector
from collectors.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.ganglia_rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.load_balance import LoadDeriver
from collectors.yarn_rest import YarnRestCollector, YarnRestOptions
from deploy.minicluster import packing
from engine.events import EventBatch
from spark_jobs.event_store.schema import to_rows
from tests.collectors.test_recording import RecordedTransport

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "tests" / "fixtures" / "recording" / "minicluster.tar.xz"
POLL_MS = 15_000


def recorded_events(folder: Path) -> list[tuple[str, EventBatch]]:
    """(Source, events) of all that the collectors tell of the recording."""
    packing.unpack(ARCHIVE, folder)
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text(encoding="utf-8"))
    load = LoadDeriver()
    collectors: list[Collector] = [
        JobHistoryCollector(JobHistoryOptions((folder / "history",))),
        ContainerLogCollector(ContainerLogOptions(folder / "userlogs")),
        GangliaRrdCollector(GangliaRrdOptions(folder / "rrds")),
        YarnRestCollector(YarnRestOptions(), RecordedTransport(folder / "rest.jsonl.gz")),
    ]
    found: list[tuple[str, EventBatch]] = []
    for now_ms in range(manifest["started_ms"] + POLL_MS, manifest["ended_ms"] + 120_000, POLL_MS):
        for collector in collectors:
            told = collector.poll(now_ms)
            events = EventBatch.concat([told.events, *(finished.events for finished in told.finished)])
            if collector.name == "ganglia_rrd":
                events = EventBatch.concat([events, load.derive(told.events, told.watermark_ms)])
            found.append((collector.name, events))
    return [(source, events) for source, events in found if len(events)]


def shuffled_rows(recorded: Sequence[tuple[str, EventBatch]], lateness_ms: int, seed: int) -> pa.Table:
    """Rows of the store in the order in which they arrive: each less than the lateness after it happened."""
    rows = pa.concat_tables([to_rows(events, source) for source, events in recorded]).combine_chunks()
    starts = rows.column("t_lo_ms").to_numpy()
    arrivals = starts + np.random.default_rng(seed).integers(0, lateness_ms, len(starts))
    return rows.take(pa.array(np.argsort(arrivals, kind="stable")))


def write_files(rows: pa.Table, folder: Path, n_files: int) -> None:
    """Parquet files in order of arrival, each of which appears at once."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, rows.num_rows, n_files + 1).astype(int)
    for number, (start, stop) in enumerate(itertools.pairwise(bounds.tolist())):
        write_file(rows.slice(start, stop - start), folder / f"{number:04d}.parquet")


def write_file(rows: pa.Table, path: Path) -> None:
    """One Parquet file, whole at once."""
    part = path.with_name(f".{path.name}.part")
    pq.write_table(rows, part)
    part.rename(path)
