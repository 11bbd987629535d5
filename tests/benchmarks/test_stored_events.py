"""Workload H in files: what is written is what the stream tells, and jobs in bulk keep the stream's relations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.stored_events import files_of, write_cluster, write_jobs
from benchmarks.workloads.hadoop_stream import Cluster, HadoopStream

JOB_TYPES = ("JobStart", "JobEnd", "Mapper", "ReducerStart", "ReducerEnd", "LoadStd")


def read(folder: Path, event_type: str) -> list[dict[str, Any]]:
    tables = [pq.read_table(path) for path in files_of(folder, [event_type])]
    return list(pa.concat_tables(tables).to_pylist())


def test_a_cluster_is_stored_whole(tmp_path: Path) -> None:
    cluster = Cluster(length_ms=30_000)
    told: Counter[str] = Counter()
    for batch, _ in HadoopStream(cluster):
        told.update(batch.table.column("type").to_pylist())
    n = write_cluster(round(cluster.n_nodes * cluster.events_per_node_s * 30), tmp_path)
    stored = {kind: sum(pq.read_metadata(path).num_rows for path in files_of(tmp_path, [kind])) for kind in told}
    assert stored == told
    assert n == sum(told.values())


def test_jobs_in_bulk(tmp_path: Path) -> None:
    n = write_jobs(1_000, JOB_TYPES, tmp_path)
    events = {kind: read(tmp_path, kind) for kind in JOB_TYPES}
    assert n == sum(map(len, events.values()))
    ids = [event["event_id"] for of_type in events.values() for event in of_type]
    assert len(set(ids)) == n
    starts = {event["job_id"]: event["t_lo_ms"] for event in events["JobStart"]}
    ends = {event["job_id"]: event["t_lo_ms"] for event in events["JobEnd"]}
    begun = {event["task_id"]: event["t_lo_ms"] for event in events["ReducerStart"]}
    assert starts.keys() == ends.keys()
    assert len(begun) == len(events["ReducerEnd"])
    for event in (*events["Mapper"], *events["ReducerEnd"]):
        assert starts[event["job_id"]] < event["t_lo_ms"] < ends[event["job_id"]]
    for event in events["ReducerEnd"]:
        assert event["t_lo_ms"] == begun[event["task_id"]] + event["period_ms"]
    assert all(event["t_hi_ms"] - event["t_lo_ms"] == 14_999 for event in events["LoadStd"])
