"""The stream on Spark: the live engine's matches, through kills at the worst moments, and windows that close."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import engine
from app.assembly import checked_queries
from app.config import load_settings
from app.deduplicate import Deduplicator
from app.store.api import Store, open_store
from collectors.schema import load_event_types
from engine.events import FOREVER_MS
from spark_jobs.session import SparkJobError
from spark_jobs.stream import StreamJob, StreamOptions
from spark_jobs.stream_alerts import Written
from spark_jobs.stream_sources import FolderInput, KafkaInput, read_events
from tests.spark_jobs.stream_fixtures import ROOT, recorded_events, shuffled_rows, small_job, small_stream, write_files

DAY_MS = 86_400_000


def meaning(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(
        (r.query, r.key, r.event_ids, round(r.confidence, 12), tuple(r.values.items()), r.count, r.window) for r in rows
    )


def run_to_end(job: StreamJob, spark: SparkSession) -> None:
    job.start(spark).awaitTermination()


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

    write_files(shuffled_rows(recorded, lateness_ms, seed=7), tmp_path / "in", n_files=3)
    told: list[Written] = []
    source_files = FolderInput(str(tmp_path / "in"), "parquet", max_files=1)
    options = StreamOptions(source_files, str(tmp_path / "checkpoint"), n_buckets=4, lateness_ms=lateness_ms, once=True)
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


def test_killed_twice_in_the_middle_nothing_is_lost_or_doubled(spark: SparkSession, tmp_path: Path) -> None:
    small_stream(tmp_path, lines_of_small_stream())
    with open_store(f"sqlite:///{tmp_path / 'whole'}.db") as store:
        job = small_job(tmp_path, "whole", store)
        run_to_end(job, spark)
        open_windows = {alert.query for alert in store.alerts()}
        job.heartbeat(60_000)
        run_to_end(job, spark)
        expected = stored(store)
    assert open_windows == {"jobs", "nodes"}, "job_2 may still end"
    assert {alert[0] for alert in expected["alerts"]} == {"jobs", "lost", "nodes"}
    assert {alert[2] for alert in expected["alerts"] if alert[0] == "lost"} == {'{"job_id":"job_2"}'}
    assert expected["late"] == [(f"{30:032x}", "tests")]
    assert ("events", "no_event", 1) in expected["problems"]
    assert all(row[1] for row in expected["evidence"]), "evidence is the events themselves"

    for batch_id, moment in ((1, "before"), (1, "after")):
        words = [sys.executable, "-m", "tests.spark_jobs.killed_stream", str(tmp_path), "killed", str(batch_id), moment]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == -9, done.stderr[-2000:]
    told: list[Written] = []
    with open_store(f"sqlite:///{tmp_path / 'killed'}.db") as store:
        job = small_job(tmp_path, "killed", store, after=told.append)
        run_to_end(job, spark)
        job.heartbeat(60_000)
        run_to_end(job, spark)
        assert stored(store) == expected
    assert [written.is_repeated for written in told][:2] == [True, False], "the one whose transaction was made"
    assert any(bucket["restored"] for written in told for bucket in written.batch.buckets if "restored" in bucket)


def test_a_checkpoint_of_other_queries_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    small_stream(tmp_path, [])
    with open_store(f"sqlite:///{tmp_path / 'store'}.db") as store:
        small_job(tmp_path, "checkpoint", store).start(spark).stop()
        query = tmp_path / "queries" / "jobs.cep"
        query.write_text(query.read_text().replace("1 hour", "2 hours"))
        with pytest.raises(SparkJobError, match=r"jobs \(by job_id\) means something else"):
            small_job(tmp_path, "checkpoint", store).start(spark)


def test_kafka_without_its_package_says_what_to_give(spark: SparkSession) -> None:
    with pytest.raises(SparkJobError, match=r"spark\.jars\.packages=org\.apache\.spark:spark-sql-kafka"):
        read_events(spark, KafkaInput("127.0.0.1:9", "events"))
