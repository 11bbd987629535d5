"""The rows of a query as columns, and back as `clustercep match` prints them.

Bindings, values and keys are JSON texts: their fields depend on the query, those of a table may not. What an operator
sorts, filters or joins by stands in columns of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

import engine
from app.commands.match.output import as_json, json_text, printable

_MOST = 2**63 - 1
_SHOWN_APART = frozenset({"bindings", "confidence", "values", "window_start", "window_end"})

MATCH_ROWS = StructType(
    [
        StructField("match_id", StringType(), nullable=False),  # see engine.match_id
        StructField("query", StringType(), nullable=False),
        StructField("key", StringType(), nullable=False),  # JSON object, {} without a key
        StructField("window_start_ms", LongType()),
        StructField("window_end_ms", LongType()),
        StructField("first_ms", LongType(), nullable=False),  # earliest possible time of the first event
        StructField("last_ms", LongType(), nullable=False),  # latest possible time of the last one
        StructField("confidence", DoubleType(), nullable=False),
        StructField("at_least_one_low", DoubleType(), nullable=False),  # P(at least one of the matches of the row)
        StructField("at_least_one_high", DoubleType(), nullable=False),
        StructField("count", LongType(), nullable=False),  # at most 2^63 - 1; `more` has the number itself
        StructField("count_exact", BooleanType(), nullable=False),
        StructField("bindings", StringType(), nullable=False),  # JSON object: ids by variable
        StructField("values", StringType(), nullable=False),  # JSON object: RETURN
        StructField("more", StringType()),  # further fields of the printed object, JSON without its braces
    ]
)
"""The columns of rows."""

PLACE = "place"
"""A column of rows that come from parts: JSON of `engine.output_order`, where LIMIT or TOP counts over all of them."""

PLACED_ROWS = StructType([*MATCH_ROWS, StructField(PLACE, StringType())])
"""The columns of rows from parts."""

_OF_SPARK: dict[DataType, pa.DataType] = {
    StringType(): pa.string(),
    LongType(): pa.int64(),
    DoubleType(): pa.float64(),
    BooleanType(): pa.bool_(),
}
ARROW_MATCH_ROWS = pa.schema([pa.field(field.name, _OF_SPARK[field.dataType], field.nullable) for field in MATCH_ROWS])
"""The same for Arrow."""

ARROW_PLACED_ROWS = ARROW_MATCH_ROWS.append(pa.field(PLACE, pa.string()))


@dataclass(frozen=True)
class Source:
    """The query that rows are of: its name, and the hash that tells its meaning (`CompiledQuery.hash`)."""

    name: str
    hash: str


def rows_batch(rows: Sequence[engine.MatchRow], source: Source) -> pa.RecordBatch:
    """Rows as columns (ARROW_PLACED_ROWS), in their order."""
    columns: dict[str, list[Any]] = {name: [] for name in ARROW_PLACED_ROWS.names}
    for row in rows:
        for name, value in _cells(row, source).items():
            columns[name].append(value)
    arrays = [pa.array(columns[field.name], field.type) for field in ARROW_PLACED_ROWS]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_PLACED_ROWS)


def _cells(row: engine.MatchRow, source: Source) -> dict[str, Any]:
    printed = as_json(row)
    bindings = {} if row.is_of_trends else row.bindings  # else a sample, for whom is told of the row
    confidence = float(row.confidence)
    window_start_ms, window_end_ms = row.window or (None, None)
    more = {name: value for name, value in printed.items() if name not in _SHOWN_APART}
    return {
        "match_id": engine.match_id(source.name, source.hash, row.key, row.window, bindings),
        "query": source.name,
        "key": json_text({name: printable(value) for name, value in row.key}),
        "window_start_ms": window_start_ms,
        "window_end_ms": window_end_ms,
        "first_ms": int(row.first_lo_ms),
        "last_ms": int(row.last_hi_ms),
        "confidence": confidence,
        "at_least_one_low": printed.get("at_least_one_low", confidence),
        "at_least_one_high": printed.get("at_least_one_high", confidence),
        "count": min(int(row.count), _MOST),
        "count_exact": bool(row.count_exact),
        "bindings": _bindings_json(bindings),
        "values": json_text(printed["values"]),
        "more": json_text(more)[1:-1] if more else None,
        PLACE: None if row.position is None else json.dumps(engine.output_order(row)),
    }


def _bindings_json(bindings: Mapping[str, engine.Binding]) -> str:
    bound = (f"{json_text(variable)}: {engine.binding_json(ids)}" for variable, ids in bindings.items())
    return f"{{{', '.join(bound)}}}"


def json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """Each row of columns as the line that `clustercep match` prints."""
    for row in batch.to_pylist():
        yield json_line(row)


def json_line(row: Mapping[str, Any]) -> str:
    """One row of columns as that line."""
    start = ""
    if row["window_start_ms"] is not None:
        start = f'"window_start": {row["window_start_ms"]}, "window_end": {row["window_end_ms"]}, '
    if is_of_trends(row):
        more = json.loads(f"{{{row['more']}}}")
        group = json_text(more.pop("group"))
        rest = f", {json_text(more)[1:-1]}" if more else ""
        return f'{{{start}"group": {group}, "values": {row["values"]}{rest}}}'
    more = "" if row["more"] is None else f", {row['more']}"
    confidence = json.dumps(row["confidence"])
    return f'{{{start}"bindings": {row["bindings"]}, "confidence": {confidence}, "values": {row["values"]}{more}}}'


def is_of_trends(row: Mapping[str, Any]) -> bool:
    """Whether the row is about all trends of a window and group."""
    return row["more"] is not None and row["more"].startswith('"group": ')


def capped(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, saying that there are more that a limit has left out."""
    more = row["more"]
    if is_capped(row):
        return dict(row)
    return {**row, "more": '"capped": true' if more is None else f'{more}, "capped": true'}


def is_capped(row: Mapping[str, Any]) -> bool:
    """Whether the row says that a limit has left out others."""
    return row["more"] is not None and bool(json.loads(f"{{{row['more']}}}").get("capped"))


__all__ = [
    "ARROW_MATCH_ROWS",
    "ARROW_PLACED_ROWS",
    "MATCH_ROWS",
    "PLACE",
    "PLACED_ROWS",
    "Source",
    "capped",
    "is_capped",
    "is_of_trends",
    "json_line",
    "json_lines",
    "rows_batch",
]
