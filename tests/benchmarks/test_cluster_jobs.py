"""Workload T's cluster stream with starts and ends of jobs, and GRETA's Q2 over it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from benchmarks.engine import trends
from benchmarks.workloads.cluster_jobs import Q2, SCHEMA, ClusterJobs
from engine import compile_query
from engine.events import EventBatch
from engine.reference import reference_output
from tests.engine.trends.evaluation import evaluated, shown


def _by_pair(batch: EventBatch) -> list[EventBatch]:
    """The events of each job on each mapper."""
    job, mapper = batch.numbers("job"), batch.numbers("mapper")
    pairs = sorted(set(zip(job.tolist(), mapper.tolist(), strict=True)))
    return [batch.where((job == its_job) & (mapper == its_mapper)) for its_job, its_mapper in pairs]


def test_a_job_starts_and_ends_in_turn_on_each_mapper() -> None:
    drawn = ClusterJobs(600, per_s=5, n_ids=3)
    batch = EventBatch.concat(drawn.batches())
    assert (np.diff(batch.t_lo_ms) >= 0).all()
    parts = _by_pair(batch)
    assert len(parts) == 9
    for part in parts:
        changes = part.table.filter(pc.not_equal(part.table["type"], "Measurement"))
        types = changes["type"].to_pylist()
        assert types == [("Start", "End")[k % 2] for k in range(len(types))]
        runs = np.diff(changes["t_lo_ms"].to_numpy()) // 1000
        assert len(runs) >= 12  # the longest run and pause take a minute, and the first one begins within one
        assert set(runs[::2]) <= set(range(10, 51))
        assert set(runs[1::2]) <= set(range(1, 11))


def test_measurements_are_those_of_the_table() -> None:
    """3,000 a second; NULL where no measurement is; ids of events go on from batch to batch."""
    batches = list(ClusterJobs(20).batches(10))
    assert len({event_id for each in batches for event_id in each.table["event_id"].to_pylist()}) == sum(
        map(len, batches)
    )
    measured = EventBatch.concat(batches).table.filter(
        pc.equal(EventBatch.concat(batches).table["type"], "Measurement")
    )
    assert measured["t_lo_ms"].value_counts().field("counts").to_pylist() == [3_000] * 20
    for name, (low, high) in {"mapper": (0, 10), "job": (0, 10), "cpu": (0, 1000), "memory": (0, 1000)}.items():
        values = measured[name].to_numpy()
        assert (values.min(), values.max()) == (low, high)
    load = measured["load"].to_numpy()
    assert load.mean() == pytest.approx(100, abs=0.2)
    assert load.var() == pytest.approx(100, rel=0.03)
    changes = EventBatch.concat(batches).table.filter(
        pc.not_equal(EventBatch.concat(batches).table["type"], "Measurement")
    )
    assert changes["load"].null_count == changes["cpu"].null_count == len(changes) > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_of_the_query_are_those_of_the_definition(seed: int) -> None:
    """The oracle looks at the subsets of a window's events, so that it is given each job on each mapper by itself:
    `[job, mapper]` lets no trend have two. A row of a mapper adds over its jobs."""
    batch = next(ClusterJobs(90, per_s=1, n_ids=3, seed=seed).batches(90))
    query = compile_query(Q2, SCHEMA)
    sums: dict[Any, int] = defaultdict(int)
    for part in _by_pair(batch):
        for row in reference_output(query.resolved, part):
            total = row.values["sum_cpu"]
            assert isinstance(total, int)
            sums[row.window, row.key] += total
    rows = evaluated(query, batch, SCHEMA, cuts=(20_001, 40_001, 70_001))
    assert {(row.window, row.key): row.values["sum_cpu"] for row in rows} == sums
    assert {row.key for row in rows} == {(("mapper", mapper),) for mapper in range(3)}
    assert all(row.values["mapper"] == dict(row.key)["mapper"] for row in rows)
    assert shown(evaluated(query, batch, SCHEMA)) == shown(rows)
    any_load = compile_query(Q2.replace("AND M.load < NEXT(M).load", ""), SCHEMA)
    assert shown(evaluated(any_load, batch, SCHEMA)) != shown(rows)  # some trends have several measurements


def test_the_stream_is_the_same_however_it_is_cut() -> None:
    """Of what jobs do; measurements are drawn batch by batch."""

    def changes(step_s: int) -> list[dict[str, Any]]:
        whole = EventBatch.concat(ClusterJobs(120, per_s=2, n_ids=2).batches(step_s)).table
        return (  # type: ignore[no-any-return]
            whole.filter(pc.not_equal(whole["type"], "Measurement")).select(["t_lo_ms", "type", "job", "mapper"])
        ).to_pylist()

    assert changes(60) == changes(7) == changes(500)


def test_the_benchmark_measures_the_query() -> None:
    found = trends.paper_query(120, 60)
    n_changes = found["events"] - 120 * 3_000
    assert 121 <= n_changes <= 121 * 20
    assert 11 * 2 <= found["rows"] <= 11 * 3  # windows that have ended before 120 s: at 30, 60 and 90 s
    assert found["rate"] == pytest.approx(found["events"] / found["cpu_s"])
    assert min(found["before_bytes"], found["last_bytes"], found["saved_bytes"]) > 0
