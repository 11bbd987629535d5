"""One bucket: the engine's matches whatever the order, the cut into micro-batches and the restarts in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import engine
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.config import load_settings
from app.queries.loading import Loaded, load_queries
from app.settings import Queries
from app.store.api import open_store
from collectors.schema import load_event_types
from engine.errors import StateError
from engine.events import EventBatch
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.stream import bucket as stream_bucket
from spark_jobs.stream.alerts import Batch
from spark_jobs.stream.bucket import Bucket, BucketOutput, status_content
from spark_jobs.stream.groups import Group, StreamPlan
from spark_jobs.stream.parts import BucketCache, Cached, Head, read_parts, write_parts
from spark_jobs.stream.plan import stream_plan
from spark_jobs.stream.processor import output_as_rows
from spark_jobs.stream.rows import match_content, match_of
from tests.spark_jobs.stream_fixtures import JOBS, LATENESS_MS, LOST, NODES

SCHEMA = load_event_types()
SETTINGS = load_settings(Path(__file__).parents[3] / "config.yaml", {})

EACH = """
PATTERN SEQ(JobStart a, Mapper+ b[])
WHERE   skip_till_next_match { [job_id] }
WITHIN  1 hour
RETURN  a.job_id, count(b[]) AS n_mappers
REPORT  '{job_id}: {n_mappers}'
"""

Event = dict[str, Any]


def loaded(folder: Path, **texts: str) -> Loaded:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.cep").write_text(text)
    return load_queries(Queries(directory=folder), 60_000)


def planned(folder: Path, n_buckets: int = 4, **texts: str) -> StreamPlan:
    return stream_plan(loaded(folder, **texts), SETTINGS, n_buckets)


def events() -> list[Event]:
    """Three jobs side by side, of which one never ends."""
    found: list[Event] = []
    for number in range(3):
        job, start_ms = f"job_{number}", 1_000 + 700 * number
        found.append({"type": "JobStart", "t_lo_ms": start_ms, "job_id": job})
        found += [{"type": "Mapper", "t_lo_ms": start_ms + 900 * i, "job_id": job} for i in range(1, 9)]
        if number:
            found.append({"type": "JobEnd", "t_lo_ms": start_ms + 9_000, "job_id": job})
    return [{"event_id": f"{i:032x}", **event} for i, event in enumerate(found)]


def table(rows: Sequence[Event], source: str | None = "job_history") -> pa.Table:
    batch = EventBatch.from_rows(rows, SCHEMA)
    return batch.table.append_column(SOURCE, pa.array([source] * len(batch), pa.string()))


def meaning(rows: Sequence[engine.MatchRow]) -> set[tuple[Any, ...]]:
    return {(row.query, row.key, row.event_ids, row.confidence, tuple(row.values.items())) for row in rows}


def expected(group: Group, rows: Sequence[Event]) -> set[tuple[Any, ...]]:
    compiled = engine.compile_queries(dict(group.texts), SCHEMA)
    running = engine.Engine(compiled, SCHEMA)
    found = [*running.process(EventBatch.from_rows(rows, SCHEMA), 2**61)]
    assert found
    return meaning(found)


class Memory:
    """A state store that counts."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.written: list[str] = []

    def items(self) -> Iterator[tuple[str, bytes]]:
        yield from self.parts.items()

    def put(self, name: str, data: bytes) -> None:
        self.parts[name] = data
        self.written.append(name)

    def remove(self, name: str) -> None:
        del self.parts[name]


def arrivals(rows: Sequence[Event], seed: int) -> list[Event]:
    random = np.random.default_rng(seed)
    return sorted(rows, key=lambda row: row["t_lo_ms"] + int(random.integers(0, LATENESS_MS)))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> StreamPlan:
    return planned(tmp_path_factory.mktemp("queries"), jobs=JOBS, lost=LOST)


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_any_cut_and_a_restart_at_every_step(plan: StreamPlan, seed: int) -> None:
    (group,) = plan.groups
    rows, store = arrivals(events(), seed), Memory()
    told: list[engine.MatchRow] = []
    newest_ms = 0
    cached = Cached(Bucket(group, plan.options, 0))
    for start in range(0, len(rows) + 8, 5):
        part = rows[start : start + 5]
        step = cached.bucket.step([table(part)] if part else [], newest_ms - LATENESS_MS)
        assert not step.late
        assert not step.problems
        told += [match_of(row.query, match_content(row)) for row in step.matches]
        newest_ms = max([newest_ms, *(row["t_lo_ms"] for row in part)])
        write_parts(cached, cached.bucket.save(), store)
        cached = Cached(Bucket(group, plan.options, 0))  # as another process would find it
        found, cached.digests = read_parts(store)
        assert cached.bucket.restore(found) == frozenset()
    told += cached.bucket.step([], 10**9).matches
    assert meaning(told) == expected(group, rows)


def test_only_parts_that_changed_are_written(plan: StreamPlan) -> None:
    (group,) = plan.groups
    cached, store = Cached(Bucket(group, plan.options, 0)), Memory()
    cached.bucket.step([table(events())], 0)
    assert write_parts(cached, cached.bucket.save(), store) == sum(map(len, store.parts.values()))
    first, token = dict(store.parts), cached.token
    store.written.clear()
    cached.bucket.step([], 3_000)
    write_parts(cached, cached.bucket.save(), store)
    assert cached.token != token
    assert set(store.written) == {name for name in store.parts if store.parts[name] != first.get(name)}
    assert 0 < len(store.written) < len(store.parts)
    assert store.parts.keys() == cached.bucket.save().keys()


def test_evidence_and_copies(plan: StreamPlan) -> None:
    (group,) = plan.groups
    bucket = Bucket(group, plan.options, 0)
    job = [row for row in events() if row["job_id"] == "job_1"]
    first = bucket.step([table(job), table(job[:3], "yarn_rest")], 0)
    assert first.counters["events", "job_history", "Mapper"] == 8
    assert first.counters["duplicates", "yarn_rest", "Mapper"] == 2
    told = bucket.step([], 10**6)
    (match,) = told.matches
    assert {known.event_id for known in told.evidence} == set(match.event_ids) == {row["event_id"] for row in job}
    again = bucket.step([table(job[:1])], 10**6)
    assert again.counters == {("duplicates", "job_history", "JobStart"): 1}
    assert not again.late


def test_late_is_what_begins_before_the_watermark_of_the_micro_batch(plan: StreamPlan) -> None:
    (group,) = plan.groups
    rows = events()
    told = Bucket(group, plan.options, 3).step([table(rows)], 5_000)
    late = [row for row in rows if row["t_lo_ms"] < 5_000]
    assert {(row["event_id"], row[SOURCE]) for row in told.late} == {(r["event_id"], "job_history") for r in late}
    assert told.newest_ms == max(row["t_lo_ms"] for row in rows)


def test_a_refused_event_is_told_and_stops_nothing(plan: StreamPlan) -> None:
    (group,) = plan.groups
    bad = {"event_id": "f" * 32, "type": "JobStart", "t_lo_ms": 9, "t_hi_ms": 3, "job_id": "job_9"}
    bucket = Bucket(group, plan.options, 0)
    told = bucket.step([table([bad, *events()], None)], 0)
    ((source, _, kind, message),) = told.problems
    assert (source, kind) == ("events", "refused")
    assert "9 ms" in message
    assert len(bucket.step([], 10**9).matches) == 3


def test_a_changed_query_begins_with_the_events_that_are_kept(tmp_path: Path, plan: StreamPlan) -> None:
    (group,) = plan.groups
    before, store = Cached(Bucket(group, plan.options, 0)), Memory()
    rows = sorted(events(), key=lambda row: row["t_lo_ms"])
    before.bucket.step([table([row for row in rows if row["t_lo_ms"] < 6_000])], 0)
    before.bucket.step([], 6_000)
    write_parts(before, before.bucket.save(), store)
    (changed,) = planned(tmp_path, jobs=JOBS.replace("1 hour", "30 minutes"), lost=LOST).groups
    after = Bucket(changed, plan.options, 0)
    assert after.restore(read_parts(store)[0]) == {"jobs"}
    after.step([table([row for row in rows if row["t_lo_ms"] >= 6_000])], 6_000)
    told = after.step([], 10**9)
    assert meaning(told.matches) == expected(changed, rows)


def test_state_that_lacks_a_part_or_is_of_another_format(plan: StreamPlan) -> None:
    (group,) = plan.groups
    bucket = Bucket(group, plan.options, 0)
    parts = bucket.save()
    del parts["order/waiting"]
    with pytest.raises(StateError, match="lacks a part"):
        Bucket(group, plan.options, 0).restore(parts)
    store = Memory()
    store.parts["x"] = b"no table"
    with pytest.raises(StateError, match="x is damaged"):
        read_parts(store)
    head = Head("t", "d", 5, 7)
    assert Head.from_json(head.to_json()) == head
    with pytest.raises(StateError, match="another version"):
        Head.from_json('{"format": 99}')


def test_a_cached_bucket_counts_only_with_the_token_of_the_state(plan: StreamPlan) -> None:
    (group,) = plan.groups
    cache, store = BucketCache(most=2), Memory()
    cached = Cached(Bucket(group, plan.options, 0))
    write_parts(cached, cached.bucket.save(), store)
    key = ("s", group.name, 0)
    cache.put(key, cached)
    assert cache.take(key, cached.token) is cached
    assert cache.take(key, cached.token) is None, "whoever took it may have changed it"
    cache.put(key, cached)
    assert cache.take(key, "another") is None
    for number in range(4):
        cache.put(("s", group.name, number), Cached(Bucket(group, plan.options, number), token="t"))
    assert [cache.take(("s", group.name, number), "t") is None for number in range(4)] == [True, True, False, False]


def test_groups_by_key_and_one_bucket_without(tmp_path: Path) -> None:
    plan = planned(tmp_path, 8, jobs=JOBS, lost=LOST, nodes=NODES)
    without, by_job = plan.groups
    assert (without.name, without.route.n_buckets, without.told) == ("", 1, ("nodes",))
    assert (by_job.name, by_job.route.n_buckets, by_job.told) == ("job_id", 8, ("jobs", "lost"))
    assert by_job.route.keyed == {"JobStart", "Mapper", "JobEnd"}
    assert not without.route.counted & by_job.route.counted
    told: BucketOutput = Bucket(without, plan.options, 0).step([], 0)
    assert told.matches == []


def test_an_executor_with_another_program_is_refused(plan: StreamPlan) -> None:
    (group,) = plan.groups
    other = Group(group.route, group.texts, (("jobs", "0" * 32), *group.hashes[1:]), group.told, group.infos)
    with pytest.raises(StateError, match="same program"):
        Bucket(other, plan.options, 0)


def test_a_report_with_many_events_is_stored_as_the_live_process_stores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each Mapper, with all before it: of the longer ones the driver gets the digest of the events."""
    monkeypatch.setattr(stream_bucket, "MAX_TOLD_EVENTS", 4)
    queries = loaded(tmp_path / "queries", each=EACH)
    plan = stream_plan(queries, SETTINGS, 1)
    (group,) = plan.groups
    bucket = Bucket(group, plan.options, 0)
    bucket.step([table(events())], 0)
    told = bucket.step([], 10**9)
    assert 0 < len(told.digests) < len(told.matches)
    rows = [row.asDict() for row in output_as_rows(told, group.name, 0, status_content(told))]
    batch = Batch.of(pa.Table.from_pylist(rows[::-1]))
    alerting = AlertingOptions(queries.infos, {})
    running = engine.Engine(queries.compiled, SCHEMA)
    live = list(running.process(EventBatch.from_rows(events(), SCHEMA), 10**9))
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        with store.transaction() as writer:
            streamed = Recorder(alerting, writer, lambda _: {}, 1).live(batch.matches, 10**9, batch.digests)
        with store.transaction() as writer:
            again = Recorder(alerting, writer, lambda _: {}, 1).live(live, 10**9)
    assert (streamed.n_reports, again.n_reports) == (len(live), 0), "the same rows under the same ids"


def test_pythons_workers_do_without_a_database() -> None:
    """Each of them loads what is evaluated on executors; SQLAlchemy and Alembic would nearly double that time."""
    script = "import spark_jobs.stream.processor, sys; sys.exit(int('sqlalchemy' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], timeout=600, check=False).returncode == 0


RISING = """
PATTERN Mapper+ m
GROUP BY job_id
WITHIN  4 seconds SLIDE 2 seconds
HAVING  COUNT(*) > 3
RETURN  job_id, COUNT(*) AS n
ALERT   warning '{job_id}: {n}'
"""


def test_rows_about_trends_come_from_the_bucket_of_their_group_with_their_events(tmp_path: Path) -> None:
    rows = [event for event in events() if event["type"] == "Mapper"]
    plan = planned(tmp_path / "queries", rising=RISING)
    (group,) = plan.groups
    assert group.route.key == ("job_id",)
    told: list[engine.MatchRow] = []
    bucket = Bucket(group, plan.options, 0)
    for watermark_ms, until_ms in ((0, 3_000), (3_000, 6_000), (6_000, 2**40)):
        told += bucket.step([table([row for row in rows if row["t_lo_ms"] < until_ms])], watermark_ms).matches
        state = bucket.save()
        bucket = Bucket(group, plan.options, 0)
        assert bucket.restore(state) == frozenset()
        rows = [row for row in rows if row["t_lo_ms"] >= until_ms]
    told += bucket.step([], 2**41).matches
    assert meaning(told) == expected(group, [event for event in events() if event["type"] == "Mapper"])
    for row in told:
        assert row.n_events == len(row.event_ids) > 1
        assert match_of(row.query, match_content(row)) == row
