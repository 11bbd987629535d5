"""Workload H: what collectors would derive from its samples, whole life cycles, the stated rate, order, one seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster, HadoopStream, in_seconds
from collectors.metrics.load_balance import LoadDeriver
from engine import admit
from engine.events import EventBatch

SMALL = Cluster(n_nodes=8, length_ms=600_000, jobs_per_node_s=0.004)


@pytest.fixture(scope="module")
def stream() -> list[tuple[EventBatch, int]]:
    return list(HadoopStream(SMALL))


@pytest.fixture(scope="module")
def events(stream: list[tuple[EventBatch, int]]) -> EventBatch:
    return EventBatch.concat([batch for batch, _ in stream])


def test_batches_are_in_order_between_their_watermarks(stream: list[tuple[EventBatch, int]]) -> None:
    before_ms = 0
    for batch, watermark_ms in stream:
        assert batch.sorted() is batch
        assert admit(batch)[1].n_events == 0
        assert before_ms <= batch.t_lo_ms.min() <= batch.t_lo_ms.max() < watermark_ms
        before_ms = watermark_ms
    assert len(stream) == SMALL.length_ms // SMALL.step_ms


def test_events_have_the_attributes_of_their_types_and_ids_of_their_own(events: EventBatch) -> None:
    ids = events.strings("event_id").to_pylist()
    assert len(set(ids)) == len(ids)
    for row in events.rows():
        given = row.keys() - {"event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", "clock_id"}
        assert given <= SCHEMA.types[row["type"]].keys()
        is_sample = row["type"] in ("Metric", "LoadStd", "Balance", "Imbalance")
        assert row["t_hi_ms"] - row["t_lo_ms"] == (SMALL.step_ms - 1 if is_sample else 0)


def test_derived_events_are_those_of_the_collectors(stream: list[tuple[EventBatch, int]]) -> None:
    deriver = LoadDeriver()
    names = ("type", "t_lo_ms", "t_hi_ms", "clock_id", "source_seq", "name", "n_hosts")
    for batch, watermark_ms in stream:
        ours = [row for row in batch.rows() if row["type"] in ("LoadStd", "Balance", "Imbalance")]
        theirs = list(deriver.derive(batch, watermark_ms).rows())
        assert [[row[n] for n in names] for row in ours] == [[row[n] for n in names] for row in theirs]
        assert [row["val"] for row in ours] == pytest.approx([row["val"] for row in theirs], rel=1e-12)
        assert ours[1]["busy_ratio"] == theirs[1]["busy_ratio"]


def test_tasks_have_whole_lives(events: EventBatch) -> None:
    starts: dict[str, int] = {}
    n_ended = Counter[str]()
    for row in events.rows():
        if row["type"] in ("MapStart", "ReducerStart"):
            assert row["task_id"] not in starts
            starts[row["task_id"]] = row["t_lo_ms"]
        if row["type"] in ("MapEnd", "ReducerEnd"):
            assert row["t_lo_ms"] - starts[row["task_id"]] == row["period_ms"]
            n_ended[row["type"]] += 1
        if row["type"] == "DataPull":
            assert row["t_lo_ms"] > starts[row["task_id"]]
    assert n_ended["MapEnd"] > 100
    assert n_ended["ReducerEnd"] > 10


def test_the_rate_is_the_stated_one() -> None:
    cluster = Cluster(n_nodes=200, length_ms=1_800_000)
    n_events = sum(len(batch) for batch, _ in HadoopStream(cluster))
    assert n_events / (cluster.n_nodes * cluster.length_ms / 1_000) == pytest.approx(13.62, rel=0.05)


def test_the_same_seed_gives_the_same_stream(events: EventBatch) -> None:
    again = EventBatch.concat([batch for batch, _ in HadoopStream(SMALL)])
    assert again.table.equals(events.table)
    other = next(iter(HadoopStream(Cluster(n_nodes=8, length_ms=600_000, seed=11))))[0]
    assert not other.table.equals(again.table.slice(0, len(other)))


def test_in_seconds_a_step_has_fifteen_points(stream: list[tuple[EventBatch, int]]) -> None:
    for batch, _ in stream[:3]:
        shrunk = in_seconds(batch)
        lengths = shrunk.t_hi_ms - shrunk.t_lo_ms
        precise = batch.t_lo_ms == batch.t_hi_ms
        assert (lengths[~precise] == 14).all()
        assert (lengths[precise] == 0).all()
        assert np.array_equal(shrunk.t_hi_ms, batch.t_hi_ms // 1_000)
