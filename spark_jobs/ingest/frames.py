"""Files to events as DataFrames: read and parsed on executors, one history per job, load derived over all hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from app.live.clock_skew import ClockSkewBounds
from collectors.file_kinds import AUDIT_LOG, CONTAINER_LOG, DAEMON_LOG, RRD, SPARK_EVENTS
from collectors.metrics.load_balance import LoadDeriver
from collectors.sources import SOURCE_OF_KIND
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.event_store.schema import EVENTS, SOURCE, to_batch, to_rows
from spark_jobs.ingest.files import Listing, parts_below, shown
from spark_jobs.ingest.kinds import IngestOptions, kind_by_name
from spark_jobs.ingest.parse import ReadFile, parse_file, parse_logs
from spark_jobs.ingest.rows import EVENT, HISTORY, PARSED, PROBLEM, whole_rows
from spark_jobs.ingest.time_zones import zone_problems

LOGS = (CONTAINER_LOG, DAEMON_LOG, AUDIT_LOG, SPARK_EVENTS)
"""Kinds whose files belong together: rotated and rolled ones, and those of several roles."""

ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BATCH_ROWS, BATCH_BYTES = 16_384, 1 << 24

JOB_TYPES = ("JobStart", "JobEnd")
JOB_COLUMNS = ("type", "job_id", "t_lo_ms", "t_hi_ms")
_PROBLEM_SCHEMA = "source string, place string, kind string, message string"

_GROUP = "log_group"

_WILD = re.compile(r"[\\{}\[\]*?]")
_FOLDER = r"/[^/]*$"
_ROTATION = r"(\.\d[\d-]*)?(\.gz)?$"


def parsed_files(spark: SparkSession, listing: Listing, urls: Sequence[str], options: IngestOptions) -> DataFrame:
    """PARSED rows of the files; each is read once, where Spark finds it convenient."""
    roots = listing.roots
    logs, others = list[str](), list[str]()
    for url in urls:
        (logs if kind_by_name(parts_below(url, roots), options) in LOGS else others).append(url)
    frames = []
    if others:
        frames.append(_content(spark, others).mapInArrow(_parser(roots, options), PARSED))
    if logs:
        grouped = _content(spark, logs).withColumn(_GROUP, _log_group())
        # Sorted, not grouped: many small groups come in one batch and go in one.
        ordered = grouped.repartition(_GROUP).sortWithinPartitions(_GROUP)
        frames.append(ordered.mapInArrow(_group_parser(roots, options), PARSED))
    if not frames:
        return spark.createDataFrame([], PARSED)
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def counted_events(parsed: DataFrame) -> DataFrame:
    """EVENTS rows of the files: of several histories of a job those of one."""
    events = parsed.where(sf.col("part") == EVENT)
    of_history = events.where("history_id <> 0").join(set_aside(parsed).select("history_id"), "history_id", "left_anti")
    return of_history.select(*EVENTS.names).unionAll(events.where("history_id = 0").select(*EVENTS.names))


def by_possible_times(events: DataFrame, options: IngestOptions) -> DataFrame:
    """EVENTS rows with the intervals of all times that clocks which may be off allow."""
    skew = options.clock_skew
    return events.mapInArrow(widener(skew), EVENTS) if skew.changes_times else events


def set_aside(parsed: DataFrame) -> DataFrame:
    """The histories that do not count, for another of the same job and source does: the fuller one, as live.

    Columns history_id, place, job_id, source, is_copy (their content is the same).
    """
    fullest = Window.partitionBy("source", "job_id").orderBy(
        sf.col("kind"),  # "finished" before "unfinished"
        sf.col("n_events").desc(),
        sf.col("place"),
        sf.col("history_id"),
    )
    ranked = (
        parsed.where(sf.col("part") == HISTORY)
        .withColumn("standing", sf.row_number().over(fullest))
        .withColumn("is_copy", sf.col("message") == sf.first("message").over(fullest))
    )
    return ranked.where("standing > 1").select("history_id", "place", "job_id", "source", "is_copy")


def problems_of(parsed: DataFrame, stored_jobs: DataFrame | None = None) -> DataFrame:
    """All problems (source, place, kind, message), those of histories that do not count among them.

    `stored_jobs`: JobStart and JobEnd events of the store (JOB_COLUMNS), with which logs are compared, too.
    """
    told = parsed.where(sf.col("part") == PROBLEM).select("source", "place", "kind", "message")
    second = (
        set_aside(parsed)
        .where(~sf.col("is_copy"))
        .select(
            "source",
            "place",
            sf.lit("second_history").alias("kind"),
            sf.concat(
                sf.lit("another history of "),
                "job_id",
                sf.lit(" with different content; the fuller one counts"),
            ).alias("message"),
        )
    )
    return told.unionAll(second).unionAll(_zone_problems(parsed, stored_jobs))


def _zone_problems(parsed: DataFrame, stored_jobs: DataFrame | None) -> DataFrame:
    """Of logs that may have been read in a wrong time zone."""
    events = parsed.where((sf.col("part") == EVENT) & sf.col("job_id").isNotNull())
    told = events.where(sf.col("type").isin(*JOB_TYPES) & (sf.col(SOURCE) != SOURCE_OF_KIND[CONTAINER_LOG]))
    own = told.select(*JOB_COLUMNS)
    jobs = _spans_of_jobs(own if stored_jobs is None else own.unionByName(stored_jobs.select(*JOB_COLUMNS)))
    logs = (
        events.where(sf.col(SOURCE) == SOURCE_OF_KIND[CONTAINER_LOG])
        .groupBy("job_id", sf.regexp_replace("origin", r":\d+$", "").alias("place"))
        .agg(
            sf.count(sf.lit(1)).alias("n_events"),
            sf.min("t_lo_ms").alias("first_ms"),
            sf.max("t_hi_ms").alias("last_ms"),
        )
    )
    return logs.join(sf.broadcast(jobs), "job_id").mapInArrow(_warn_of_zones, _PROBLEM_SCHEMA)


def _spans_of_jobs(told: DataFrame) -> DataFrame:
    is_start = sf.col("type") == "JobStart"
    spans = told.groupBy("job_id").agg(
        sf.min(sf.when(is_start, sf.col("t_lo_ms"))).alias("start_ms"),
        sf.max(sf.when(~is_start, sf.col("t_hi_ms"))).alias("end_ms"),
    )
    return spans.where(sf.col("start_ms").isNotNull() & sf.col("end_ms").isNotNull())


def _warn_of_zones(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([(name, pa.string()) for name in ("source", "place", "kind", "message")])
    for batch in batches:
        found = zone_problems(batch.to_pylist())
        yield pa.RecordBatch.from_pylist([asdict(problem) for problem in found], schema)


def load_of(parsed: DataFrame, options: IngestOptions) -> DataFrame:
    """LoadStd and Balance or Imbalance of every cluster and step, from the samples of all its hosts.

    Those of coarser archives take no part: means over minutes lie closer together, and would tell of calm that was not.
    Samples come cluster by cluster in the order of time, so that no more than one step's are held at once.
    """
    is_sample = (sf.col("part") == EVENT) & (sf.col("type") == "Metric") & (sf.col("name") == options.load.metric)
    is_sample &= sf.col("kind").isNull()
    samples = parsed.where(is_sample).select(*EVENTS.names).dropDuplicates(["event_id"])
    # Clusters are few: a task for each of Spark's many partitions would cost more than the work.
    n_tasks = parsed.sparkSession.sparkContext.defaultParallelism
    ordered = samples.repartition(n_tasks, "clock_id").sortWithinPartitions("clock_id", "t_hi_ms", "host")
    return ordered.mapInArrow(load_deriver(options), EVENTS)


# ---- functions that run on executors ---------------------------------------------------------------------------


def _parser(roots: tuple[str, ...], options: IngestOptions) -> ArrowMap:
    def tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            for row in range(batch.num_rows):
                yield from parse_file(_file(batch, row, roots), options)

    return lambda batches: in_few_batches(tables(batches))


def _group_parser(roots: tuple[str, ...], options: IngestOptions) -> ArrowMap:
    """Of files that come group by group."""

    def files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, ReadFile]]:
        for batch in batches:
            for row in range(batch.num_rows):
                yield str(batch.column(_GROUP)[row].as_py()), _file(batch, row, roots)

    def tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for _, group in groupby(files(batches), key=lambda one: one[0]):
            yield from parse_logs([file for _, file in group], options)

    return lambda batches: in_few_batches(tables(batches))


def in_few_batches(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Rows of many small tables in batches that are worth their columns' overhead."""
    held, n_rows, n_bytes = list[pa.Table](), 0, 0
    for table in tables:
        held.append(table)
        n_rows += table.num_rows
        n_bytes += table.nbytes
        if n_rows >= BATCH_ROWS or n_bytes >= BATCH_BYTES:
            yield from whole_rows(held).to_batches()
            held, n_rows, n_bytes = [], 0, 0
    if held:
        yield from whole_rows(held).to_batches()


def load_deriver(options: IngestOptions) -> ArrowMap:
    """Samples by cluster and time to the load of each step."""
    chosen = replace(options.load, source_rank=options.rank(RRD))

    def derive(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deriver, clock = LoadDeriver(chosen), None
        for batch in batches:
            samples = to_batch(pa.Table.from_batches([batch]))
            for cluster in _by_clock(samples):
                if (found := cluster.strings("clock_id")[0].as_py()) != clock:
                    yield from _load_rows(deriver, EventBatch.empty(), FOREVER_MS)
                    deriver, clock = LoadDeriver(chosen), found
                # Of the last step further samples may follow in the next batch.
                last = cluster.t_hi_ms == cluster.t_hi_ms[-1]
                yield from _load_rows(deriver, cluster, int(cluster.t_lo_ms[last].max()))
        yield from _load_rows(deriver, EventBatch.empty(), FOREVER_MS)

    return derive


def _by_clock(samples: EventBatch) -> Iterator[EventBatch]:
    """The samples cut where the clock changes."""
    clocks = np.asarray(samples.strings("clock_id").to_pylist(), object)
    cuts = [0, *(np.flatnonzero(clocks[1:] != clocks[:-1]) + 1).tolist(), len(samples)]
    for first, end in pairwise(cuts):
        yield EventBatch(samples.table.slice(first, end - first))


def _load_rows(deriver: LoadDeriver, samples: EventBatch, watermark_ms: int) -> list[pa.RecordBatch]:
    derived: list[pa.RecordBatch] = to_rows(deriver.derive(samples, watermark_ms), SOURCE_OF_KIND[RRD]).to_batches()
    return derived


def widener(skew: ClockSkewBounds) -> ArrowMap:
    """Events to the same with the intervals that clocks allow."""

    def widen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            widened = to_rows(skew.widened(to_batch(rows)), None)
            place = widened.schema.get_field_index(SOURCE)
            yield from widened.set_column(place, widened.schema.field(SOURCE), rows.column(SOURCE)).to_batches()

    return widen


def _file(batch: pa.RecordBatch, row: int, roots: tuple[str, ...]) -> ReadFile:
    url = str(batch.column("path")[row].as_py())
    return ReadFile(shown(url), parts_below(url, roots), batch.column("content")[row].as_py())


# ---- reading ---------------------------------------------------------------------------------------------------


def _content(spark: SparkSession, urls: list[str]) -> DataFrame:
    """path and content of the files; one that has gone or cannot be read has no row, and is missed afterwards."""
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "true").option("ignoreCorruptFiles", "true")
    # Names may have the characters of Hadoop's wild cards.
    return reader.load([_WILD.sub(r"\\\g<0>", url) for url in urls]).select("path", "content")


def _log_group() -> Column:
    """What files that belong together have in common: the folder of a container or a Spark log; a name without its
    rotation."""
    folder = sf.regexp_replace("path", _FOLDER, "")
    is_of_folder = folder.rlike(r"/(container_(e\d+_)?\d+_\d+_\d+_\d+|eventlog_v2_[^/]+)$")
    return sf.when(is_of_folder, folder).otherwise(sf.regexp_replace("path", _ROTATION, ""))
