"""Events of the recorded cluster, and streams of files for tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import SecretStr

from app.config import load_settings
from app.queries.loading import load_queries
from app.settings import Queries, WebhookReceiver
from app.store.api import Store
from collectors.base import Collector
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from deploy.minicluster.recording import packing
from engine.events import EventBatch
from spark_jobs.event_store.schema import to_rows
from spark_jobs.stream.job import StreamJob, StreamOptions
from spark_jobs.stream.kafka import KafkaInput
from spark_jobs.stream.sources import FolderInput
from tests.collectors.test_recording import RecordedTransport
from tests.conftest import RECORDING

JOBS = """
PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c)
WHERE   skip_till_next_match { [job_id] }
WITHIN  1 hour
RETURN  a.job_id, count(b[]) AS n_mappers
ALERT   warning 'job {job_id}: {n_mappers}'
"""
LOST = """
PATTERN SEQ(JobStart a, ! JobEnd b)
WHERE   skip_till_any_match { [job_id] }
WITHIN  20 seconds
RETURN  a.job_id
ALERT   warning 'job {job_id} goes on'
"""
NODES = """
PATTERN SEQ(NodeLost a, NodeLost b)
WHERE   skip_till_next_match { a.host != b.host }
WITHIN  1 minute
RETURN  a.host
ALERT   critical 'two nodes'
"""

ROOT = Path(__file__).parents[2]
POLL_MS = 15_000


def recorded_events(folder: Path) -> list[tuple[str, EventBatch]]:
    """(Source, events) of all that the collectors tell of the recording."""
    packing.unpack(RECORDING, folder)
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


def write_file(rows: pa.Table, path: Path, changed_s: int | None = None) -> None:
    """One Parquet file, whole at once; Spark takes files in the order in which they changed."""
    part = path.with_name(f".{path.name}.part")
    pq.write_table(rows, part)
    if changed_s is not None:
        os.utime(part, (changed_s, changed_s))
    part.rename(path)


LATENESS_MS = 5_000
RECEIVER = WebhookReceiver(url=SecretStr("http://127.0.0.1:9/"))


def small_job(folder: Path, name: str, store: Store, kafka: KafkaInput | None = None, **more: Any) -> StreamJob:
    """Three queries over the JSON files of `folder`, or a topic, with alerts for one receiver.

    The checkpoint is called `name`.
    """
    shipped = load_settings(ROOT / "config.yaml", {})
    alerting = shipped.alerting.model_copy(update={"receivers": {"ops": RECEIVER}})
    settings = shipped.model_copy(update={"alerting": alerting})
    source = kafka or FolderInput(str(folder / "in"), "jsonl", max_files=1)
    options = StreamOptions(source, str(folder / name), n_buckets=3, lateness_ms=LATENESS_MS, once=True)
    queries = load_queries(Queries(directory=folder / "queries"), 60_000)
    return StreamJob(options, settings, queries, store, **more)


def small_stream(folder: Path, lines: Sequence[Sequence[str]]) -> None:
    """The queries, and files of JSON lines of which the times of change are in order."""
    (folder / "queries").mkdir(parents=True)
    for name, text in {"jobs": JOBS, "lost": LOST, "nodes": NODES}.items():
        (folder / "queries" / f"{name}.cep").write_text(text)
    (folder / "in").mkdir()
    for number, part in enumerate(lines):
        path = folder / "in" / f"{number:04d}.jsonl"
        path.write_text("".join(line + "\n" for line in part))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
