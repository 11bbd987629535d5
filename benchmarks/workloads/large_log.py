"""An event log beside a large store: three hours of a cluster of 200 hosts, whose jobs are the latest that alerts name.

Workload H (`hadoop_stream`): 30 metrics of each host every 15 s, some 1,100 jobs of one to a thousand map tasks with
their fetches, written step by step and merged as `clustercep run` does.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import delete, insert

from app.event_log.writer import EventLog
from app.settings import Retention
from app.store.api import Store
from app.store.models import CheckpointRow
from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster, HadoopStream
from collectors.time_units import HOUR_MS
from engine.events import HEADER, EventBatch

EPOCH = "0" * 15 + "1"
LENGTH_MS = 3 * HOUR_MS
STEP_MS = 60_000
"""Of a file before merging."""
FIRST_JOB = 98_900
"""Of the 100,000 jobs that the store's alerts name."""
METRICS = (
    "cpu_user", "cpu_system", "cpu_idle", "cpu_wio", "load_one", "load_five", "load_fifteen", "cpu_num", "proc_run",
    "proc_total", "mem_total", "mem_free", "mem_buffers", "mem_cached", "mem_shared", "swap_total", "swap_free",
    "disk_total", "disk_free", "part_max_used", "bytes_in", "bytes_out", "pkts_in", "pkts_out", "boottime", "cpu_nice",
    "cpu_aidle", "cpu_steal", "cpu_intr", "cpu_sintr",
)  # fmt: skip
NUMBERS = {
    "n_input_records": 1e6, "n_output_records": 1e6, "input_bytes": 1e8, "output_bytes": 1e8, "n_spilled_records": 1e6,
    "gc_ms": 2e3, "cpu_ms": 3e4,
}  # fmt: skip
"""Means of exponential distributions: what attempts tell at their end."""
USERS = ("ann", "bob", "etl", "reports")


def large_log(folder: Path, end_ms: int, length_ms: int = LENGTH_MS) -> None:
    """Write it below `folder`, ending at a time; where it is already, it stays."""
    finished = folder / "whole"
    if finished.is_file() and finished.read_text() == str(length_ms):
        return
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    stream = HadoopStream(Cluster(n_nodes=200, length_ms=length_ms, seed=26, events_per_node_s=3.214))
    stream._n_jobs = FIRST_JOB
    retention = Retention()
    chosen, log = np.random.default_rng(26), EventLog(folder, durable=False)
    log.begin(EPOCH, 0)
    started_s, n_events, step, waiting = time.perf_counter(), 0, 0, list[EventBatch]()
    for batch, watermark_ms in stream:
        waiting.append(batch)
        if (watermark_ms - 1) % STEP_MS and watermark_ms <= length_ms:
            continue
        events = _told(
            pa.concat_tables([b.table for b in waiting], promote_options="default"), end_ms - length_ms, chosen
        )
        step, n_events, waiting = step + 1, n_events + len(events), []
        log.write(step, events, end_ms)
        log.tidy(step, end_ms, retention)
    log.close()
    finished.write_text(str(length_ms))
    took_s = time.perf_counter() - started_s
    print(f"{folder}: {n_events:,} events, {stream._n_jobs - FIRST_JOB:,} jobs, in {took_s:.0f} s")


def commit(store: Store) -> None:
    """Let the store know all steps of the log."""
    row: dict[str, Any] = {"pipeline": "benchmark", "number": 1 << 40, "file": "none", "digest": "0" * 64, "version": 1}
    with store.transaction() as writer:
        writer.session.execute(delete(CheckpointRow))
        writer.session.execute(insert(CheckpointRow), [{**row, "written_ms": 0, "epoch": EPOCH}])


def _told(table: pa.Table, shift_ms: int, chosen: np.random.Generator) -> EventBatch:
    """With the times, ids, names and values that the pages show; the stream has what queries need."""
    n, types = table.num_rows, table.column("type").combine_chunks()
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    for name in ("t_lo_ms", "t_hi_ms"):
        columns[name] = pc.add(columns[name], shift_ms)

    def of(*wanted: str) -> pa.Array:
        return pc.is_in(types, pa.array(wanted))

    reducers = of("ReducerStart", "ReducerEnd", "Reducer", "DataPull", "DataIO")
    for name in ("job_id", "task_id", "attempt_id"):
        ids = pc.replace_substring(columns[name], "_1700000000000_", "_1790000000000_0")
        if name != "job_id":
            of_task = r"^(\w+?_\d+_\d+)_(\d+)"
            ids = pc.if_else(
                reducers,
                pc.replace_substring_regex(ids, of_task, r"\1_r_00000\2"),
                pc.replace_substring_regex(ids, of_task, r"\1_m_00000\2"),
            )
        columns[name] = ids
    names = pc.if_else(of("Metric"), pc.replace_substring(columns["name"], "metric", ""), None)
    by_number = {"cpu_user": METRICS[0], **{str(i): name for i, name in enumerate(METRICS)}}
    encoded = names.dictionary_encode()
    known = pa.array([by_number[name] for name in encoded.dictionary.to_pylist()], pa.string())
    columns["name"] = pc.coalesce(
        pa.DictionaryArray.from_arrays(encoded.indices, known).cast(pa.string()), columns["name"]
    )
    ended = of("MapEnd", "ReducerEnd", "Mapper", "Reducer")
    failed = pa.array(chosen.random(n) < 0.01)
    columns["status"] = pc.if_else(
        ended, pc.if_else(failed, "FAILED", "SUCCEEDED"), pc.if_else(of("JobEnd"), "SUCCEEDED", None)
    )
    for name, mean in NUMBERS.items():
        columns[name] = _some(of("Mapper", "Reducer"), chosen.exponential(mean, n))
    for name, share in {"shuffle_ms": 0.6, "sort_ms": 0.1, "reduce_ms": 0.3}.items():
        columns[name] = pc.if_else(
            of("Reducer"), pc.cast(pc.multiply(columns["period_ms"], share), pa.int64(), safe=False), None
        )
    hosts = pa.array([f"node{i}" for i in chosen.integers(0, 200, n)])
    columns["source_host"] = pc.if_else(of("DataPull"), hosts, None)
    jobs = of("JobStart", "JobEnd")
    users = pa.array([USERS[i] for i in chosen.integers(0, len(USERS), n)])
    columns["user"], columns["queue"] = pc.if_else(jobs, users, None), pc.if_else(jobs, "default", None)
    columns["job_name"] = pc.if_else(jobs, pc.binary_join_element_wise("daily sums of", users, " "), None)
    fields = [*HEADER, *(pa.field(name, SCHEMA.attributes[name].arrow) for name in columns if name not in HEADER.names)]
    arrays = [columns[field.name].cast(field.type) for field in fields]
    return EventBatch(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))


def _some(mask: pa.Array, values: Any) -> pa.Array:
    return pc.if_else(mask, pa.array(values.astype(np.int64)), None)


__all__ = ["commit", "large_log"]
