"""What parsing gives, as one table: events, the histories they are of, problems, and what became of each file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType

from collectors.base import Problem
from engine.events import EventBatch
from spark_jobs.event_store.schema import EVENTS, rows_with_source, to_arrow_schema

EVENT, HISTORY, PROBLEM, FILE = "event", "history", "problem", "file"
COARSER = "coarser"

_NOTES: Mapping[str, pa.DataType] = {
    "part": pa.string(),
    "history_id": pa.int64(),
    "place": pa.string(),
    "kind": pa.string(),
    "message": pa.string(),
    "n_bytes": pa.int64(),
    "n_events": pa.int64(),
    "note": pa.string(),
}
"""part: which of the four a row is.
history_id: the history that an event is of; 0: none.
place, kind, message: of a problem; of a file its URL, its kind and why it was skipped (null: read); of a history its
file, "finished" or "unfinished", and the digest of its content; kind of an event: COARSER for a sample out of another
archive than its file's finest, from which no load is derived; else null.
note: why a file that was read gave no event.
"""

PARSED: StructType = StructType(
    [StructField(field.name, field.dataType, True) for field in EVENTS]
    + [StructField(name, StringType() if pa.types.is_string(kind) else LongType()) for name, kind in _NOTES.items()]
)


@cache
def parsed_schema() -> pa.Schema:
    """PARSED as Arrow has it."""
    fields = [field.with_nullable(True) for field in to_arrow_schema()]
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in _NOTES.items())])


def history_id_of(place: str, number: int) -> int:
    """Number of a history: the same wherever it is computed, never 0."""
    digest = blake2b(f"{number}:{place}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def event_rows(events: EventBatch, source: str, history_id: int = 0, coarser_than_ms: int | None = None) -> pa.Table:
    """Rows of events, without the columns that none of them has: see `whole_rows`.

    coarser_than_ms: samples of a larger resolution_ms are COARSER.

    Raises ValueError when an event has an attribute that no collector's type has.
    """
    narrow, n = rows_with_source(events, source), len(events)
    notes = {"part": pa.repeat(EVENT, n), "history_id": pa.repeat(history_id, n)}
    if coarser_than_ms is not None and n:
        is_coarser = events.numbers("resolution_ms") > coarser_than_ms
        notes["kind"] = pc.if_else(pa.array(is_coarser), COARSER, pa.scalar(None, pa.string()))
    for name, values in notes.items():
        narrow = narrow.append_column(pa.field(name, values.type), values)
    return narrow


def whole_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of several tables as one of PARSED, in one piece; absent columns are null.

    Most columns are null in most rows: they are made once for many files.
    """
    together = pa.concat_tables([table for table in tables if table.num_rows] or tables, promote_options="default")
    present = set(together.column_names)
    columns = [
        together.column(field.name).combine_chunks() if field.name in present else pa.nulls(len(together), field.type)
        for field in parsed_schema()
    ]
    return pa.Table.from_arrays(columns, schema=parsed_schema())


def problem_rows(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Rows of problems, for `note_rows`."""
    return [
        {"part": PROBLEM, "source": p.source, "place": p.place, "kind": p.kind, "message": p.message} for p in problems
    ]


def history_row(
    source: str, place: str, history_id: int, job_id: str, digest: str, n_events: int, *, finished: bool
) -> dict[str, Any]:
    """The row that says what a history is, for `note_rows`."""
    return {
        "part": HISTORY, "source": source, "place": place, "history_id": history_id, "job_id": job_id,
        "message": digest, "n_events": n_events, "kind": "finished" if finished else "unfinished",
    }  # fmt: skip


def file_row(
    place: str,
    kind: str | None,
    n_bytes: int,
    n_events: int = 0,
    skipped: str | None = None,
    note: str | None = None,
) -> dict[str, Any]:
    """The row that says what became of a file, for `note_rows`."""
    return {
        "part": FILE, "place": place, "kind": kind, "n_bytes": n_bytes, "n_events": n_events, "message": skipped,
        "note": note,
    }  # fmt: skip


def note_rows(notes: list[dict[str, Any]]) -> pa.Table:
    """Rows that are no events, without the columns that none of them has."""
    present = [field for field in parsed_schema() if any(field.name in note for note in notes)]
    columns = [pa.array([note.get(field.name) for note in notes], field.type) for field in present]
    return pa.Table.from_arrays(columns, schema=pa.schema(present))


def renamed(events: EventBatch, names: Mapping[str, str]) -> EventBatch:
    """Events whose origins name files by where they came from: each of `names` -> its address."""
    table = events.table
    origins = table.column("origin")
    for name, address in names.items():
        origins = pc.replace_substring(origins, name, address)
    return EventBatch(table.set_column(table.column_names.index("origin"), "origin", origins))
