"""Generated queries: the oracle, the live engine, the Spark batch and the Spark stream return the same matches.

All of them run in one stream, over files in which events stand in any order, come twice or come too late. `make
live-spark` also kills the stream's process with -9 in the middle (`tests/live/test_ended_jobs.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import engine
from app.config import load_settings
from app.store.api import open_store
from engine.events import EventBatch
from spark_jobs.divide import Sizes
from spark_jobs.query.few_events import find
from spark_jobs.query.job import rows_of
from spark_jobs.query.rows import RequestedQuery, plan_rows
from spark_jobs.stream.alerts import Written
from spark_jobs.stream.plan import stream_plan
from tests.engine.matching.pairs.test_against_oracle import TOLERANCE, comparable
from tests.spark_jobs.generated_stream import (
    APART_MS,
    N_CASES,
    WIDE,
    Own,
    drawn,
    generated_job,
    stored,
    write_input,
)
from tests.spark_jobs.parity import engine_rows, of_columns, of_engine
from tests.spark_jobs.stream_fixtures import ROOT

NAME = "stream"
"""Of the checkpoint and the store."""

N_APART = int(os.environ.get("CLUSTERCEP_BATCH_PARITY", "4"))
"""1: the batch evaluates every query."""


@pytest.fixture(scope="module")
def several() -> list[Own]:
    return drawn()


@pytest.fixture(scope="module")
def live(several: list[Own]) -> dict[str, list[engine.MatchRow]]:
    return {own.name: engine_rows(own.query, own.stream) for own in several}


def in_any_order(row: engine.MatchRow | engine.ReferenceRow, merged: bool) -> tuple[object, ...]:
    """Of a union of patterns the variables with candidates stand in any order."""
    *rest, candidates, shown = comparable(row, merged)
    return (*rest, candidates if candidates is None else sorted(candidates), shown)  # type: ignore[call-overload]


def test_the_live_engine_and_the_oracle(several: list[Own], live: dict[str, list[engine.MatchRow]]) -> None:
    for own in several:
        query = own.query
        merged = query.plan.output.value in ("SETS", "COLLAPSED", "COUNT")
        ours = sorted(((in_any_order(row, merged), row.confidence) for row in live[own.name]), key=repr)
        exact = engine.reference_output(query.resolved, own.stream)
        theirs = sorted(((in_any_order(row, merged), float(row.confidence)) for row in exact), key=repr)
        assert [row for row, _ in ours] == [row for row, _ in theirs], own.text
        assert [c for _, c in ours] == pytest.approx([c for _, c in theirs], abs=TOLERANCE), own.text


def test_the_batch(spark: SparkSession, several: list[Own], live: dict[str, list[engine.MatchRow]]) -> None:
    """Over all events, of which each query reads its own, in any order and several partitions; some of the queries:
    each takes several jobs."""
    together = EventBatch.concat([own.stream for own in several])
    shuffled = together.take(np.random.default_rng(3).permutation(len(together)))
    events = spark.createDataFrame(stored(shuffled, WIDE)).repartition(3).cache()
    for number, own in enumerate(several[::N_APART]):
        requested = RequestedQuery(own.name, {own.name: own.text}, WIDE)
        query = requested.compiled()
        one_piece = not query.distribution.keys and not query.distribution.sliceable
        planned = plan_rows(events, requested, Sizes(1 + number % 4, 1, 1 + number % 5), one_piece=one_piece, n_cores=2)
        assert list(of_columns(rows_of(planned, in_order=False))) == of_engine(query, live[own.name]), own.text


def test_few_events_in_one_process(several: list[Own], live: dict[str, list[engine.MatchRow]]) -> None:
    for number, own in enumerate(several):
        query = own.query
        one_piece = not query.distribution.keys and not query.distribution.sliceable
        order = np.random.default_rng(number).permutation(len(own.stream))
        found = find(
            stored(own.stream.take(order), WIDE),
            RequestedQuery(own.name, {own.name: own.text}, WIDE),
            one_piece=one_piece,
        )
        assert found is not None
        assert list(of_columns(rows_of(found, in_order=bool(number % 2)))) == of_engine(query, live[own.name]), own.text


def test_the_stream(
    spark: SparkSession, several: list[Own], live: dict[str, list[engine.MatchRow]], tmp_path: Path
) -> None:
    late = write_input(tmp_path, several, seed=5)
    told = compare_stream(spark, several, live, tmp_path, late)
    assert not any(written.is_repeated for written in told)


def compare_stream(
    spark: SparkSession,
    several: list[Own],
    live: dict[str, list[engine.MatchRow]],
    folder: Path,
    late: list[dict[str, Any]],
    before: Sequence[engine.MatchRow] = (),
) -> list[Written]:
    """Run the stream over the input of `folder` to its end, from where its checkpoint stands; returns what it told.

    `before`: what a process told that was killed, up to the last micro-batch that is not made once more.
    """
    told: list[Written] = []
    with open_store(f"sqlite:///{folder / NAME}.db") as store:
        job = generated_job(folder, NAME, store, after=told.append)
        job.start(spark).awaitTermination()
        job.heartbeat((N_CASES + 10) * APART_MS)
        job.start(spark).awaitTermination()
        counted = Counter({row.type: row.value for row in store.statistics() if row.name == "matches"})
        late_ids = {event.event_id for event in store.late_events()}

    rows = [*before, *(row for written in told for row in written.batch.matches)]
    for own in several:
        found = of_engine(own.query, [row for row in rows if row.query == own.name])
        assert found == of_engine(own.query, live[own.name]), own.text
        assert counted[own.name] == sum(row.count for row in live[own.name]), "each counted once, too"
    assert late_ids == {event["event_id"] for event in late if is_read(event, job.queries)}
    assert late_ids
    return told


def is_read(event: dict[str, Any], queries: Any) -> bool:
    """Whether a bucket gets the event."""
    routes = stream_plan(queries, load_settings(ROOT / "config.yaml", {}), 3, WIDE).routes
    return any(
        event["type"] in route.broadcast
        or (event["type"] in route.keyed and all(event[name] is not None for name in route.key))
        for route in routes
    )
