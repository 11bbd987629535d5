"""`python -m spark_jobs.reports.job REPORT...`: reports over the event store, as Parquet and on the screen."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from app.clock import SystemClock
from app.config import load_settings
from app.console import table_console
from app.durations import parse_time_ms
from app.reports.folder import reports_folder
from app.reports.printing import print_report
from app.reports.tables import FORMAT_VERSION, REPORTS
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import check_is_there
from spark_jobs.interruption import run_job
from spark_jobs.progress import progress_bar
from spark_jobs.reports.making import RECIPES, Made, ReportOptions
from spark_jobs.reports.publish import publish
from spark_jobs.reports.stragglers import StragglerOptions
from spark_jobs.session import SparkJobError, spark_session


def main(args: Sequence[str]) -> int:
    """Make the reports that `args` name; returns the exit code. Raises AppError for a mistake."""
    given = _parser().parse_args(args)
    try:
        _run(given)
    except PySparkException as error:
        raise SparkJobError(f"report: {str(error).strip().splitlines()[0]}; nothing has been written") from error
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString()).splitlines()[0]
        raise SparkJobError(f"report: {reason}; nothing has been written") from error
    return 0


def _run(given: argparse.Namespace) -> None:
    settings = load_settings(given.config)
    now_ms = SystemClock().now_ms()
    given.from_ms = None if given.from_ is None else parse_time_ms("--from", given.from_, now_ms)
    given.to_ms = None if given.to is None else parse_time_ms("--to", given.to, now_ms)
    options = _options(given)
    store_url = given.store or settings.event_store_url
    check_is_there(store_url)
    target = given.out or str(reports_folder(settings))
    with spark_session("clustercep report", given.master or settings.spark.master, settings.spark.conf) as spark:
        store = EventStore.open(spark, store_url)
        for name in given.reports or list(REPORTS):
            with progress_bar(spark, f"Report {name}"):
                made = _make(store, name, given, options)
            tables = {table: made.tables[table] for table in REPORTS[name]}
            summary = _summary(name, store.url, given, made)
            place = publish(spark, target, name, tables, summary)
            if given.format == "json":
                print(json.dumps(summary))
            else:
                print_report(table_console(), name, tables, given.top)
                print(f"Whole report: {place}")


def _make(store: EventStore, name: str, given: argparse.Namespace, options: ReportOptions) -> Made:
    recipe = RECIPES[name]
    span = {"from_ms": given.from_ms, "to_ms": given.to_ms}
    if not store.files(recipe.types, **span):
        when = "" if given.from_ms is None and given.to_ms is None else " in this span"
        raise SparkJobError(
            f"{store.url}: no event of the types {', '.join(recipe.types)}{when}, which the report {name} needs; "
            "read job histories into the store first: clustercep ingest FOLDER"
        )
    return recipe.make(store.read(recipe.types, recipe.columns, **span), options)


def _summary(name: str, store_url: str, given: argparse.Namespace, made: Made) -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "report": name,
        "made_ms": time.time_ns() // 1_000_000,
        "store": store_url,
        "from_ms": given.from_ms,
        "to_ms": given.to_ms,
        "options": dict(made.options),
        "figures": dict(made.figures),
        "n_rows": {table: made.tables[table].num_rows for table in REPORTS[name]},
    }


def _options(given: argparse.Namespace) -> ReportOptions:
    compared = StragglerOptions(
        min_period_ms=given.min_period_ms,
        min_input_bytes=given.min_input_bytes,
        min_attempts=given.min_attempts,
        straggler_ratio=given.ratio,
        order=given.order,
    )
    return ReportOptions(compared, given.window_ms)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clustercep report", description=__doc__)
    usual = StragglerOptions()
    parser.add_argument("reports", nargs="*", choices=[*REPORTS, []], metavar="REPORT")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--store")
    parser.add_argument("--out")
    parser.add_argument("--master")
    parser.add_argument("--from", dest="from_")
    parser.add_argument("--to")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--min-period-ms", type=int, default=usual.min_period_ms)
    parser.add_argument("--min-input-bytes", type=int, default=usual.min_input_bytes)
    parser.add_argument("--min-attempts", type=int, default=usual.min_attempts)
    parser.add_argument("--ratio", type=float, default=usual.straggler_ratio)
    parser.add_argument("--order", choices=("ratio", "lost"), default=usual.order)
    parser.add_argument("--window-ms", type=int, default=ReportOptions().window_ms)
    return parser


if __name__ == "__main__":
    run_job(main)
