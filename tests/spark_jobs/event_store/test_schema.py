"""The columns of stored events."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from collectors.schema import load_event_types
from engine.errors import EventError
from engine.events import HEADER, SKEW, EventBatch
from spark_jobs.event_store.schema import EVENTS, SOURCE, to_arrow_schema, to_batch, to_rows

ROWS = [
    {"event_id": "1", "type": "JobStart", "t_lo_ms": 5, "t_hi_ms": 5, "job_id": "job_1", "n_maps": 3, "weights": None},
    {"event_id": "2", "type": "Metric", "t_lo_ms": 7, "t_hi_ms": 9, "value": 0.5, "weights": [0.25, 0.5, 0.25]},
]


def batch() -> EventBatch:
    return EventBatch.from_rows(ROWS, load_event_types())


def test_every_attribute_of_every_type_has_one_column() -> None:
    named = [*HEADER.names, SKEW.name, *load_event_types().attributes, SOURCE]
    assert EVENTS.names == named
    assert to_arrow_schema().names == named


def test_spark_and_arrow_tell_the_same_types(spark: SparkSession) -> None:
    frame = spark.createDataFrame(to_rows(batch(), "job_history"))
    assert [(f.name, f.dataType) for f in frame.schema] == [(f.name, f.dataType) for f in EVENTS]


def test_events_come_back_as_they_were(spark: SparkSession) -> None:
    frame = spark.createDataFrame(to_rows(batch(), "job_history"), EVENTS)
    assert frame.schema == EVENTS
    back = to_batch(frame.orderBy("t_lo_ms").toArrow())
    assert back.table.select(batch().table.column_names).equals(batch().table)
    assert not back.has("host")  # no row has one


def test_an_attribute_of_no_type_is_refused() -> None:
    table = batch().table.append_column("colour", pa.array(["red", "blue"]))
    with pytest.raises(ValueError, match=r"colour.*events\.csv"):
        to_rows(EventBatch(table), None)


def test_a_header_without_a_value_is_refused() -> None:
    rows = to_rows(batch(), None)
    place = rows.column_names.index("t_hi_ms")
    with pytest.raises(EventError, match="row 1: t_hi_ms is missing"):
        to_batch(rows.set_column(place, "t_hi_ms", pa.array([5, None], pa.int64())))
