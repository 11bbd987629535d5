"""The storm of the shedding benchmark: what its stream tells, which alerts count as kept, and that the bound holds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.alerting.catalog import QueryInfo, Severity
from app.alerting.recording.episodes import group
from app.queries.loading import describe, read_query
from app.replay.machine import Costs
from benchmarks.shedding.storm import QUERIES, Storm, Strategy, alerts_of, measure, n_kept
from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster, HadoopStream
from benchmarks.workloads.node_hog import Hog, HoggedStream
from engine import compile_query
from engine.matching.output.match_row import MatchRow

CLUSTER = Cluster(n_nodes=10, length_ms=600_000, jobs_per_node_s=0.004, maps_median=20.0)
HOG = Hog(300_000, node=3)
FEW = ("load-imbalance-task", "mapper-straggler-running", "data-pull-straggler")


def _rows(stream: HadoopStream) -> list[dict[str, Any]]:
    return [row for batch, _ in stream for row in batch.rows()]


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return _rows(HoggedStream(CLUSTER, HOG))


def test_batches_are_in_order() -> None:
    for batch, watermark_ms in HoggedStream(CLUSTER, HOG):
        assert batch.sorted() is batch
        assert batch.t_lo_ms.max() < watermark_ms


def test_without_the_hog_it_is_the_same_cluster(told: list[dict[str, Any]]) -> None:
    names = ("type", "t_lo_ms", "t_hi_ms", "job_id", "task_id", "host", "value", "period_ms")
    plain = [row for row in _rows(HadoopStream(CLUSTER)) if row["t_hi_ms"] <= HOG.from_ms]
    ours = [row for row in told if row["t_hi_ms"] <= HOG.from_ms and row["type"] != "TaskSample"]
    assert [[row.get(n) for n in names] for row in ours] == [[row.get(n) for n in names] for row in plain]


def test_each_attempt_that_runs_is_sampled_at_each_step(told: list[dict[str, Any]]) -> None:
    begun = {row["attempt_id"]: row["t_lo_ms"] for row in told if row["type"] in ("MapStart", "ReducerStart")}
    ended = {row["attempt_id"]: row["t_lo_ms"] for row in told if row["type"] in ("MapEnd", "ReducerEnd")}
    steps = range(CLUSTER.step_ms, CLUSTER.length_ms + 1, CLUSTER.step_ms)
    # What begins within the last step is told with it, and sampled from the next one on.
    expected = {
        (attempt, at_ms)
        for attempt, from_ms in begun.items()
        for at_ms in steps
        if from_ms < at_ms < ended.get(attempt, CLUSTER.length_ms + 1)
    }
    samples = {(row["attempt_id"], row["t_lo_ms"]): row for row in told if row["type"] == "TaskSample"}
    assert samples.keys() <= expected
    assert len(samples) > 0.8 * len(expected) > 100
    for (attempt, at_ms), row in samples.items():
        assert row["elapsed_ms"] == at_ms - begun[attempt]
        assert 0 < row["progress"] < 1


def test_the_hog_is_slow_and_furthest_from_the_mean(told: list[dict[str, Any]]) -> None:
    late = [row for row in told if row["t_lo_ms"] > HOG.from_ms]
    assert {row["host_1"] for row in late if row["type"] == "LoadStd"} >= {"node3"}
    maps = [row for row in told if row["type"] == "Mapper" and row["t_lo_ms"] - row["period_ms"] > HOG.from_ms]
    slow = [row["period_ms"] for row in maps if row["host"] == "node3"]
    others = [row["period_ms"] for row in maps if row["host"] != "node3"]
    assert min(len(slow), len(others)) > 3
    assert sum(slow) / len(slow) > 3 * sum(others) / len(others)
    assert {row["status"] for row in told if row["type"] in ("MapEnd", "Mapper", "ReducerEnd")} == {"SUCCEEDED"}
    hosts = {(row["job_id"], row["host"]) for row in told if row["type"] == "MapStart"}
    assert {(row["job_id"], row["source_host"]) for row in told if row["type"] == "DataPull"} <= hosts


def _match(host: str, start_s: int, end_s: int, confidence: float = 1.0) -> MatchRow:
    return MatchRow("q", (("host", host),), 1_000 * start_s, 1_000 * end_s, {"a": ("1",)}, confidence, {"host": host})


def test_an_alert_is_kept_where_one_of_its_key_is_there_at_the_time() -> None:
    info = QueryInfo("q", "0" * 32, Severity.WARNING, "", group_gap_ms=10_000, key=("host",))
    storm = Storm((), 2, 15_000, (), {"q": info})
    every = alerts_of(storm, [_match("a", 0, 20), _match("a", 25, 40), _match("b", 31, 40), _match("b", 60, 70)])
    assert [(alert.key, alert.end_ms) for alert in every] == [
        ((("host", "a"),), 40_000), ((("host", "b"),), 40_000), ((("host", "b"),), 70_000),
    ]  # fmt: skip
    found = group([_match("a", 50, 55), _match("b", 55, 59), _match("c", 31, 40)], storm.infos)
    assert n_kept(storm, every, found) == {"q": (2, 3)}, "a within its gap of 10 s, the later of b, not the earlier"
    assert alerts_of(storm, [_match("a", 0, 30)]) == [], "before the hog"


@pytest.fixture(scope="module")
def few() -> Storm:
    queries = [compile_query(read_query(QUERIES / f"{name}.cep"), SCHEMA, name=name) for name in FEW]
    infos = {query.name: describe(query, "", 300_000) for query in queries}
    return Storm(tuple(HoggedStream(CLUSTER, HOG)), 20, CLUSTER.step_ms, queries, infos)


def test_the_bound_holds_and_nothing_is_lost_without_overload(few: Storm) -> None:
    costs = Costs(event_s=1.5e-6, kept_s=1e-8, dropped_s=1e-8)
    rows = {row["rate"]: row for row in measure(few, (0.5, 2.0), 1, [Strategy.LEARNING], costs)}
    rested, loaded = rows[0.5], rows[2.0]
    assert rested["alerts"] == loaded["alerts"] > 5
    assert (rested["fn"], rested["fp"]) == (0, 0)
    assert not any(rested[name] for name in ("dropped_runs", "dropped_kept_events", "dropped_events"))
    # With nothing dropped 20 polls at twice the rate would wait for 10 of them; the bound is what 2 take.
    assert loaded["latency_max_ms"] <= loaded["bound_ms"]
    counts = Counter({name: there for name, (_, there) in loaded["queries"].items()})
    assert counts.total() == loaded["alerts"]
    assert loaded["fn"] < 1
