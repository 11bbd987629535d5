"""`clustercep report job` and `report jobs`: one job of the event store, judged; all of a span, ranked.

find the job -> read its events (by this process where the store is on this machine, else by Spark) -> judge -> print
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from app.clock import SystemClock
from app.config import load_settings
from app.console import table_console
from app.durations import parse_time_ms
from app.event_store.commits import CommitReader, chosen_files
from app.event_store.errors import StoreError
from app.event_store.folder import LocalFolder, rooted
from app.heuristics.from_events import COLUMNS, JOB_TYPES, TYPES, job_figures
from app.heuristics.judging import NO_SPARK, judged
from app.heuristics.printing import print_judgement
from app.heuristics.waste import waste_of
from app.settings import Settings
from collectors.hadoop_ids import cluster_start_ms, is_job
from collectors.time_units import DAY_MS
from spark_jobs.event_store import EventStore, reading
from spark_jobs.event_store.errors import job_errors
from spark_jobs.heuristics.jobs import print_jobs, rows_here, rows_on_spark, to_json
from spark_jobs.interruption import run_job
from spark_jobs.session import SparkJobError, spark_session

SLACK_MS = DAY_MS
"""How far outside of a job's span its attempts are looked for: clocks differ, and attempts may end after their job."""

ALL = "jobs"
"""In place of an id: all jobs of a span."""

_LOCAL = "file://"


def main(args: Sequence[str]) -> int:
    """Exit code: 0 for a job that was judged, 1 where nothing of it could be; raises AppError for a mistake."""
    asked = _parser().parse_args(args)
    if asked.job == ALL:
        return _all_jobs(asked)
    if not is_job(asked.job):
        raise SparkJobError(f"report job: found {asked.job!r}; expected an id such as job_1700000000000_0001")
    settings = load_settings(asked.config)
    store_url = asked.store or settings.event_store_url
    events = None
    if asked.master is None and rooted(store_url).startswith(f"{_LOCAL}/"):
        events = events_here(rooted(store_url), asked.job)
    else:
        events = _events_on_spark(asked, settings, store_url)
    if not events.num_rows:
        raise SparkJobError(
            f"{store_url}: no event of {asked.job}; ingest its history with `clustercep ingest`, or look for the id "
            "with `clustercep report life-times`"
        )
    judgement = judged(job_figures(asked.job, events))
    waste = waste_of(judgement.job)
    if asked.format == "json":
        told = judgement.to_json() | {"waste": {name: getattr(waste, name) for name in waste.__slots__}}
        print(json.dumps(told | {"spark": NO_SPARK}, indent=1))
    else:
        print_judgement(table_console(), judgement, waste, compatible=asked.compatible)
    findings = judgement.dr_elephant if asked.compatible else judgement.corrected
    return 0 if any(finding.severity is not None for finding in findings) else 1


def _all_jobs(asked: argparse.Namespace) -> int:
    """0 where a job ended in the span, else 1."""
    settings, now_ms = load_settings(asked.config), SystemClock().now_ms()
    store_url = asked.store or settings.event_store_url
    from_ms = None if asked.from_ is None else parse_time_ms("--from", asked.from_, now_ms)
    to_ms = None if asked.to is None else parse_time_ms("--to", asked.to, now_ms)
    is_here = asked.master is None and rooted(store_url).startswith(f"{_LOCAL}/")
    rows = rows_here(store_url, from_ms, to_ms) if is_here else None
    if rows is None:
        with spark_session("clustercep report", asked.master or settings.spark.master, settings.spark.conf) as spark:
            rows = rows_on_spark(EventStore.open(spark, store_url), from_ms, to_ms)
    if asked.format == "json":
        print(json.dumps(to_json(rows, asked.top), indent=1))
    else:
        print_jobs(table_console(), rows, asked.top)
    return 0 if rows else 1


def events_here(url: str, job_id: str) -> pa.Table:
    """The rows of a job, of a store on this machine (file:///...); raises StoreError."""
    folder = LocalFolder(url)
    try:
        files = reading.opened(CommitReader(folder), url).files.values()

        def rows(types: Collection[str], from_ms: int | None, to_ms: int | None) -> pa.Table:
            found = chosen_files(files, types, from_ms, to_ms)
            return _rows_of(job_id, [folder.path(file.path) for file in found])

        ends = rows(JOB_TYPES, None, None)
        span = _span(ends)
        others = tuple(name for name in TYPES if name not in (*JOB_TYPES, "JobSettings"))
        start_ms = cluster_start_ms(job_id)
        conf = rows(("JobSettings",), start_ms, start_ms)
        return pa.concat_tables([ends, conf, rows(others, *span)], promote_options="permissive")
    except OSError as error:
        raise StoreError(f"{url}: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise StoreError(f"{url}: {str(error).splitlines()[0]}; see `clustercep store info`") from error


def _rows_of(job_id: str, paths: Sequence[Path]) -> pa.Table:
    tables = []
    for path in paths:
        present = set(pq.read_schema(path).names)
        if "job_id" not in present:
            continue
        names = [name for name in COLUMNS if name in present]
        tables.append(pq.read_table(path, columns=names, filters=pc.field("job_id") == job_id, partitioning=None))
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def _span(ends: pa.Table) -> tuple[int | None, int | None]:
    """Where a job's attempts may be; no limit on a side that is not known."""
    if not ends.num_rows:
        return None, None
    first = last = None
    for row in ends.to_pylist():
        if row["type"] == "JobStart":
            first = row["t_lo_ms"] - SLACK_MS
        else:
            last = row["t_hi_ms"] + SLACK_MS
    return first, last


def events_of(store: EventStore, job_id: str) -> pa.Table:
    """As `events_here`, by Spark."""
    mine = sf.col("job_id") == job_id
    with job_errors(f"{store.url}: cannot be read"):
        ends = store.read(JOB_TYPES, COLUMNS).where(mine).toArrow()
        others = tuple(name for name in TYPES if name not in (*JOB_TYPES, "JobSettings"))
        start_ms = cluster_start_ms(job_id)
        conf = store.read(("JobSettings",), COLUMNS, start_ms, start_ms).where(mine).toArrow()
        rest = store.read(others, COLUMNS, *_span(ends)).where(mine).toArrow()
    return pa.concat_tables([ends, conf, rest], promote_options="permissive")


def _events_on_spark(asked: argparse.Namespace, settings: Settings, store_url: str) -> pa.Table:
    with spark_session("clustercep report", asked.master or settings.spark.master, settings.spark.conf) as spark:
        return events_of(EventStore.open(spark, store_url), asked.job)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clustercep report job", allow_abbrev=False)
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--store")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--from", dest="from_")
    parser.add_argument("--to")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--dr-elephant", dest="compatible", action="store_true")
    return parser


if __name__ == "__main__":
    run_job(main)
