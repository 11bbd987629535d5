"""LIMIT and TOP over the buckets of a stream: the rows of one engine, whatever the micro-batches. No JVM."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import engine
from app.config import load_settings
from app.queries.loading import Loaded, load_queries
from app.settings import Queries
from collectors.schema import load_event_types
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.stream.alerts import Batch
from spark_jobs.stream.bucket import Bucket, status_content
from spark_jobs.stream.groups import Group
from spark_jobs.stream.plan import stream_plan
from spark_jobs.stream.processor import output_as_rows
from spark_jobs.stream.rows import TOLD

SCHEMA = load_event_types()
SETTINGS = load_settings(Path(__file__).parents[3] / "config.yaml", {})
N_BUCKETS = 3

PRECISE = "PATTERN SEQ(JobStart a, JobEnd b) WHERE skip_till_next_match { [job_id] } WITHIN 30 ms SLIDE 20 ms"
POSSIBLE = "PATTERN SEQ(JobStart a, JobEnd b) WHERE skip_till_any_match { [job_id] } WITHIN 30 ms SLIDE 30 ms"
NEVER = "PATTERN SEQ(JobStart a, JobEnd b, !NodeLost n) WHERE skip_till_any_match { [job_id] } WITHIN 30 ms SLIDE 20 ms"


def stream(seed: int, *, imprecise: bool) -> EventBatch:
    """Jobs that start and end side by side, some at one time."""
    chance = np.random.default_rng(seed)
    rows = []
    for n in range(60):
        lo_ms = int(chance.integers(0, 400))
        hi_ms = lo_ms + (int(chance.integers(0, 9)) if imprecise else 0)
        kind = ("JobStart", "JobEnd", "JobEnd", "NodeLost")[int(chance.choice(4, p=[0.4, 0.3, 0.25, 0.05]))]
        job = {} if kind == "NodeLost" else {"job_id": f"job_{int(chance.integers(0, 5))}"}
        rows.append({"event_id": f"e{n}", "type": kind, "t_lo_ms": lo_ms, "t_hi_ms": hi_ms, "source_seq": n, **job})
    return EventBatch.from_rows(rows, SCHEMA)


def told(group: Group, loaded: Loaded, events: EventBatch, step_ms: int) -> Iterator[Batch]:
    """What the driver writes, micro-batch by micro-batch; after the events the watermark goes on."""
    options = stream_plan(loaded, SETTINGS, N_BUCKETS).options
    buckets = [Bucket(group, options, number) for number in range(group.route.n_buckets)]
    limited = {of.name: of for of in group.limited}
    table = events.table.append_column(SOURCE, pa.array(["rest"] * len(events), pa.string()))
    jobs = table.column("job_id").to_pylist()
    owner = [None if job is None else zlib.crc32(job.encode()) % len(buckets) for job in jobs]
    for watermark_ms in range(0, 700, step_ms):
        inside = (events.t_lo_ms >= watermark_ms) & (events.t_lo_ms < watermark_ms + step_ms)
        rows = []
        for number, bucket in enumerate(buckets):
            mine = inside & np.array([of is None or of == number for of in owner])
            found = bucket.step([table.filter(pa.array(mine))], watermark_ms)
            saved, buckets[number] = bucket.save(), Bucket(group, options, number)
            buckets[number].restore(saved)
            rows += [row.asDict() for row in output_as_rows(found, group.name, number, status_content(found))]
        yield Batch.of(pa.Table.from_pylist([{name: row[name] for name in TOLD.names} for row in rows]), limited)


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("step_ms", [7, 50, 300])
@pytest.mark.parametrize("clause", ["LIMIT 2", "OUTPUT TOP 2 BY CONFIDENCE"])
@pytest.mark.parametrize(("text", "imprecise"), [(PRECISE, False), (POSSIBLE, True), (NEVER, True)])
def test_the_driver_counts_over_all_buckets(
    tmp_path: Path, text: str, clause: str, step_ms: int, *, imprecise: bool
) -> None:
    (tmp_path / "few.cep").write_text(f"{text}\n{clause}\nREPORT 'x'")
    (tmp_path / "RUNBOOK.md").write_text("## few\n\nx\n")
    loaded = load_queries(Queries(directory=tmp_path), 60_000)
    assert not loaded.problems
    (group,) = stream_plan(loaded, SETTINGS, N_BUCKETS).groups
    assert group.route.n_buckets == N_BUCKETS
    events = stream(step_ms, imprecise=imprecise)
    running = engine.Engine(loaded.compiled, SCHEMA)
    expected = [*running.process(events, FOREVER_MS), *running.finish()]
    assert len({row.key for row in expected}) > 2
    batches = list(told(group, loaded, events, step_ms))
    found = [row for batch in batches for row in batch.matches]
    counters = sum((batch.counters for batch in batches), start=type(batches[0].counters)())
    assert counters["rows", "live", "few"] == len(expected)
    assert counters["limited", "live", "few"] == running.statistics["few"].n_limited

    def comparable(row: engine.MatchRow) -> tuple[object, ...]:
        return row.window, row.event_ids, round(row.confidence, 9), row.capped

    assert sorted(map(comparable, found), key=repr) == sorted(map(comparable, expected), key=repr)
