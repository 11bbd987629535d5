"""`clustercep ingest`: files of Hadoop and Ganglia, wherever they are, into the event store.

list -> parse on executors -> one history per job, load derived -> append in one commit -> report
Few small files go the same way in this process, without Spark (`on_this_machine`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from app.config import load_settings
from app.console import table_console
from app.durations import parse_size_bytes
from app.event_store.commits import Appended
from app.event_store.folder import rooted
from app.live.sources import clock_skew_of, load_options, source_ranks
from app.settings import Settings
from collectors.base import OptionError
from collectors.file_kinds import RUMEN
from collectors.ganglia.rrd import DEFAULT_METRICS
from collectors.logs.container_log import ContainerLogOptions
from collectors.logs.daemon_log import NAME_PATTERN
from collectors.logs.hdfs_audit import AUDIT_NAME_PATTERN
from collectors.logs.path_layout import PathLayout
from collectors.logs.times import zone_named
from collectors.sources import SOURCE_OF_KIND
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.local_append import LocalEventStore
from spark_jobs.ingest.files import Listing, check_local, list_files, parts_below, reason_of, shown
from spark_jobs.ingest.frames import (
    JOB_COLUMNS,
    JOB_TYPES,
    by_possible_times,
    counted_events,
    load_of,
    parsed_files,
    problems_of,
)
from spark_jobs.ingest.kinds import IngestOptions, skipped_by_name
from spark_jobs.ingest.on_this_machine import (
    Limits,
    counted_here,
    files_told,
    listed_here,
    parsed_here,
    problems_told,
    stored_jobs,
)
from spark_jobs.ingest.report import (
    Count,
    IngestReport,
    counted,
    counted_files,
    counted_problems,
    merged,
    told_files,
    told_problems,
)
from spark_jobs.ingest.rows import FILE
from spark_jobs.interruption import run_job
from spark_jobs.local_paths import may_be_elsewhere
from spark_jobs.progress import progress_bar
from spark_jobs.session import SparkJobError, spark_session

MAX_SMALL_FILES = 2_000
"""An ingest of more is none of few files."""

SPARK_CONF = {
    # Small files are read many at a time, and never so many that their contents fill the memory.
    "spark.sql.files.openCostInBytes": str(1 << 18),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 25),
}


def main(args: Sequence[str]) -> int:
    """Exit code of an ingest; raises AppError for a mistake."""
    asked = _parser().parse_args(args)
    settings = load_settings(asked.config)
    options = options_of(settings)
    options = replace(
        options, max_bytes=parse_size_bytes(asked.max_file_size) if asked.max_file_size else options.max_bytes
    )
    if asked.time_zone is not None:
        zone = asked.time_zone
        options = replace(options, container_zone=zone, daemon_zone=zone, audit_zone=zone, client_zone=zone)
    if asked.layout is not None:
        options = replace(options, layout=asked.layout)
    check_options(options)
    precedence = (
        *settings.sources.precedence,
        SOURCE_OF_KIND[RUMEN],
    )  # another program's reading of histories stands last
    store_url = asked.store or settings.event_store_url
    report = None
    master = asked.master or settings.spark.master
    elsewhere = may_be_elsewhere(master, settings.spark.conf)
    check_local(asked.paths, only_named=elsewhere)
    if asked.master is None:
        limits = Limits(MAX_SMALL_FILES, settings.spark.small_ingest_bytes)
        report = ingest_here(store_url, precedence, asked.paths, options, limits, only_named=elsewhere)
    if report is None:
        report = _on_spark(asked, settings, store_url, precedence, options)
    if asked.format == "json":
        print(report.to_json())
    else:
        report.print_to(table_console())
    return report.exit_code


def ingest_here(
    store_url: str,
    precedence: Sequence[str],
    paths: Sequence[str],
    options: IngestOptions,
    limits: Limits,
    *,
    only_named: bool = False,
) -> IngestReport | None:
    """As `ingest`, without Spark: few small files of this machine, into a store on it; None: that is not given.

    only_named: paths without a scheme may lie on another file system.
    """
    if not rooted(store_url).startswith("file:///"):
        return None
    listing = listed_here(paths, limits, only_named=only_named)
    if listing is None:
        return None
    wanted, skipped = chosen_files(listing, options)
    parsed = parsed_here(listing, wanted, options, stored_jobs(store_url))
    if parsed is None:
        return None
    read, unread, problems = counted_here(parsed)
    types = parsed.events.column("type").value_counts().to_pylist()
    report = IngestReport(
        read,
        merged(skipped, unread),
        {row["values"]: row["counts"] for row in types},
        problems,
        files_told(parsed),
        problems_told(parsed),
    )
    appended = LocalEventStore(store_url, precedence).append(parsed.events, report.info())
    return None if appended is None else _with_appended(report, appended)


def _on_spark(
    asked: argparse.Namespace,
    settings: Settings,
    store_url: str,
    precedence: Sequence[str],
    options: IngestOptions,
) -> IngestReport:
    with spark_session(
        "clustercep ingest", asked.master or settings.spark.master, {**SPARK_CONF, **settings.spark.conf}
    ) as spark:
        return ingest(spark, EventStore.open_or_create(spark, store_url, precedence=precedence), asked.paths, options)


def ingest(spark: SparkSession, store: EventStore, paths: Sequence[str], options: IngestOptions) -> IngestReport:
    """Read all files of the paths into the store, in one commit; raises SparkJobError."""
    listing = list_files(spark, paths)
    wanted, skipped = chosen_files(listing, options)
    with progress_bar(spark, f"Reading {len(wanted):,} files"):
        try:
            parsed = parsed_files(spark, listing, wanted, options).persist()
            report = _stored(store, listing, wanted, skipped, parsed, options)
            parsed.unpersist()  # after a failure the session ends
            return report
        except Py4JJavaError as error:
            raise SparkJobError(f"ingest: {reason_of(error)}; nothing has been written") from error
        except PySparkException as error:
            raise SparkJobError(f"ingest: {error.getMessage().splitlines()[0]}; nothing has been written") from error


def chosen_files(listing: Listing, options: IngestOptions) -> tuple[list[str], tuple[Count, ...]]:
    """(URLs of the files to read, those that are skipped unopened by reason)."""
    wanted, skipped = list[str](), [("unreadable", shown(url)) for url, _ in listing.unreadable]
    for file in listing.files:
        reason = skipped_by_name(parts_below(file.url, listing.roots), options)
        if reason is None and not file.n_bytes:
            reason = "empty"
        if reason is None and file.n_bytes > options.max_bytes:
            reason = f"larger than {options.max_bytes:,} bytes (--max-file-size)"
        if reason is None:
            wanted.append(file.url)
        else:
            skipped.append((reason, shown(file.url)))
    return wanted, counted(skipped)


def options_of(settings: Settings) -> IngestOptions:
    """What the live collectors would be configured with."""
    sources = settings.sources
    return IngestOptions(
        ranks=source_ranks(settings),
        hosts=dict(sources.hosts),
        layout=sources.container_log.layout,
        roles=sources.container_log.roles,
        container_host=sources.container_log.host,
        container_zone=sources.container_log.time_zone,
        daemon_zone=sources.daemon_log.time_zone,
        daemon_pattern=sources.daemon_log.name_pattern or NAME_PATTERN,
        client_trace=sources.daemon_log.client_trace,
        audit_zone=sources.hdfs_audit.time_zone,
        audit_pattern=sources.hdfs_audit.name_pattern or AUDIT_NAME_PATTERN,
        audit_host=sources.hdfs_audit.host,
        client_zone=sources.job_client_log.time_zone,
        client_pattern=sources.job_client_log.name_pattern,
        client_host=sources.job_client_log.host,
        metrics=tuple(dict.fromkeys((*(sources.ganglia_rrd.metrics or DEFAULT_METRICS), settings.load.metric))),
        load=load_options(settings),
        clock_skew=clock_skew_of(settings),
    )


def check_options(options: IngestOptions) -> None:
    """Raise SparkJobError for what no file could be read with."""
    try:
        zone_named(options.container_zone)
        zone_named(options.daemon_zone)
        zone_named(options.audit_zone)
        zone_named(options.client_zone)
        PathLayout.of(options.layout, frozenset({"container"}))
        ContainerLogOptions(Path(), roles=options.roles)
    except OptionError as error:
        raise SparkJobError(f"ingest: {error}") from error


def _stored(
    store: EventStore,
    listing: Listing,
    wanted: Sequence[str],
    skipped: tuple[Count, ...],
    parsed: DataFrame,
    options: IngestOptions,
) -> IngestReport:
    read, unread = counted_files(parsed)
    n_told = sum(count.n for count in (*read, *unread))
    gone = () if n_told == len(wanted) else counted(("gone", place) for place in _missing(parsed, wanted))
    folders = tuple(
        Count("ingest: unreadable folder", 1, (shown(url),), texts=(why,)) for url, why in listing.unreadable
    )
    load = load_of(parsed, options).persist()
    problems = problems_of(parsed, store.read(JOB_TYPES, JOB_COLUMNS) if store.files(JOB_TYPES) else None)
    of_files = counted_problems(problems)
    own = counted_events(parsed)
    by_type = own.select("type").unionAll(load.select("type")).groupBy("type").count()
    report = IngestReport(
        read,
        merged(skipped, unread, gone),
        {row["type"]: row["count"] for row in by_type.collect()},
        merged(of_files, folders),
        told_files(parsed),
        told_problems(problems) if of_files else (),
    )
    appended = store.append(by_possible_times(own.unionAll(load), options), info=report.info())
    load.unpersist()
    return _with_appended(report, appended)


def _with_appended(report: IngestReport, appended: Appended) -> IngestReport:
    return replace(
        report,
        n_new=appended.n_new,
        n_duplicate=appended.n_duplicate,
        n_replaced=appended.n_replaced,
        n_overlapped=appended.n_overlapped,
        n_superseded=appended.n_superseded,
        n_stored_files=appended.n_files,
    )


def _missing(parsed: DataFrame, wanted: Sequence[str]) -> list[str]:
    """Files that were listed and of which nothing came back: gone since, or their bytes could not be had."""
    told = {row["place"] for row in parsed.where(f"part = '{FILE}'").select("place").toLocalIterator()}
    return [place for place in map(shown, wanted) if place not in told]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clustercep ingest", allow_abbrev=False)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--store")
    parser.add_argument("--time-zone")
    parser.add_argument("--layout")
    parser.add_argument("--max-file-size")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    run_job(main)
