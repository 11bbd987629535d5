"""Whole Spark jobs against the live engine on the recording, however it is divided; generated queries: see
`test_stream_parity`."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from collectors.schema import load_event_types
from engine import parse
from engine.events import EventBatch, EventSchema
from spark_jobs.divide import Sizes
from spark_jobs.query.few_events import Found, find
from spark_jobs.query.job import rows_of
from spark_jobs.query.rows import Planned, RequestedQuery, plan_rows
from spark_jobs.session import SparkJobError
from tests.engine.strategies import SCHEMA
from tests.spark_jobs.generated_stream import stored
from tests.spark_jobs.parity import engine_rows, of_columns, of_engine
from tests.spark_jobs.recorded_events import recorded_events

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "queries", ROOT / "queries" / "papers")
CLUSTER = load_event_types()
PREDEFINED = {
    path.stem: path.read_text(encoding="utf-8") for folder in FOLDERS for path in sorted(folder.glob("*.cep"))
}
for literal in ("q5", "q6-option1", "q6-option2"):  # they list 2^n matches; the product's forms of them are there
    del PREDEFINED[literal]
for name, text in list(PREDEFINED.items()):  # incidents are over the matches of others, for the process that tells
    if (notice := parse(text, name).notice) is not None and notice.is_incident:
        del PREDEFINED[name]
SMALL = Sizes(events_per_part=50, least_events=20, heavy_events=60)
"""So that the recording is cut into several parts, and some of its keys further."""


LENGTH_MS = 240_000
"""Of the recording: more of it makes for very many matches of the papers' own queries."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> EventBatch:
    events = recorded_events(tmp_path_factory.mktemp("recording") / "recording")
    return events.where(events.t_lo_ms < int(events.t_lo_ms.min()) + LENGTH_MS)


@pytest.fixture(scope="module")
def shuffled(recording: EventBatch, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """The recording in any order, in several files."""
    order = list(range(len(recording)))
    random.Random(7).shuffle(order)
    folder = tmp_path_factory.mktemp("events") / "parquet"
    table = stored(EventBatch(recording.table.take(order)), CLUSTER)
    frame(spark, table).repartition(3).write.parquet(str(folder))
    return spark.read.parquet(str(folder))


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def found_by(planned: Planned | Found) -> list[object]:
    """All rows, LIMIT and TOP applied."""
    return list(of_columns(rows_of(planned, in_order=False)))


def shuffled_table(events: EventBatch, schema: EventSchema = CLUSTER) -> pa.Table:
    """The events in any order, as a store gives them to its reader."""
    return stored(events.take(np.random.default_rng(5).permutation(len(events))), schema)


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("name", PREDEFINED)
def test_predefined_queries_on_the_recording(name: str, recording: EventBatch, shuffled: DataFrame) -> None:
    requested = RequestedQuery(name, {name: PREDEFINED[name]}, CLUSTER)
    query = requested.compiled()
    expected = of_engine(query, engine_rows(query, recording.of_types(query.distribution.types)))
    planned = plan_rows(shuffled, requested, SMALL)
    assert found_by(planned) == expected
    assert planned.totals.n_rows == len(expected)
    here = find(shuffled_table(recording), requested)
    assert here is not None
    assert found_by(here) == expected
    assert (here.totals.n_rows, here.counted.n_imprecise) == (len(expected), planned.counted.n_imprecise)


def test_a_part_that_is_evaluated_again_counts_once(shuffled: DataFrame) -> None:
    name = "mapper-lifetimes"
    planned = plan_rows(shuffled, RequestedQuery(name, {name: PREDEFINED[name]}, CLUSTER), SMALL)
    ordered = planned.rows.orderBy("last_ms", "first_ms", "match_id").toArrow()  # Spark looks for limits first
    assert planned.totals.n_rows == ordered.num_rows > 0


def test_predefined_queries_find_something_there(recording: EventBatch) -> None:
    n_rows = 0
    for name, text in PREDEFINED.items():
        query = RequestedQuery(name, {name: text}, CLUSTER).compiled()
        n_rows += bool(engine_rows(query, recording.of_types(query.distribution.types)))
    assert n_rows >= 6


def test_a_heavy_key_is_cut_by_time(spark: SparkSession) -> None:
    rows = [
        {"event_id": f"e{n}", "type": "AB"[n % 2], "t_lo_ms": 10 * n, "source_seq": n, "k": "p" if n % 10 else "q"}
        for n in range(400)
    ]
    rows += [{"event_id": f"l{n}", "type": "L", "t_lo_ms": 40 * n + 5, "source_seq": 400 + n} for n in range(100)]
    stream = EventBatch.from_rows(rows, SCHEMA)
    text = "PATTERN SEQ(A a, L l, B b) WHERE skip_till_any_match { [k] } WITHIN 100 ms"
    requested = RequestedQuery("q", {"q": text}, SCHEMA)
    query = requested.compiled()
    planned = plan_rows(frame(spark, stored(stream, SCHEMA)), requested, Sizes(100, 20, 150), n_cores=2)
    (heavy,) = planned.division.heavy
    assert heavy.n_events == 360
    assert heavy.slices is not None
    assert heavy.slices.n > 1
    assert found_by(planned) == of_engine(query, engine_rows(query, stream))


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("clause", ["OUTPUT TOP 3 BY CONFIDENCE", "LIMIT 3", "LIMIT 50"])
@pytest.mark.parametrize("slide", ["", " SLIDE 15 ms"])
@pytest.mark.parametrize("key", ["[k]", "a.x <= b.x"])
def test_limit_and_top_count_over_all_parts(spark: SparkSession, key: str, slide: str, clause: str) -> None:
    rows = [
        {"event_id": f"e{n}", "type": "AB"[n % 2], "t_lo_ms": 10 * n, "t_hi_ms": 10 * n + n % 7 * 2, "source_seq": n}
        for n in range(60)
    ]
    stream = EventBatch.from_rows([{**row, "k": "pqrs"[n % 4 // 2], "x": 1} for n, row in enumerate(rows)], SCHEMA)
    text = f"PATTERN SEQ(A a, B b) WHERE skip_till_any_match {{ {key} }} WITHIN 15 ms{slide}\n{clause}"
    requested = RequestedQuery("q", {"q": text}, SCHEMA)
    expected = of_engine(requested.compiled(), engine_rows(requested.compiled(), stream))
    planned = plan_rows(frame(spark, stored(stream, SCHEMA)), requested, Sizes(10, 5, 1000), n_cores=3)
    assert planned.division.n_parts > 1
    assert found_by(planned) == expected
    here = find(shuffled_table(stream, SCHEMA), requested)
    assert here is not None
    assert found_by(here) == expected


def test_what_cannot_be_divided_is_refused_with_the_remedy(spark: SparkSession) -> None:
    stream = EventBatch.from_rows(
        [{"event_id": f"e{n}", "type": "AB"[n % 2], "t_lo_ms": n, "source_seq": n} for n in range(6)], SCHEMA
    )
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 3 ms OUTPUT NON_OVERLAPPING"
    requested = RequestedQuery("q", {"q": text}, SCHEMA)
    events = frame(spark, stored(stream, SCHEMA))
    with pytest.raises(SparkJobError, match=r"NON_OVERLAPPING a match depends on earlier ones.*--one-slice"):
        plan_rows(events, requested)
    planned = plan_rows(events, requested, one_piece=True)
    assert found_by(planned) == of_engine(requested.compiled(), engine_rows(requested.compiled(), stream))
