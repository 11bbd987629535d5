"""`clustercep query`: any query of the language over the event store.

ask -> few events on this machine: evaluate them -> print rows
    -> else: look at the keys -> divide into parts -> evaluate on executors -> print rows as they come
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import engine
from app.commands.match.match import EXIT_MATCHES, EXIT_NO_MATCH, MAX_UNCOMPILED_EVENTS
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import are_few, check_is_there, read_few
from spark_jobs.interruption import run_job
from spark_jobs.match_rows import PLACE
from spark_jobs.progress import progress_bar
from spark_jobs.query.few_events import MOST_S, Found, find
from spark_jobs.query.options import QueryFormat, Request, request_of
from spark_jobs.query.output import CsvWriter, Writer, whole_file, write_json_lines, write_table
from spark_jobs.query.report import account, warnings_of
from spark_jobs.query.rows import ROW_ORDER, SPARK_CONF, Planned, columns_of, plan_rows
from spark_jobs.session import SparkJobError, spark_session
from spark_jobs.whole_folder import whole_folder


def main(args: Sequence[str]) -> int:
    """Exit code of a query: 0 with rows, 1 without; raises AppError or QueryError for a mistake."""
    request = request_of(args)
    check_is_there(request.store or request.settings.event_store_url)
    query = request.requested.compiled()  # what is wrong with it is told before Spark starts
    for warning in query.resolved.warnings:
        _say(f"warning: {warning}")
    found = None if _needs_spark(request) else found_here(request, query)
    if found is not None:
        return _given(found, request)
    settings = request.settings.spark
    conf = {**SPARK_CONF, **settings.conf}
    master = request.master or settings.master
    with spark_session("clustercep query", master, conf) as spark, as_job_errors(query.name):
        return _run(spark, request, query)


@contextmanager
def as_job_errors(name: str) -> Iterator[None]:
    """What goes wrong in Spark while the query of this name runs, as a SparkJobError without the stack."""
    try:
        yield
    except Py4JJavaError as error:
        raise SparkJobError(f"{name}: {reason_of(error)}") from error
    except PySparkException as error:
        raise SparkJobError(f"{name}: {_last_line(str(error))}") from error


def _run(spark: SparkSession, request: Request, query: engine.CompiledQuery) -> int:
    store = EventStore.open(spark, request.store or request.settings.event_store_url)
    span = {"from_ms": request.from_ms, "to_ms": request.to_ms}
    types = sorted(query.distribution.types)
    events = store.read(types=types, columns=columns_of(query), **span)
    with progress_bar(spark, "Counting events"):
        planned = plan_rows(events, request.requested, one_piece=request.one_piece)
    if request.explain:
        files = store.files(types=types, **span)
        print(query.explain())
        print(account(planned, len(files), sum(file.n_bytes for file in files), columns_of(query)))
        if are_few(store.url, files, request.settings.spark.small_query_events):
            print(f"so few that for {MOST_S:g} s they are tried without Spark; with it:\n")
        planned.rows.explain("formatted")
        return EXIT_MATCHES
    _prepare_kernels(planned.counted.n_events)
    with progress_bar(spark, f"{query.name}: {planned.counted.n_events:,} events, {planned.division.n_parts} parts"):
        return _given(planned, request)


def _needs_spark(request: Request) -> bool:
    """Whether it is Spark's own output that is wanted, or Spark on a master that the command line names."""
    return request.explain or request.master is not None or request.format is QueryFormat.PARQUET


def found_here(request: Request, query: engine.CompiledQuery) -> Found | None:
    """The rows without Spark, where the events are few and on this machine."""
    settings = request.settings
    events = read_few(
        request.store or settings.event_store_url, query.distribution.types, columns_of(query), request.from_ms,
        request.to_ms, settings.spark.small_query_events,
    )  # fmt: skip
    if events is None:
        return None
    _prepare_kernels(len(events))
    return find(events, request.requested, one_piece=request.one_piece)


def _given(found: Planned | Found, request: Request) -> int:
    """Give the rows and what should be known of them; returns the exit code."""
    n_rows = write(found, request)
    for warning in warnings_of(found):
        _say(warning)
    return EXIT_MATCHES if n_rows else EXIT_NO_MATCH


def write(planned: Planned | Found, request: Request) -> int:
    """Find the rows and print or write them; returns how many."""
    if isinstance(planned, Planned) and request.format is QueryFormat.PARQUET:
        assert request.out is not None
        return _write_parquet(planned, request.out, in_order=request.in_order)
    writers: dict[QueryFormat, Writer] = {
        QueryFormat.JSONL: write_json_lines,
        QueryFormat.TABLE: write_table,
        QueryFormat.CSV: CsvWriter(planned.query),
    }
    writer = writers[request.format]
    batches = rows_of(planned, in_order=request.in_order or request.format is QueryFormat.TABLE)
    if request.out is None:
        return writer(batches, sys.stdout)
    with whole_file(Path(request.out)) as file:
        return writer(batches, file)


def rows_of(planned: Planned | Found, *, in_order: bool) -> Iterator[pa.RecordBatch]:
    """The rows, in order of time or as they are found; LIMIT and TOP are applied over all of them."""
    merged = planned.best.collector()
    if merged is None:
        yield from planned.batches(in_order=in_order)
        if planned.totals.n_limited:  # by the only engine, which has counted by itself
            _say("LIMIT was reached: there are more rows")
        return
    for batch in planned.batches(in_order=False):
        merged.add(batch)
    table = merged.final()
    if merged.n_limited:
        _say(f"the limit was reached: {table.num_rows} row(s) are shown, there are more")
    yield from table.to_batches()


def _write_parquet(planned: Planned, out: str, *, in_order: bool) -> int:
    """A folder of Parquet files that is there when all rows are."""
    rows: DataFrame = planned.rows.drop(PLACE)
    if planned.best.collector() is not None:
        batches = list(rows_of(planned, in_order=True))
        rows = rows.sparkSession.createDataFrame(pa.Table.from_batches(batches), rows.schema)
    elif in_order:
        rows = rows.orderBy(*ROW_ORDER)
    spark = rows.sparkSession
    with whole_folder(spark, out, uuid.uuid4().hex) as unfinished:
        rows.write.parquet(unfinished)
        return spark.read.parquet(unfinished).count()


def _prepare_kernels(n_events: int) -> None:
    """Compile here, once, what workers of this machine would each compile."""
    if n_events > MAX_UNCOMPILED_EVENTS and not engine.kernels_are_compiled():
        _say("compiling the matching kernels: some minutes, once per machine and version")
        engine.warm_kernels()


def reason_of(error: Py4JJavaError) -> str:
    """What went wrong on an executor or in Spark, without the stack."""
    text = str(error.java_exception.toString() if error.java_exception is not None else error)
    return _last_line(text)


def _last_line(text: str) -> str:
    """The message of a Python error that a stack ends with, else the first line."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    of_python = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and ": " in line]
    return (of_python[-1] if of_python else lines[0] if lines else "no reason given").strip()


def _say(message: str) -> None:
    print(f"clustercep: {message}", file=sys.stderr)


if __name__ == "__main__":
    run_job(main)
