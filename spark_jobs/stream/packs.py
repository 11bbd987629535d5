"""From event rows to packs: all events of one bucket in a part of the input, as one row with Arrow IPC bytes.

The bucket of an event is computed by Spark, from the values of its key; packs are made by whole columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from spark_jobs.buckets import bucket
from spark_jobs.event_store.schema import SOURCE, to_batch
from spark_jobs.stream.groups import Route

GROUP, BUCKET = "bucket_group", "bucket"

MALFORMED = "__malformed"
"""Column beside an event's own: what is wrong with a record that is no event."""

PACKS = StructType(
    [
        StructField(GROUP, StringType(), False),
        StructField(BUCKET, IntegerType(), False),
        StructField("pack", BinaryType(), False),
    ]
)

NO_EVENTS = "no events"
"""Group of the packs that tell of records that are no events, as JSON."""

EVENT_TIME = "__event_time"
"""Column of the time that moves the watermark."""

_EVERY, _NOWHERE = -1, -2
"""Bucket of an event that goes to all of a group's buckets, and of one that the group does not take."""

_N_SHOWN = 3


def packed(events: DataFrame, routes: Sequence[Route]) -> DataFrame:
    """Packs (GROUP, BUCKET, pack) of event rows; an event that no group takes is in none.

    `events`: columns of the store's events, MALFORMED and EVENT_TIME. A pack has the header
    columns, `source`, and the columns of which one of its events has a value. Records that are no events are counted in
    packs of the group NO_EVENTS.
    """
    names = [name for name in events.columns if name not in (MALFORMED, EVENT_TIME)]
    places = [_place(route).alias(_column(at)) for at, route in enumerate(routes)]
    numbers = tuple(route.n_buckets for route in routes)
    groups = tuple(route.group for route in routes)

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _packs(batches, groups, numbers)

    taken = sorted(frozenset().union(*(route.keyed | route.broadcast for route in routes)))
    # What no group takes stays in the JVM, but only after the watermark has seen it: a condition that names the event
    # time is not moved before that.
    is_taken = sf.col("type").isin(taken) | sf.col(MALFORMED).isNotNull() | sf.col(EVENT_TIME).isNull()
    return events.where(is_taken).select(*names, MALFORMED, *places).mapInArrow(pack, PACKS)


def _place(route: Route) -> Column:
    """The number of the bucket, _EVERY, or null for an event that the group does not take."""
    place = sf.when(sf.col(MALFORMED).isNotNull(), sf.lit(_NOWHERE))
    place = place.when(sf.col("type").isin(sorted(route.broadcast)), sf.lit(_EVERY))
    if not route.keyed:
        return place
    keyed = sf.col("type").isin(sorted(route.keyed))
    for name in route.key:  # without a value it is in no match
        keyed = keyed & sf.col(name).isNotNull()
    return place.when(keyed, bucket(route.key, route.n_buckets))


def _packs(
    batches: Iterable[pa.RecordBatch], groups: Sequence[str], numbers: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        yield from _of_malformed(table.column(MALFORMED).drop_null())
        events = table.drop_columns([MALFORMED, *(_column(at) for at in range(len(groups)))])
        for at, (group, n_buckets) in enumerate(zip(groups, numbers, strict=True)):
            places = table.column(_column(at)).fill_null(_NOWHERE).to_numpy()
            yield from _of_group(events, np.asarray(places), group, n_buckets)


def _of_group(events: pa.Table, places: npt.NDArray[np.int64], group: str, n_buckets: int) -> Iterator[pa.RecordBatch]:
    order = np.argsort(places, kind="stable")
    values, starts = np.unique(places[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for value, start, end in zip(values.tolist(), starts.tolist(), ends, strict=True):
        if value == _NOWHERE:
            continue
        data = _pack(events.take(pa.array(order[start:end])))
        goes_to = range(n_buckets) if value == _EVERY else (value,)
        for number in goes_to:
            yield _row(group, number, data)


def _of_malformed(found: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    if len(found):
        told = {"n": len(found), "first": found.slice(0, _N_SHOWN).to_pylist()}
        yield _row(NO_EVENTS, 0, json.dumps(told).encode())


def _row(group: str, number: int, pack: bytes) -> pa.RecordBatch:
    columns = [pa.array([group]), pa.array([number], pa.int32()), pa.array([pack], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=PACKS.names)


def _pack(events: pa.Table) -> bytes:
    kept = to_batch(events).table.append_column(SOURCE, events.column(SOURCE)).combine_chunks()
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, kept.schema) as writer:
        writer.write_table(kept)
    return bytes(sink.getvalue().to_pybytes())


def _column(at: int) -> str:
    return f"__bucket_{at}"


__all__ = ["BUCKET", "EVENT_TIME", "GROUP", "MALFORMED", "NO_EVENTS", "PACKS", "packed"]
