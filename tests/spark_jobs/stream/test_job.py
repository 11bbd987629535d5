"""The stream on Spark: the live engine's matches, through kills at the worst moments, and windows that close."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import engine
from app.config import load_settings
from app.live.assembly import checked_queries
from app.live.ordering.deduplicate import Deduplicator
from app.store.api import Store, open_store
from collectors.schema import load_event_types
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.event_store.schema import to_rows
from spark_jobs.session import SparkJobError
from spark_jobs.stream import job as stream
from spark_jobs.stream.alerts import AlertSink, Written
from spark_jobs.stream.job import StreamJob, StreamOptions
from spark_jobs.stream.kafka import KafkaInput
from spark_jobs.stream.sources import FolderInput, read_events
from tests.spark_jobs.stream_fixtures import ROOT, recorded_events, shuffled_rows, small_job, small_stream, write_files

DAY_MS = 86_400_000


def meaning(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(
        (r.query, r.key, r.event_ids, round(r.confidence, 12), tuple(r.values.items()), r.count, r.window) for r in rows
    )


def run_to_end(job: StreamJob, spark: SparkSession) -> None:
    job.start(spark).awaitTermination()


@pytest.mark.usefixtures("shipped_expressions")
def test_predefined_queries_over_the_recorded_cluster(spark: SparkSession, tmp_path: Path) -> None:
    lateness_ms = 30_000
    recorded = recorded_events(tmp_path / "recording")
    settings = load_settings(ROOT / "config.yaml", {})
    parameters = {"queued-data-high": {"max_queued_bytes": 40_000_000}}
    settings = settings.model_copy(update={"queries": settings.queries.model_copy(update={"parameters": parameters})})
    queries = checked_queries(settings)
    order = Deduplicator({name: rank for rank, name in enumerate(settings.sources.precedence)}, DAY_MS)
    for source, events in recorded:
        order.offer(source, events)
    limits = engine.Limits(possibilities=True)
    canonical = order.release(FOREVER_MS)
    live = engine.Engine(queries.compiled, load_event_types(), limits=limits).process(canonical, FOREVER_MS)
    expected = meaning(live)
    assert {row.query for row in live} >= {"queued-data", "mapper-lifetimes", "data-pull-straggler"}

    write_files(shuffled_rows(recorded, lateness_ms, seed=7), tmp_path / "in", n_files=2)
    told: list[Written] = []
    source_files = FolderInput(str(tmp_path / "in"), "parquet", max_files=1)
    options = StreamOptions(source_files, str(tmp_path / "checkpoint"), n_buckets=3, lateness_ms=lateness_ms, once=True)
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        job = StreamJob(options, settings, queries, store, after=told.append)
        run_to_end(job, spark)
        so_far = meaning(row for written in told for row in written.batch.matches)
        assert so_far < expected, "some windows are still open"
        job.heartbeat(int(canonical.t_hi_ms.max()) + 2 * DAY_MS)
        run_to_end(job, spark)
        alerts = Counter(alert.query for alert in store.alerts())
        assert not store.n_open_alerts()
    found = meaning(row for written in told for row in written.batch.matches)
    assert (found - expected, expected - found) == (Counter(), Counter())
    assert alerts.keys() == {name for name, info in queries.infos.items() if not info.is_report} & {
        row.query for row in live
    }
    counters: Counter[tuple[str, str, str]] = Counter()
    for written in told:
        counters += written.batch.counters
    counted = sum(n for (name, _, _), n in counters.items() if name == "events")
    read = frozenset().union(*(query.read_types for query in queries.compiled))
    assert counted == len(canonical.of_types(read)), "each event once, however many buckets got it"
    assert not any(written.batch.late for written in told)


def lines_of_small_stream() -> list[list[str]]:
    """Three files: two jobs, of which one never ends, two lost nodes, records that are none, a late event.

    A sample that no query reads moves the watermark so far that the lost nodes are told.
    """

    def event(number: int, kind: str, at_ms: int, **more: Any) -> str:
        return json.dumps({"event_id": f"{number:032x}", "type": kind, "t_lo_ms": at_ms, "source": "tests", **more})

    first = [event(1, "JobStart", 1_000, job_id="job_1"), event(2, "JobStart", 2_000, job_id="job_2")]
    first += [event(10 + i, "Mapper", 2_000 + 500 * i, job_id="job_1") for i in range(6)]
    second = [event(20, "NodeLost", 9_000, host="n1"), '{"event_id": "cut of', json.dumps({"type": "Mapper"})]
    second += [event(21, "JobEnd", 8_000, job_id="job_1", status="SUCCEEDED"), event(22, "NodeLost", 16_000, host="n2")]
    third = [event(30, "Mapper", 3_000, job_id="job_1"), event(31, "Metric", 25_000, host="n3"), second[0]]
    return [first, second, third]


def stored(store: Store) -> dict[str, Any]:
    """All that a repeated micro-batch could have doubled."""
    alerts = sorted(
        (a.query, a.id, a.key_text, a.n_matches, a.state, a.revision, a.start_ms, a.end_ms, a.summary)
        for a in store.alerts()
    )
    details = [store.alert(alert[1]) for alert in alerts]
    return {
        "alerts": alerts,
        "evidence": [(e.event_id, e.type, e.t_lo_ms) for d in details for e in d.evidence],
        "messages": sorted((n.idempotency_key, n.receiver, n.state) for d in details for n in d.notifications),
        "late": sorted((e.event_id, e.source) for e in store.late_events()),
        "problems": sorted((p.source, p.kind, p.n_times) for p in store.problems()),
        "statistics": sorted((s.name, s.source, s.type, s.value) for s in store.statistics()),
    }


def test_failures_at_the_worst_moments_lose_and_double_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the transaction of a micro-batch, whose state is written, and after it, while Spark does not know yet."""
    small_stream(tmp_path, lines_of_small_stream())

    def run_through(name: str, store: Store) -> list[Written]:
        told: list[Written] = []
        reached: SimpleQueue[int | None] = SimpleQueue()

        def after(written: Written) -> None:
            told.append(written)
            open_windows.append({alert.query for alert in store.alerts()})
            reached.put(written.batch.watermark_ms)

        job = small_job(tmp_path, name, store, after=after)
        job = replace(job, options=replace(job.options, once=False, trigger_ms=0))
        query = job.start(spark)
        while reached.get(timeout=600) != 20_000:
            pass
        job.heartbeat(60_000)
        while reached.get(timeout=600) != 55_000:
            pass
        query.stop()
        return told

    open_windows: list[set[str]] = []
    with open_store(f"sqlite:///{tmp_path / 'whole'}.db") as store:
        run_through("whole", store)
        expected = stored(store)
    assert open_windows[:4] == [set(), set(), {"jobs"}, {"jobs", "nodes"}], "job_2 may still end"
    assert {alert[0] for alert in expected["alerts"]} == {"jobs", "lost", "nodes"}
    assert {alert[2] for alert in expected["alerts"] if alert[0] == "lost"} == {'{"job_id":"job_2"}'}
    assert expected["late"] == [(f"{30:032x}", "tests")]
    assert ("events", "no_event", 1) in expected["problems"]
    assert all(row[1] for row in expected["evidence"]), "evidence is the events themselves"

    before: list[Written] = []

    def fail(number: int) -> None:
        if number == 1:
            raise RuntimeError("the worst moment")

    def fail_after(written: Written) -> None:
        before.append(written)
        fail(written.batch_id)

    with open_store(f"sqlite:///{tmp_path / 'failed'}.db") as store:
        with monkeypatch.context() as patched:
            write = AlertSink.write

            def written(sink: AlertSink, rows: pa.Table, number: int) -> Written:
                fail(number)
                return write(sink, rows, number)

            patched.setattr(AlertSink, "write", written)
            with pytest.raises(PySparkException, match="worst moment"):
                small_job(tmp_path, "failed", store).start(spark).awaitTermination()
        with pytest.raises(PySparkException, match="worst moment"):
            small_job(tmp_path, "failed", store, after=fail_after).start(spark).awaitTermination()
        told = run_through("failed", store)
        assert stored(store) == expected
    assert [written.is_repeated for written in told][:2] == [True, False], "the one whose transaction was made"
    # A worker may still have the state before the micro-batch that is done again, but not both times.
    assert any(bucket.get("restored") for written in (*before, *told) for bucket in written.batch.buckets)


def test_a_signal_ends_it_and_other_queries_begin_when_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *before, later = lines_of_small_stream()  # what is there at the signal may all be done before it is heard
    small_stream(tmp_path, before)
    (tmp_path / "queries" / "RUNBOOK.md").write_text(
        "".join(f"## {name}\nWait.\n" for name in ("jobs", "lost", "nodes"))
    )
    config = tmp_path / "config.yaml"
    config.write_text(f"store: {{directory: {tmp_path / 'store'}}}\nqueries: {{directory: {tmp_path / 'queries'}}}\n")
    words = [str(tmp_path / "in"), "--format=jsonl", f"--checkpoint={tmp_path / 'checkpoint'}", f"--config={config}"]
    words += ["--buckets=3", "--lateness=5 s", "--max-files=1", "--trigger=1 ms", "--idle-timeout=never"]

    @contextmanager
    def this_session(*_given: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(stream, "spark_session", this_session)
    write = AlertSink.write

    def run(*more: str, signal_number: int | None = None) -> tuple[int, list[int]]:
        done: list[int] = []

        def written(sink: AlertSink, rows: pa.Table, number: int) -> Written:
            if number == 1 and signal_number is not None:
                os.kill(os.getpid(), signal_number)  # in the middle of a micro-batch
            done.append(number)
            return write(sink, rows, number)

        with monkeypatch.context() as patched:
            patched.setattr(AlertSink, "write", written)
            return stream.main([*words, *more]), done

    code, done = run(signal_number=signal.SIGTERM)
    assert code == 128 + signal.SIGTERM
    assert done[:2] == [0, 1]
    (tmp_path / "in" / "0002.jsonl").write_text("".join(f"{line}\n" for line in later))
    path = tmp_path / "queries" / "jobs.cep"
    path.write_text(path.read_text().replace("1 hour", "2 hours"))
    capsys.readouterr()
    assert run("--once") == (2, [])
    assert "jobs (by job_id) means something else: it begins with" in capsys.readouterr().err
    code, done = run("--once", "--restart-queries")
    assert code == 0
    assert done[-1] > 1
    with open_store(f"sqlite:///{next((tmp_path / 'store').glob('*.db'))}") as store:
        told = {alert.query: alert for alert in store.alerts()}
        assert told.keys() == {"jobs", "nodes"}
        assert "job_1: 6" in told["jobs"].summary, "the events that came before the query was changed"


def test_a_missing_folder_and_files_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    small_stream(tmp_path, [])
    with open_store(f"sqlite:///{tmp_path / 'store'}.db") as store:
        job = small_job(tmp_path, "checkpoint", store)
        source = FolderInput(str(tmp_path / "events"), "parquet")
        job = replace(job, options=replace(job.options, source=source))
        with pytest.raises(SparkJobError, match="events: no such folder; expected one"):
            job.start(spark)
        event = {"event_id": "1", "type": "NodeLost", "t_lo_ms": 1_000, "host": "n1"}
        batch = EventBatch.from_rows([event], load_event_types())
        write_files(to_rows(batch, "tests"), tmp_path / "events", n_files=1)
        (tmp_path / "events" / "damaged.parquet").write_bytes(b"PAR1 and no more")
        with pytest.raises(SparkJobError, match=r"events/damaged\.parquet cannot be read .*--skip-damaged"):
            stream.run(job, spark, threading.Event())
        assert not store.statistics()
        job = replace(job, options=replace(job.options, source=replace(source, skip_damaged=True)))
        stream.run(job, spark, threading.Event())
        assert {(row.name, row.type, row.value) for row in store.statistics()} == {("events", "NodeLost", 1)}


def test_a_checkpoint_that_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    small_stream(tmp_path, [])
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "cut of')
    with open_store(f"sqlite:///{tmp_path / 'store'}.db") as store:
        job = small_job(tmp_path, "checkpoint", store)
        with pytest.raises(SparkJobError, match=r"cannot be started: \S+/checkpoint/metadata is damaged or missing"):
            job.start(spark)


def test_kafka_without_its_package_says_what_to_give(spark: SparkSession) -> None:
    with pytest.raises(SparkJobError, match=r"spark\.jars\.packages=org\.apache\.spark:spark-sql-kafka"):
        read_events(spark, KafkaInput("127.0.0.1:9", "events"))
