"""`clustercep report job` and `report jobs`: one job or application of the event store, judged; all of a span, ranked.

find the job -> read its events (by this process where the store is on this machine, else by Spark) -> judge -> print
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from app.clock import SystemClock
from app.config import load_settings
from app.console import table_console
from app.durations import parse_time_ms
from app.event_store.folder import rooted
from app.heuristics.figures import JobFigures
from app.heuristics.from_events import COLUMNS_SO_FAR, JOB_TYPES, TYPES, figures_so_far, job_figures
from app.heuristics.judgement import Judged, Judgement
from app.heuristics.judging import judged, judged_so_far
from app.heuristics.printing import print_application, print_judgement
from app.heuristics.spark import from_events as spark_events
from app.heuristics.spark.judging import judged as judged_application
from app.heuristics.spark.waste import waste_of as waste_of_application
from app.heuristics.waste import Waste, waste_of
from app.settings import Settings
from collectors.hadoop_ids import cluster_start_ms, is_application, is_job, job_of_application
from collectors.time_units import DAY_MS
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import check_is_there
from spark_jobs.heuristics import applications, own_rows
from spark_jobs.heuristics.jobs import print_jobs, rows_here, rows_on_spark, to_json
from spark_jobs.heuristics.own_rows import Rows
from spark_jobs.interruption import run_job
from spark_jobs.session import SparkJobError, spark_session

SLACK_MS = DAY_MS
"""How far outside of a job's span its attempts are looked for: clocks differ, and attempts may end after their job."""

ALL = "jobs"
"""In place of an id: all jobs of a span."""

_LOCAL = "file://"
_SPARK_ID = re.compile(r"(?:application_|app-|local-|spark-)[\w.-]{1,200}")
"""As YARN, a standalone master, local mode and Kubernetes name applications of Spark."""


def main(args: Sequence[str]) -> int:
    """Exit code: 0 for a job that was judged, 1 where nothing of it could be; raises AppError for a mistake."""
    asked = _parser().parse_args(args)
    if asked.job == ALL:
        return _all_jobs(asked)
    settings = load_settings(asked.config)
    store_url = asked.store or settings.event_store_url
    if is_job(asked.job):
        return _job(asked, settings, store_url)
    if _SPARK_ID.fullmatch(asked.job):
        return _application(asked, settings, store_url)
    raise SparkJobError(
        f"report job: found {asked.job!r}; expected an id such as job_1700000000000_0001, or of a Spark application "
        "such as application_1700000000000_0001"
    )


def judgement_of(job_id: str, events: pa.Table) -> Judgement[JobFigures]:
    """A job by all its events; one whose end is not among them as one that still runs, by the tasks that are done."""
    if pc.any(pc.equal(events.column("type"), "JobEnd")).as_py():
        return judged(job_figures(job_id, events))
    return judged_so_far(
        figures_so_far(job_id, events), "its end is not stored (it still runs, or its end was not ingested)"
    )


def _job(asked: argparse.Namespace, settings: Settings, store_url: str) -> int:
    events = _events(asked, settings, store_url, events_here, events_of)
    if not events.num_rows:
        raise SparkJobError(
            f"{store_url}: no event of {asked.job}; ingest its history with `clustercep ingest`, or look for the id "
            "with `clustercep report life-times`"
        )
    judgement = judgement_of(asked.job, events)
    return _told(asked, judgement, waste_of(judgement.figures), print_judgement)


def _application(asked: argparse.Namespace, settings: Settings, store_url: str) -> int:
    events = _events(asked, settings, store_url, application_here, application_of)
    if not events.num_rows:
        other = f"; if it runs MapReduce, ask for {job_of_application(asked.job)}" if is_application(asked.job) else ""
        raise SparkJobError(
            f"{store_url}: no event of a Spark application {asked.job}; ingest its event log with `clustercep ingest`"
            f"{other}"
        )
    judgement = judged_application(spark_events.application_figures(asked.job, events))
    return _told(asked, judgement, waste_of_application(judgement.figures), print_application)


def _told(
    asked: argparse.Namespace, judgement: Judgement[Judged], waste: Waste, print_table: Callable[..., None]
) -> int:
    """0 where any severity is known, else 1."""
    if asked.format == "json":
        told = judgement.to_json() | {"waste": {name: getattr(waste, name) for name in waste.__slots__}}
        print(json.dumps(told, indent=1))
    else:
        print_table(table_console(), judgement, waste, compatible=asked.compatible)
    findings = judgement.findings(compatible=asked.compatible)
    return 0 if any(finding.severity is not None for finding in findings) else 1


def _all_jobs(asked: argparse.Namespace) -> int:
    """0 where a job ended in the span, else 1."""
    settings, now_ms = load_settings(asked.config), SystemClock().now_ms()
    store_url = asked.store or settings.event_store_url
    from_ms = None if asked.from_ is None else parse_time_ms("--from", asked.from_, now_ms)
    to_ms = None if asked.to is None else parse_time_ms("--to", asked.to, now_ms)
    is_here = asked.master is None and rooted(store_url).startswith(f"{_LOCAL}/")
    rows = rows_here(store_url, from_ms, to_ms) if is_here else None
    of_spark = applications.rows_here(store_url, from_ms, to_ms) if is_here else None
    if rows is None or of_spark is None:
        check_is_there(store_url)
        with spark_session("clustercep report", asked.master or settings.spark.master, settings.spark.conf) as spark:
            store = EventStore.open(spark, store_url)
            rows = rows_on_spark(store, from_ms, to_ms) if rows is None else rows
            of_spark = applications.rows_on_spark(store, from_ms, to_ms) if of_spark is None else of_spark
    rows = [*rows, *of_spark]
    if asked.format == "json":
        print(json.dumps(to_json(rows, asked.top), indent=1))
    else:
        print_jobs(table_console(), rows, asked.top)
    return 0 if rows else 1


def events_here(url: str, job_id: str) -> pa.Table:
    """The rows of a job, of a store on this machine (file:///...); raises StoreError."""
    return own_rows.rows_here(url, "job_id", job_id, COLUMNS_SO_FAR, lambda rows: _of_job(job_id, rows))


def events_of(store: EventStore, job_id: str) -> pa.Table:
    """As `events_here`, by Spark."""
    return own_rows.rows_on_spark(store, "job_id", job_id, COLUMNS_SO_FAR, lambda rows: _of_job(job_id, rows))


def application_here(url: str, application_id: str) -> pa.Table:
    """The rows of a Spark application, of a store on this machine (file:///...); raises StoreError."""
    return own_rows.rows_here(url, "application_id", application_id, spark_events.COLUMNS, _of_application)


def application_of(store: EventStore, application_id: str) -> pa.Table:
    """As `application_here`, by Spark."""
    return own_rows.rows_on_spark(store, "application_id", application_id, spark_events.COLUMNS, _of_application)


def _of_job(job_id: str, rows: Rows) -> pa.Table:
    ends = rows(JOB_TYPES, None, None)
    others = tuple(name for name in TYPES if name not in (*JOB_TYPES, "JobSettings"))
    start_ms = cluster_start_ms(job_id)
    conf = rows(("JobSettings",), start_ms, start_ms)
    found = rows(others, *_span(ends, "JobStart"))
    return pa.concat_tables([ends, conf, found], promote_options="permissive")


def _of_application(rows: Rows) -> pa.Table:
    ends = rows(spark_events.APPLICATION_TYPES, None, None)
    found = rows(spark_events.OTHER_TYPES, *_span(ends, "SparkApplicationStart"))
    return pa.concat_tables([ends, found], promote_options="permissive")


def _span(ends: pa.Table, start: str) -> tuple[int | None, int | None]:
    """Where what is in between may be; no limit on a side that is not known, as where an attempt has not ended."""
    told = [(row["type"] == start, row) for row in ends.to_pylist()]
    firsts = [row["t_lo_ms"] for is_start, row in told if is_start]
    lasts = [row["t_hi_ms"] for is_start, row in told if not is_start]
    from_ms = min(firsts) - SLACK_MS if firsts and len(firsts) >= len(lasts) else None
    return from_ms, max(lasts) + SLACK_MS if lasts and len(lasts) >= len(firsts) else None


def _events(
    asked: argparse.Namespace,
    settings: Settings,
    store_url: str,
    here: Callable[[str, str], pa.Table],
    there: Callable[[EventStore, str], pa.Table],
) -> pa.Table:
    if asked.master is None and rooted(store_url).startswith(f"{_LOCAL}/"):
        return here(rooted(store_url), asked.job)
    check_is_there(store_url)
    with spark_session("clustercep report", asked.master or settings.spark.master, settings.spark.conf) as spark:
        return there(EventStore.open(spark, store_url), asked.job)


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
