"""Queries over history: Spark against one process that reads, sorts and matches the same Parquet with the bare engine.

Workload H. CLUSTERCEP_BENCH_QUERY_EVENTS: events of the stream (10,000,000); CLUSTERCEP_BENCH_QUERY_RUNS: of which the
median counts (3). Q1 is also asked as Spark SQL; of Q6 that says nothing: in SQL without recursion there is no way to
write "each of any number of chosen events".
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import engine
from benchmarks.hadoop_stream import SCHEMA, Cluster, HadoopStream
from benchmarks.measure import show, size
from benchmarks.own_process import measured
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.evaluate import event_batch
from spark_jobs.query_rows import SPARK_CONF, Asked, plan_rows
from spark_jobs.session import spark_session

Q1 = (
    "PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c) WHERE skip_till_next_match { [job_id] } WITHIN 1 day "
    "RETURN avg(b[].period_ms) AS avg_ms, max(b[].period_ms) AS max_ms"
)
Q6 = (
    "PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c) "
    "WHERE skip_till_any_match { [task_id] AND b[i].val >= b[i-1].val } WITHIN 10 minutes OUTPUT COLLAPSED"
)
QUERIES = {"Q1": Q1, "Q6": Q6}

SQL = {
    "Q1": """
WITH told AS (
  SELECT a.event_id AS first_id, c.event_id AS last_id, m.period_ms
  FROM (SELECT * FROM events WHERE type = 'JobStart') a
  JOIN (SELECT * FROM events WHERE type = 'JobEnd') c
    ON a.job_id = c.job_id AND (c.t_lo_ms, c.source_seq) > (a.t_lo_ms, a.source_seq)
   AND c.t_lo_ms - a.t_lo_ms <= 86400000
  JOIN (SELECT * FROM events WHERE type = 'Mapper') m
    ON m.job_id = a.job_id AND (m.t_lo_ms, m.source_seq) > (a.t_lo_ms, a.source_seq)
   AND (m.t_lo_ms, m.source_seq) < (c.t_lo_ms, c.source_seq))
SELECT first_id, last_id, avg(period_ms) AS avg_ms, max(period_ms) AS max_ms
FROM told GROUP BY first_id, last_id"""
}
"""The same answer where a job starts and ends once."""


def main() -> dict[str, Any]:
    """Measure, print the table, return the figures."""
    n_events, n_runs = size("QUERY_EVENTS", 10_000_000), size("QUERY_RUNS", 3)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="clustercep-query-") as folder:
        stored = write_stream(n_events, Path(folder))
        for name in QUERIES:
            for task, arguments in _tasks(name):
                given = {"folder": folder, "name": name, "n_runs": n_runs, **arguments}
                found = measured(f"benchmarks.spark.query:{task}", given, limit_s=3_600.0)
                if found is not None:
                    rows.append({"query": name, "n_events": stored, **found})
    columns = ("way", "cores", "seconds", "rows", "MB read", "lines")
    for name in QUERIES:
        own = [row for row in rows if row["query"] == name]
        bare_s = own[0]["seconds"]
        shown = [[row[column] for column in columns] + [row["seconds"] / bare_s] for row in own]
        show(f"{name}, {stored:,} events", [*columns, "times the bare engine"], shown)
    return {"rows": rows, "load": os.getloadavg()}


def _tasks(name: str) -> list[tuple[str, dict[str, Any]]]:
    by_spark = [("by_spark", {"n_cores": n}) for n in (1, 2)]
    return [("by_engine", {}), *by_spark, *([("by_sql", {"n_cores": 2})] if name in SQL else [])]


def write_stream(n_events: int, folder: Path) -> int:
    """The stream as a Parquet file per type and some thousand events, in no order of time across files."""
    cluster = Cluster()
    length_ms = round(n_events / (cluster.n_nodes * cluster.events_per_node_s) * 1_000)
    n_written = 0
    for number, (batch, _) in enumerate(HadoopStream(Cluster(length_ms=max(length_ms, cluster.step_ms)))):
        n_written += len(batch)
        for event_type in SCHEMA.types:
            events = batch.of_types([event_type]).table
            if events.num_rows:
                own = [name for name in events.column_names if name not in ("origin", "raw")]
                (folder / event_type).mkdir(exist_ok=True)
                pq.write_table(events.select(own), folder / event_type / f"{number:06d}.parquet")
    return n_written


# ------------------------------------------------------------ in processes of their own


def by_engine(folder: str, name: str, n_runs: int) -> dict[str, Any]:
    """One process: read, sort, match. Engines partition by themselves."""
    asked = Asked(name, {name: QUERIES[name]}, SCHEMA)
    query, (paths, columns, n_bytes) = asked.compiled(), _chosen(folder, asked)

    def work() -> int:
        tables = [pq.read_table(path, columns=[c for c in columns if c in _names(path)]) for path in paths]
        events = event_batch(pa.concat_tables(tables, promote_options="default"), SCHEMA.attributes).sorted()
        running, n_rows = engine.Engine([query], SCHEMA), 0
        for start in range(0, len(events), 65_536):
            batch = EventBatch(events.table.slice(start, 65_536))
            n_rows += len(running.process(batch, int(batch.t_lo_ms[-1])))
        return n_rows + len(running.process(EventBatch.empty(), FOREVER_MS))

    return {"way": "bare engine", "cores": 1, "MB read": n_bytes / 1e6, "lines": 1} | _timed(work, n_runs)


def by_spark(folder: str, name: str, n_runs: int, n_cores: int) -> dict[str, Any]:
    """The job, its rows counted."""
    asked = Asked(name, {name: QUERIES[name]}, SCHEMA)
    paths, columns, n_bytes = _chosen(folder, asked)
    with spark_session("benchmark", f"local[{n_cores}]", SPARK_CONF) as spark:

        def work() -> int:
            events = spark.read.option("mergeSchema", "true").parquet(*map(str, paths))
            present = [column for column in columns if column in events.columns]
            return plan_rows(events.select(*present), asked).rows.count()

        return {"way": "spark", "cores": n_cores, "MB read": n_bytes / 1e6, "lines": 1} | _timed(work, n_runs)


def by_sql(folder: str, name: str, n_runs: int, n_cores: int) -> dict[str, Any]:
    """The same written by hand in Spark SQL."""
    paths, columns, n_bytes = _chosen(folder, Asked(name, {name: QUERIES[name]}, SCHEMA))
    text = SQL[name].strip()
    with spark_session("benchmark", f"local[{n_cores}]", SPARK_CONF) as spark:
        events = spark.read.option("mergeSchema", "true").parquet(*map(str, paths))
        events.select(*[c for c in columns if c in events.columns]).createOrReplaceTempView("events")
        found = _timed(lambda: spark.sql(text).count(), n_runs)
    return {"way": "Spark SQL", "cores": n_cores, "MB read": n_bytes / 1e6, "lines": text.count("\n") + 1} | found


def _chosen(folder: str, asked: Asked) -> tuple[list[Path], list[str], int]:
    """Files of the types that decide, columns that do, and how many compressed bytes these are."""
    query = asked.compiled()
    columns = ["event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", *sorted(query.read_attributes)]
    paths = [path for kind in sorted(query.distribution.types) for path in sorted(Path(folder, kind).glob("*.parquet"))]
    n_bytes = 0
    for path in paths:
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            parts = [metadata.row_group(group).column(n) for n in range(metadata.num_columns)]
            n_bytes += sum(part.total_compressed_size for part in parts if part.path_in_schema in columns)
    return paths, columns, n_bytes


def _names(path: Path) -> list[str]:
    return list(pq.read_schema(path).names)


def _timed(work: Callable[[], int], n_runs: int) -> dict[str, Any]:
    n_rows = work()  # compiled code is loaded, workers are started
    seconds = []
    for _ in range(n_runs):
        started = time.perf_counter()
        assert work() == n_rows
        seconds.append(time.perf_counter() - started)
    return {"seconds": statistics.median(seconds), "rows": n_rows}
