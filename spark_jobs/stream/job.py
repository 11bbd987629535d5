"""`clustercep stream`: live detection on Spark, from a growing folder of event files or from Kafka.

    events -> packs by bucket -> buckets (state in RocksDB) -> alerts in the store, one transaction per micro-batch

The watermark is Spark's: the start of the newest event so far less the lateness, the same for all buckets, kept in the
checkpoint. Each bucket has a timer that the next watermark fires, so that its windows close without events of its own;
while no events come at all, heartbeats move the watermark.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import engine
from app.alerting.notifier import Notifier
from app.clock import Clock, SystemClock
from app.config import load_settings
from app.console import inert
from app.durations import parse_duration_ms
from app.errors import AppError, StoreError
from app.live.assembly import alerting_options, checked_queries, endpoints_of, telling_of
from app.process.logs import configure_logs
from app.process.owned_store import owned_store
from app.process.signals import ENDING, KILLED_BY_SIGNAL, handling
from app.queries.loading import Loaded, without_incidents
from app.settings import Settings
from app.store.api import Store
from collectors.schema import load_event_types
from collectors.time_units import HOUR_MS
from engine.errors import EngineError
from engine.events import EventSchema
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.event_store.schema import columns_of
from spark_jobs.interruption import EXIT_MISTAKE, run_job
from spark_jobs.jvm_errors import JVM_ENDED
from spark_jobs.local_paths import is_absent, may_be_elsewhere
from spark_jobs.session import SparkJobError, spark_session
from spark_jobs.stream.alerts import AlertSink, Written
from spark_jobs.stream.checkpoint import (
    StreamMeaning,
    check,
    last_watermark_ms,
    new_stream_id,
    read_meaning,
    write_meaning,
)
from spark_jobs.stream.errors import reason_of
from spark_jobs.stream.groups import StreamPlan, meaning
from spark_jobs.stream.idle import IdleClock
from spark_jobs.stream.kafka import KafkaInput, check_config, check_options
from spark_jobs.stream.packs import packed
from spark_jobs.stream.plan import stream_plan
from spark_jobs.stream.processor import CONF, output_rows
from spark_jobs.stream.sources import FolderInput, read_events, read_heartbeats, with_event_time

log = structlog.get_logger(__name__)

HEARTBEATS = "heartbeats"
"""Folder in the checkpoint."""

RETENTION_INTERVAL_MS = HOUR_MS

_LOOK_S = 1


@dataclass(frozen=True)
class StreamOptions:
    """What is asked of a stream."""

    source: FolderInput | KafkaInput
    checkpoint: str
    """Folder on any Hadoop file system that all executors reach."""
    n_buckets: int = 16
    lateness_ms: int = 60_000
    """By how much an event may start before the newest one of earlier micro-batches."""
    idle_timeout_ms: int | None = 300_000
    """Without events for so long, the stream's time goes on with the clock."""
    max_ahead_ms: int = 60_000
    trigger_ms: int = 5_000
    once: bool = False
    """End when all that is there now is done."""
    restart_queries: bool = False


@dataclass
class StreamJob:
    """One stream: what it evaluates, and where its alerts go."""

    options: StreamOptions
    settings: Settings
    queries: Loaded
    store: Store
    clock: Clock = field(default_factory=SystemClock)
    notifier: Notifier | None = None
    after: Callable[[Written], None] = lambda _written: None
    schema: EventSchema = field(default_factory=load_event_types)
    """The event types that the queries were compiled for."""
    _clean_ms: int = 0

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start where the checkpoint stands; raises SparkJobError when it is not one of this stream."""
        for name, value in CONF.items():
            spark.conf.set(name, value)
        self._files = StoreFiles(spark, self.options.checkpoint)
        plan = self._plan()
        if self.settings.engine.shedding_model is not None:
            log.warning("engine.shedding_model is not used: it is of all queries, a bucket has those of its group")
        self._files.make_folder(HEARTBEATS)
        self._idle = IdleClock(self.options.idle_timeout_ms, self.clock.now_ms())
        if (watermark_ms := last_watermark_ms(self._files)) is not None:
            self._idle.newest_ms = watermark_ms + self.options.lateness_ms
        try:
            rows = self.rows(spark, plan)
        except PySparkException as error:
            raise SparkJobError(_cannot_start(self.options, error)) from error
        alerting = alerting_options(self.settings, self.queries)
        sink = AlertSink(
            self.store, alerting, plan.stream_id, self.clock.now_ms, notifier=self.notifier, after=self._written,
            limited={of.name: of for group in plan.groups for of in group.limited},
        )  # fmt: skip
        writer = rows.writeStream.queryName("clustercep").outputMode("append").foreachBatch(sink)
        writer = writer.option("checkpointLocation", self._files.url)
        if self.options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.options.trigger_ms} milliseconds")
        try:
            return writer.start()
        except (PySparkException, Py4JJavaError) as error:  # the second is not of Spark: of a parser, for example
            raise SparkJobError(_cannot_start(self.options, error)) from error

    def rows(self, spark: SparkSession, plan: StreamPlan) -> DataFrame:
        """What the buckets tell, as a stream."""
        columns = columns_of(self.schema)
        records = read_events(spark, self.options.source, columns)
        heartbeats = read_heartbeats(spark, self._files.full(HEARTBEATS), columns)
        events = with_event_time(records, heartbeats, self.options.lateness_ms, self.options.max_ahead_ms)
        return output_rows(packed(events, plan.routes), plan)

    def beat(self, is_data_waiting: bool) -> None:
        """Let the stream's time go on while it is idle; to be called again and again."""
        now_ms = self.clock.now_ms()
        if is_data_waiting:
            self._idle.heard(None, now_ms)
        elif (time_ms := self._idle.due(now_ms)) is not None:
            self.heartbeat(time_ms)

    def clean(self) -> None:
        """Now and then: delete what is older than its retention."""
        now_ms = self.clock.now_ms()
        if now_ms < self._clean_ms:
            return
        self._clean_ms = now_ms + RETENTION_INTERVAL_MS
        try:
            with self.store.transaction() as writer:
                removed = writer.apply_retention(self.settings.store.retention, now_ms)
        except StoreError as error:
            log.warning("retention has to wait for the next time", reason=str(error))
        else:
            if any(removed.values()):
                log.info("retention", **removed)

    def heartbeat(self, time_ms: int) -> None:
        """Tell the stream that its time has come to `time_ms`: what starts before, less the lateness, is late."""
        self._files.create_new(f"{HEARTBEATS}/{time_ms:020d}.json", f'{{"event_time_ms": {time_ms}}}\n'.encode())

    def _plan(self) -> StreamPlan:
        plan = stream_plan(self.queries, self.settings, self.options.n_buckets, self.schema)
        before = read_meaning(self._files)
        stream_id = new_stream_id() if before is None else before.stream_id
        groups = meaning(plan.groups)
        now = StreamMeaning(stream_id, self.options.n_buckets, self.options.source.describe(), groups)
        if before is not None:
            for line in check(before, now, self._files.url, restart_queries=self.options.restart_queries):
                log.info("checkpoint", change=line)
        if before != now:
            write_meaning(self._files, now)
        return StreamPlan(plan.groups, plan.options, stream_id)

    def _written(self, written: Written) -> None:
        if written.batch.newest_ms is not None:
            self._idle.heard(written.batch.newest_ms, self.clock.now_ms())
        log.info(
            "micro-batch",
            number=written.batch_id,
            watermark_ms=written.batch.watermark_ms,
            n_matches=len(written.batch.matches),
            n_late=len(written.batch.late),
            repeated=written.is_repeated,
        )
        self.after(written)


def run(job: StreamJob, spark: SparkSession, stopped: threading.Event) -> None:
    """Until it is stopped, or all is done; raises SparkJobError when the stream fails."""
    query = job.start(spark)
    try:
        try:
            while not stopped.is_set():
                if query.awaitTermination(_LOOK_S):
                    return
                if job.store.fatal is not None:
                    raise job.store.fatal
                job.beat(bool(query.status["isDataAvailable"]))
                job.clean()
        except (PySparkException, Py4JJavaError) as error:
            reason = reason_of(error, job.options.checkpoint)
            raise SparkJobError(f"the stream failed: {reason}; it goes on from its checkpoint when started") from error
    except JVM_ENDED as error:  # also while it is asked for the reason
        raise SparkJobError(
            "Spark's own process has ended; the stream goes on from its checkpoint when started"
        ) from error
    finally:
        with suppress(*JVM_ENDED):
            query.stop()


def main(args: Sequence[str] | None = None) -> int:
    """The job; returns its exit code."""
    given = _parser().parse_args(args)
    try:
        settings = load_settings(given.config)
        configure_logs(settings.log)
        return _main(given, settings)
    except (AppError, EngineError) as error:
        sys.stderr.write(f"clustercep: {inert(error)}\n")
        return EXIT_MISTAKE


def _main(given: argparse.Namespace, settings: Settings) -> int:
    options = _options(given, settings.spark.kafka_config)
    conf = {**settings.spark.conf, **_pairs(given.conf, "--conf")}
    only_named = may_be_elsewhere(given.master or settings.spark.master, conf)
    if isinstance(options.source, FolderInput) and is_absent(options.source.url, only_named=only_named):
        raise SparkJobError(_no_folder(options.source))
    queries = without_incidents(checked_queries(settings))
    _compile_kernels()
    stopped = _Stopped()
    with ExitStack() as opened:
        store = opened.enter_context(owned_store(settings, "stream", take_over=given.take_over))
        notifier = Notifier(store, endpoints_of(settings), SystemClock(), telling=telling_of(settings))
        opened.callback(notifier.stop)
        # A partition has a state store of its own, and no more of them than buckets have anything to do.
        partitions = {"spark.sql.shuffle.partitions": str(options.n_buckets)}
        conf = {**CONF, **partitions, **conf}
        spark = opened.enter_context(spark_session("clustercep stream", given.master or settings.spark.master, conf))
        opened.enter_context(handling(dict.fromkeys(ENDING, stopped.stop)))  # after Spark, which has one of its own
        notifier.start()
        run(StreamJob(options, settings, queries, store, notifier=notifier), spark, stopped.event)
        return KILLED_BY_SIGNAL + stopped.by if stopped.by else 0


def _compile_kernels() -> None:
    """Here, once: in the first micro-batch each worker of this machine would compile all of them, for minutes."""
    if not engine.kernels_are_compiled():
        log.info("compiling the matching kernels: some minutes, once per machine and version")
        engine.warm_kernels()


@dataclass
class _Stopped:
    event: threading.Event = field(default_factory=threading.Event)
    by: int = 0

    def stop(self, number: int, _frame: object) -> None:
        """Handler of a signal."""
        self.by = number
        self.event.set()


def _cannot_start(options: StreamOptions, error: PySparkException | Py4JJavaError) -> str:
    source = options.source
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if isinstance(source, FolderInput) and condition == "PATH_NOT_FOUND":
        return _no_folder(source)
    return f"the stream cannot be started: {reason_of(error, options.checkpoint)}"


def _no_folder(source: FolderInput) -> str:
    return f"{source.url}: no such folder; expected one in which event files appear: make it, or name another"


def _options(given: argparse.Namespace, kafka_config: Path | None) -> StreamOptions:
    if (given.input is None) == (given.kafka is None):
        raise AppError("expected one source: a folder as INPUT, or --kafka SERVERS with --topic TOPIC")
    source: FolderInput | KafkaInput
    if given.input is not None:
        source = FolderInput(given.input, given.format, given.max_files, given.skip_damaged)
    elif given.topic is None:
        raise AppError("--kafka without --topic; expected the topic with the events")
    else:
        source = KafkaInput(
            given.kafka, given.topic, _pairs(given.kafka_option, "--kafka-option"), given.kafka_config or kafka_config
        )
        check_options(source.options)
        check_config(source.config)
    return StreamOptions(
        source=source,
        checkpoint=given.checkpoint,
        n_buckets=given.buckets,
        lateness_ms=_duration(given.lateness, "--lateness"),
        idle_timeout_ms=None if given.idle_timeout == "never" else _duration(given.idle_timeout, "--idle-timeout"),
        trigger_ms=_duration(given.trigger, "--trigger"),
        once=given.once,
        restart_queries=given.restart_queries,
    )


def _duration(text: str, name: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise AppError(f"{name}: found {text!r}; {error}") from None


def _pairs(given: Sequence[str], name: str) -> Mapping[str, str]:
    pairs = dict(entry.partition("=")[::2] for entry in given)
    if "" in pairs or any("=" not in entry for entry in given):
        names = [entry.partition("=")[0] for entry in given]  # a value may be a secret
        raise AppError(f"{name}: found {names}; expected NAME=VALUE")
    return pairs


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clustercep stream", description="Live detection on Spark.")
    parser.add_argument(
        "input", nargs="?", metavar="INPUT", help="Folder in which event files appear, on any Hadoop URL."
    )
    parser.add_argument("--checkpoint", required=True, metavar="URL", help="Folder for state and positions.")
    parser.add_argument("--format", choices=("parquet", "jsonl"), default="parquet", help="Of the files.")
    parser.add_argument("--kafka", metavar="SERVERS", help="Read a topic instead: host:port, several with commas.")
    parser.add_argument("--topic", help="Its name; a value is a JSON object with the columns of an event.")
    parser.add_argument("--kafka-option", action="append", default=[], metavar="NAME=VALUE", help="Of Spark's source.")
    parser.add_argument("--kafka-config", type=Path, metavar="FILE", help="Kafka's client properties: TLS, SASL.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="Another config.yaml.")
    parser.add_argument("--master", metavar="URL", help="Of the cluster; all cores of this machine without.")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="Setting of Spark.")
    parser.add_argument("--buckets", type=_positive, default=16, metavar="N", help="Parts into which keys are divided.")
    parser.add_argument("--lateness", default="1 min", help="How late an event may come.")
    parser.add_argument("--idle-timeout", default="5 min", help="Without events, time goes on after this; or 'never'.")
    parser.add_argument("--trigger", default="5 s", help="A micro-batch begins so often.")
    parser.add_argument("--max-files", type=_positive, metavar="N", help="Files per micro-batch at most.")
    parser.add_argument("--skip-damaged", action="store_true", help="Leave out files that cannot be read or are gone.")
    parser.add_argument("--once", action="store_true", help="End when all that is there now is done.")
    parser.add_argument(
        "--restart-queries", action="store_true", help="New and changed queries begin afresh, the others go on."
    )
    parser.add_argument(
        "--take-over", action="store_true", help="The machine of the process that owned the store until now is lost."
    )
    return parser


if __name__ == "__main__":
    run_job(main)
