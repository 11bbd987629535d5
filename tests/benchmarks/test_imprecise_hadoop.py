"""Q5 and Q6 of SASE++ over a tiny cluster, times in seconds: the rows of the oracle, which enumerates the worlds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.imprecise.hadoop import cases
from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster, HadoopStream, in_seconds
from engine import Engine, compile_query
from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow
from engine.reference.rows.output import ReferenceRow, reference_output

TINY = Cluster(
    n_nodes=20,
    length_ms=57_000,
    step_ms=3_000,
    jobs_per_node_s=0.02,
    maps_median=4.0,
    maps_per_reducer=4,
    map_median_ms=1_500.0,
    reduce_median_ms=8_000.0,
    wait_mean_ms=500.0,
    load_period_ms=36_000,
)
N_TASKS = 6
WITHIN_S = 24


@pytest.fixture(scope="module")
def events() -> EventBatch:
    """What Q5 and Q6 read of the cluster, of its first reducers that have ended."""
    table = pa.concat_tables(in_seconds(batch).table for batch, _ in HadoopStream(TINY))
    kept = table.filter(pc.is_in(table.column("type"), pa.array(["LoadStd", "Balance", "Imbalance"])))
    ends = table.filter(pc.equal(table.column("type"), "ReducerEnd")).column("task_id").slice(0, N_TASKS)
    tasks = table.filter(
        pc.and_(
            pc.is_in(table.column("type"), pa.array(["ReducerStart", "ReducerEnd"])),
            pc.is_in(table.column("task_id"), ends.combine_chunks()),
        )
    )
    some = pa.concat_tables([kept, tasks]).combine_chunks()
    return EventBatch(some.take(pc.sort_indices(some, [("t_lo_ms", "ascending"), ("t_hi_ms", "ascending")])))


def by_task(events: EventBatch) -> Iterator[EventBatch]:
    """The events of one task and those of all, for each task: rows are told apart by their keys."""
    tasks = events.table.column("task_id")
    for task in pc.unique(tasks.drop_null()).to_pylist():
        yield EventBatch(events.table.filter(pc.or_(pc.is_null(tasks), pc.equal(tasks, task).fill_null(False))))


def said(row: MatchRow | ReferenceRow) -> tuple[Any, ...]:
    """What a row says, but for which of several matches, equally good, is shown."""
    candidates = None if row.candidates is None else {name: sorted(ids) for name, ids in row.candidates.items()}
    ids = [event_id for variable in row.bindings.values() for event_id in variable] if candidates is None else []
    return tuple(map(str, ids)), row.count, str(candidates)


@pytest.mark.parametrize("name", cases())
def test_the_rows_of_the_oracle(name: str, events: EventBatch) -> None:
    text = re.sub(r"10 minutes", str(WITHIN_S), cases()[name])
    text = text.replace("settle = 1 minute", "settle = 8").replace("min_samples = 8", "min_samples = 2")
    compiled = compile_query(text.replace("min_rise = 25", "min_rise = 2"), SCHEMA)
    engine = Engine([compiled], SCHEMA)
    rows = sorted([*engine.process(events, 50), *engine.finish()], key=said)
    expected = sorted([row for one in by_task(events) for row in reference_output(compiled.resolved, one)], key=said)
    assert [said(row) for row in rows] == [said(row) for row in expected]
    assert [row.confidence for row in rows] == pytest.approx([float(row.confidence) for row in expected], abs=1e-12)
    assert rows
