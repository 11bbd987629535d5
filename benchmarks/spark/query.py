"""Queries over history: Spark against one process that reads, sorts and matches the same Parquet with the bare engine.

Workload H, in three tables. `stream`: Q1 and Q6 over a whole cluster's events, of which only those of the query's
types are read. `own`: over as many events of the query's own types. `all`: Q1 to Q6 over a whole cluster's events.

CLUSTERCEP_BENCH_QUERY_STREAM, _QUERY_OWN, _QUERY_ALL: numbers of events, separated by commas, or 0 for none;
_QUERY_RUNS: of which the median counts (3; in `all` one); _QUERY_FOLDER: where the events are kept for the next time.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

import engine
from app.settings import SparkSettings
from benchmarks.measure import show, size
from benchmarks.own_process import measured
from benchmarks.precise.queries import Q1
from benchmarks.spark.process_tree import peak_of_tree
from benchmarks.spark.stored_events import files_of, write_cluster, write_jobs
from benchmarks.workloads.hadoop_stream import SCHEMA
from engine.events import EventBatch
from spark_jobs.evaluate import event_batch
from spark_jobs.event_store.on_this_machine import events_of
from spark_jobs.event_store.schema import EVENTS
from spark_jobs.match_columns import columnar_batches
from spark_jobs.match_rows import Source, rows_batch
from spark_jobs.query.few_events import find
from spark_jobs.query.rows import FOR_IMPRECISE, NEEDED, SPARK_CONF, RequestedQuery, as_they_come, columns_of, plan_rows
from spark_jobs.session import spark_session

Paths = Sequence[Path]

HERE = Path(__file__).parent
LIMIT_S = 3_600.0
PRODUCT = HERE.parents[1] / "queries"
CONF = {**SPARK_CONF, "spark.driver.memory": "4g"}
"""What a user would set under spark.conf."""


@dataclass(frozen=True)
class Workload:
    """A query over H. `sql`: says the same by hand, "nominal" where it takes an interval for its last point, "" where
    nothing does. `own_share`: of the events that table `own` is asked for, where one costs far more than Q1's."""

    text: str
    sql: str = ""
    parameters: dict[str, int] = field(default_factory=dict)
    own_share: float = 1.0

    def requested(self, name: str) -> RequestedQuery:
        """As the job has it."""
        return RequestedQuery(name, {name: self.text}, SCHEMA, {name: self.parameters} if self.parameters else {})


def _product(name: str) -> str:
    return (PRODUCT / f"{name}.cep").read_text(encoding="utf-8")


WORKLOADS = {
    # H tells no status, so the product's forms of Q1 and Q2, which want successful tasks, would find nothing.
    "Q1": Workload(Q1, "same"),
    "Q2": Workload(Q1.replace("Mapper+", "Reducer+"), "same"),
    "Q3": Workload(_product("data-pull-straggler"), "same"),
    # H tells what reducers fetch only, so that sums fall. All prefixes are summed; to list the events of each of them
    # grows with the square of a job's pulls.
    "Q4": Workload(_product("queued-data-high"), "same", {"max_queued_bytes": -20_000_000}),
    "Q5": Workload(_product("imbalance-window-task"), "nominal"),
    "Q6": Workload(_product("load-imbalance-task"), own_share=1 / 30),
}
"""Of Q6 SQL says nothing: any number of chosen events, each above the one before, with the probability of their order.
Q5's events between two others can be counted, how probable their order is can not."""


def main() -> dict[str, Any]:
    """Measure, print the tables, return the figures."""
    n_runs, rows = size("QUERY_RUNS", 3), []
    with _folder() as folder:
        for n_events in _sizes("QUERY_STREAM", 3_000_000):
            stored = _kept(folder / f"stream-{n_events}", partial(write_cluster, n_events))
            for name in ("Q1", "Q6"):
                rows += _rows(f"stream {n_events:,}", name, stored, n_runs)
        for n_events in _sizes("QUERY_OWN", 1_000_000):
            for name in ("Q1", "Q6"):
                n_own = round(n_events * WORKLOADS[name].own_share)
                types = sorted(WORKLOADS[name].requested(name).compiled().distribution.types)
                stored = _kept(folder / f"own-{name}-{n_own}", partial(write_jobs, n_own, types))
                rows += _rows(f"own {n_own:,}", name, stored, n_runs)
        for n_events in _sizes("QUERY_ALL", 3_000_000):
            stored = _kept(folder / f"stream-{n_events}", partial(write_cluster, n_events))
            for name in WORKLOADS:
                rows += _rows(f"all {n_events:,}", name, stored, 1)
    return {"rows": rows, "load": os.getloadavg()}


@contextmanager
def _folder() -> Iterator[Path]:
    kept = os.environ.get("CLUSTERCEP_BENCH_QUERY_FOLDER")
    if kept:
        yield Path(kept)
        return
    with tempfile.TemporaryDirectory(prefix="clustercep-query-") as folder:
        yield Path(folder)


def _sizes(name: str, default: int) -> list[int]:
    given = os.environ.get(f"CLUSTERCEP_BENCH_{name}", str(default))
    return [int(text) for text in given.split(",") if int(text)]


def _kept(place: Path, write: Callable[[Path], int]) -> Path:
    """The folder of events, written unless it is there already."""
    if not place.exists():
        unfinished = place.with_name(f"{place.name}-unfinished")
        started = time.perf_counter()
        n_events = write(unfinished)
        print(f"{place.name}: {n_events:,} events written in {time.perf_counter() - started:.1f} s", flush=True)
        unfinished.rename(place)
    return place


def _rows(workload: str, name: str, folder: Path, n_runs: int) -> list[dict[str, Any]]:
    """All ways of one query, and the table of them."""
    ways: list[tuple[str, dict[str, Any]]] = [
        ("by_engine", {"with_rows": False}),
        ("by_engine", {"with_rows": True}),
        ("by_job", {"n_cores": 1}),
        ("by_job", {"n_cores": 2}),
    ]
    if WORKLOADS[name].sql:
        ways.append(("by_sql", {"n_cores": 2}))
    n_events = sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))
    rows = []
    for way, more in ways:
        arguments = {"folder": str(folder), "name": name, "n_runs": n_runs, **more}
        found = measured(f"benchmarks.spark.query:{way}", arguments, LIMIT_S)
        row = {"workload": f"{name}, {workload}", "events": n_events, **(found or {"variant": f"{way} {more}: failed"})}
        rows.append({**row, "events_per_second": n_events / row["seconds"]} if found else row)
    counts_s, makes_s = (row["seconds"] for row in rows[:2])
    columns = ("variant", "events_read", "matches", "seconds", "read_mb", "peak_mb", "lines")
    shown = [
        [row[column] for column in columns] + [row["seconds"] / counts_s, row["seconds"] / makes_s] for row in rows
    ]
    show(f"{name}, {workload}: {n_events:,} events", [*columns, "/ counted", "/ rows made"], shown)
    return rows


def _ratio(row: dict[str, Any], bare: dict[str, Any]) -> float | str:
    return row["seconds"] / bare["seconds"] if "seconds" in row and "seconds" in bare else ""


# ------------------------------------------------------------ in processes of their own


def by_engine(folder: str, name: str, n_runs: int, with_rows: bool) -> dict[str, Any]:
    """One process: read, sort, match. The engine partitions by itself; all that is read is in memory.

    `with_rows`: the rows are made as the job hands them over, with the ids of all events; else they are counted only.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    requested = WORKLOADS[name].requested(name)
    query = requested.compiled()
    paths = files_of(Path(folder), sorted(query.distribution.types))
    columns = _columns(name, query)

    def work(paths: Paths) -> int:
        n_rows = 0

        def take(block: engine.RowBlock) -> None:
            nonlocal n_rows
            n_rows += sum(batch.num_rows for batch in _handed_over(block, query)) if with_rows else len(block)

        events = event_batch(_read(paths, columns), SCHEMA.attributes).sorted()
        running = engine.Engine([query], SCHEMA, limits=_limits(query), sink=engine.RowSink(take))
        for start in range(0, len(events), 65_536):
            batch = EventBatch(events.table.slice(start, 65_536))
            running.process(batch, int(batch.t_lo_ms[-1]))
        running.finish()
        return n_rows

    does = "makes rows" if with_rows else "counts rows"
    return {"variant": f"bare engine, {does}", "lines": 1} | _read_of(paths, columns) | _timed(work, paths, n_runs)


def _handed_over(block: engine.RowBlock, query: engine.CompiledQuery) -> Iterator[pa.RecordBatch]:
    """As `spark_jobs.evaluate` does it."""
    source = Source(query.name, query.hash)
    if block.is_columnar:
        yield from columnar_batches(block.to_arrow(), source)
        return
    rows = iter(block)
    while some := list(itertools.islice(rows, 16_384)):
        yield rows_batch(some, source)


def by_job(folder: str, name: str, n_runs: int, n_cores: int) -> dict[str, Any]:
    """The job, its rows as they come to the driver: without Spark where that is enough (`few_events`)."""
    requested = WORKLOADS[name].requested(name)
    query = requested.compiled()
    paths = files_of(Path(folder), sorted(query.distribution.types))
    read = _read_of(paths, _columns(name, query))
    ways = set[str]()
    with _session(n_cores) as spark:

        def work(paths: Paths) -> int:
            if read["events_read"] <= SparkSettings().small_query_events:
                events = events_of(paths, columns_of(query))
                assert events is not None
                if (found := find(events, requested)) is not None:
                    ways.add("no Spark")
                    return len(found.rows)
            ways.add("Spark")
            planned = plan_rows(_frame(spark, paths).select(*columns_of(query)), requested)
            return sum(batch.num_rows for batch in as_they_come(planned.rows))

        found = _timed(work, paths, n_runs, ways.clear)
    return {"variant": f"job, {n_cores} cores, {' or '.join(sorted(ways))}", "lines": 1} | read | found


def by_sql(folder: str, name: str, n_runs: int, n_cores: int) -> dict[str, Any]:
    """The same written by hand in Spark SQL."""
    query = WORKLOADS[name].requested(name).compiled()
    paths = files_of(Path(folder), sorted(query.distribution.types))
    text = (HERE / "sql" / f"{name}.sql").read_text(encoding="utf-8").strip()
    with _session(n_cores) as spark:

        def work(paths: Paths) -> int:
            _frame(spark, paths).createOrReplaceTempView("events")
            return len(spark.sql(text).toArrow())

        found = _timed(work, paths, n_runs)
    variant = f"Spark SQL{', nominal times' if WORKLOADS[name].sql == 'nominal' else ''}, {n_cores} cores"
    named = [column for column in EVENTS.names if column in text]
    return {"variant": variant, "lines": text.count("\n") + 1} | _read_of(paths, named) | found


@contextmanager
def _session(n_cores: int) -> Iterator[SparkSession]:
    """JVM and Python workers share the cores: a task's two processes would take two where there is one."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_cores])
    with spark_session("benchmark", f"local[{n_cores}]", CONF) as spark:
        yield spark


def _frame(spark: SparkSession, paths: Paths) -> DataFrame:
    """As the store reads its files."""
    schema = StructType([StructField(each.name, each.dataType) for each in EVENTS])
    return spark.read.schema(schema).parquet(*map(str, paths))


def _read(paths: Paths, columns: tuple[str, ...]) -> pa.Table:
    tables = []
    for path in paths:
        present = set(pq.read_schema(path).names)
        tables.append(pq.read_table(path, columns=[name for name in columns if name in present], use_threads=False))
    return pa.concat_tables(tables, promote_options="default")


def _columns(name: str, query: engine.CompiledQuery) -> tuple[str, ...]:
    """Those that the job reads; what matters for intervals only where H has some."""
    has_intervals = WORKLOADS[name].sql != "same"
    return (*NEEDED, *(FOR_IMPRECISE if has_intervals else ()), *sorted(query.read_attributes))


def _limits(query: engine.CompiledQuery) -> engine.Limits:
    """As `spark_jobs.evaluate` has them."""
    several = query.resolved.query.output in (engine.ast.Output.COLLAPSED, engine.ast.Output.COUNT)
    return engine.Limits(possibilities=several)


def _read_of(paths: Paths, columns: Collection[str]) -> dict[str, Any]:
    """Events of the files, and MB that these columns take there, compressed."""
    n_rows = n_bytes = 0
    for path in paths:
        metadata = pq.read_metadata(path)
        n_rows += metadata.num_rows
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            parts = [group.column(number) for number in range(group.num_columns)]
            n_bytes += sum(part.total_compressed_size for part in parts if part.path_in_schema in columns)
    return {"events_read": n_rows, "read_mb": n_bytes / 1e6}


def _timed(
    work: Callable[[Paths], int], paths: Paths, n_runs: int, warmed: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Median seconds after a run that is not counted, over the first file of each type: compiled code is loaded then,
    workers are started. `warmed` is called after it."""
    work([path for number, path in enumerate(paths) if path.parent not in {other.parent for other in paths[:number]}])
    warmed()
    seconds, found = [], set[int]()
    with peak_of_tree() as peak:
        for _ in range(n_runs):
            started = time.perf_counter()
            found.add(work(paths))
            seconds.append(time.perf_counter() - started)
    (n_rows,) = found
    return {
        "seconds": statistics.median(seconds),
        "matches": n_rows,
        "runs": n_runs,
        "peak_mb": peak.mib,
    }
