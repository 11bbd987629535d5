"""The columns of stored events: one schema for all event types, in Spark and in Arrow."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from collectors.schema import load_event_types
from engine.events import HEADER, SKEW, AttributeType, EventBatch, EventSchema

SOURCE = "source"
"""Name of the collector that an event came from (job_history, container_log, ...); null: not known."""

_OF_ARROW: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.list_(pa.float64()): ArrayType(DoubleType()),
}
_OF_ATTRIBUTE = {
    AttributeType.INT: LongType(),
    AttributeType.FLOAT: DoubleType(),
    AttributeType.STRING: StringType(),
}


def columns_of(types: EventSchema) -> StructType:
    """Of events of these types."""
    header = [StructField(field.name, _OF_ARROW[field.type], field.nullable) for field in (*HEADER, SKEW)]
    attributes = [StructField(name, _OF_ATTRIBUTE[kind], True) for name, kind in types.attributes.items()]
    return StructType([*header, *attributes, StructField(SOURCE, StringType(), True)])


EVENTS: StructType = columns_of(load_event_types())
"""The header in order, `skew_ms`, the attributes of all event types (absent: null), then `source`."""

COLUMNS = {field.name: field.dataType.simpleString() for field in EVENTS}
"""Their names and types, as commits tell them."""

NEEDED: tuple[str, ...] = tuple(field.name for field in HEADER if not field.nullable)
"""Columns that every event has a value of."""

ORDER: tuple[str, ...] = ("t_lo_ms", "source_rank", "source_seq", "event_id")
"""Stream order, as EventBatch.sorted has it."""


@cache
def to_arrow_schema() -> pa.Schema:
    """EVENTS as Arrow has it: what functions on Arrow batches take and return."""
    attributes = [pa.field(name, kind.arrow) for name, kind in load_event_types().attributes.items()]
    return pa.schema([*HEADER, SKEW, *attributes, pa.field(SOURCE, pa.string())])


def to_rows(batch: EventBatch, source: str | None) -> pa.Table:
    """The events as rows of EVENTS; raises ValueError when one has an attribute that no collector's type has."""
    table, schema = rows_with_source(batch, source), to_arrow_schema()
    present = set(table.column_names)
    columns = [
        table.column(field.name) if field.name in present else pa.nulls(len(batch), field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_with_source(batch: EventBatch, source: str | None) -> pa.Table:
    """As `to_rows`, with the columns alone that the batch has, and SOURCE; all may be null."""
    table, schema = batch.table, to_arrow_schema()
    fields = {name: schema.field(name).with_nullable(True) for name in table.column_names if name in schema.names}
    if len(fields) < table.num_columns:
        unknown = sorted(set(table.column_names) - set(fields))
        raise ValueError(f"attributes {', '.join(unknown)} belong to no event type; add them to collectors/events.csv")
    columns = [table.column(name).cast(field.type) for name, field in fields.items()]
    sources = pa.repeat(pa.scalar(source, pa.string()), len(batch))
    return pa.Table.from_arrays(
        [*columns, sources], schema=pa.schema([*fields.values(), pa.field(SOURCE, pa.string())])
    )


def to_batch(rows: pa.Table) -> EventBatch:
    """Rows with at least the header's columns as a batch of the engine, without the attributes that no row has.

    Raises engine.errors.EventError when a needed value is null, KeyError when a column is missing.
    """
    plain = rows.replace_schema_metadata(None)
    for name in NEEDED:
        if plain.column(name).null_count:
            EventBatch(plain).validate()  # says which row
    fields = [HEADER.field(name) for name in HEADER.names]
    kept = [
        plain.schema.field(name).with_nullable(True)
        for name in plain.column_names
        if name not in HEADER.names and name != SOURCE and plain.column(name).null_count < plain.num_rows
    ]
    schema = pa.schema([*fields, *kept])
    return EventBatch(plain.select(schema.names).cast(schema))
