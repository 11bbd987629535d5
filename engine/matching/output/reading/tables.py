"""Rows of one query as Arrow tables of one schema, whatever rows there are: what files of them are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.matching.output.match_row import Binding
from engine.matching.output.reading.arrow import IDS
from engine.matching.output.reading.trend_tables import trend_schema, trend_table
from engine.matching.output.rows import MatchRows, RowBlock

_ROWS_AT_ONCE = 65_536
_OF_SEVERAL = frozenset({ast.Output.COLLAPSED, ast.Output.COUNT, ast.Output.SETS})


class Row(Protocol):
    """What rows of matches, compiled or the oracle's, have in common."""

    @property
    def key(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def first_lo_ms(self) -> int: ...
    @property
    def last_hi_ms(self) -> int: ...
    @property
    def bindings(self) -> Mapping[str, Any]: ...
    @property
    def confidence(self) -> Any: ...
    @property
    def values(self) -> Mapping[str, Any]: ...
    @property
    def count(self) -> int: ...
    @property
    def count_exact(self) -> bool: ...
    @property
    def candidates(self) -> Mapping[str, tuple[str, ...]] | None: ...
    @property
    def exact(self) -> bool: ...
    @property
    def capped(self) -> bool: ...
    @property
    def window(self) -> tuple[int, int] | None: ...
    @property
    def expected(self) -> str | None: ...


Sure = Callable[[Any], tuple[float, float] | None]


def rows_schema(resolved: ResolvedQuery) -> pa.Schema:
    """The columns of a query's rows.

    key: struct of the attributes of `[x]`, NULL where no event of a match has one. first_ms, last_ms: int64, when the
    first event begins and the last one ends. bindings: struct with the ids of each variable, a list, over a dictionary;
    of a variable in repeated groups nested by iteration, NULL where an iteration lacks it. confidence: float64. values:
    struct of RETURN. capped: there were more rows. What rows that stand for several matches have besides: count,
    count_exact, at_least_one_low and _high (NULL where `confidence` says it already), and candidates, exact for OUTPUT
    COLLAPSED; of a query with windows of its own window_start_ms and window_end_ms. Structs without a field are left
    out, as Parquet has none. Rows about trends: see `engine.matching.output.reading.trend_tables`.
    """
    if resolved.is_trend:
        return trend_schema(resolved)
    requested = resolved.query
    key = [(name, resolved.schema.attributes[name].arrow) for name in resolved.key]
    bound = [(v.name, _lists(len(v.list_path))) for v in resolved.variables.values() if not v.negated]
    returned = zip(requested.returns, resolved.return_types, strict=True)
    values = [(item.name, kind.arrow) for item, kind in returned]
    fields: list[tuple[str, pa.DataType]] = [
        ("key", pa.struct(key)),
        ("first_ms", pa.int64()),
        ("last_ms", pa.int64()),
        ("bindings", pa.struct(bound)),
        ("confidence", pa.float64()),
        ("values", pa.struct(values)),
        ("capped", pa.bool_()),
    ]
    if requested.output in _OF_SEVERAL:
        fields += [("count", pa.int64()), ("count_exact", pa.bool_())]
        fields += [("at_least_one_low", pa.float64()), ("at_least_one_high", pa.float64())]
    if requested.output is ast.Output.COLLAPSED:
        flat = [(name, _lists(0)) for name, _ in bound]
        fields += [("candidates", pa.struct(flat)), ("exact", pa.bool_())]
    if requested.slide_ms is not None or requested.open_on is not None:
        fields += [("window_start_ms", pa.int64()), ("window_end_ms", pa.int64())]
    return pa.schema([(name, kind) for name, kind in fields if not pa.types.is_struct(kind) or kind.num_fields])


def rows_tables(resolved: ResolvedQuery, rows: Sequence[Row], at_least_one: Sure) -> Iterator[pa.Table]:
    """The rows as tables of `rows_schema`, of bounded size where they are made one by one; none without rows.

    at_least_one: between which bounds it is how sure that one of the matches behind a row happened; None where the
    row's confidence says that.
    """
    if resolved.is_trend:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            yield trend_table(resolved, rows[start : start + _ROWS_AT_ONCE])
        return
    schema = rows_schema(resolved)
    if isinstance(rows, MatchRows):
        for part in rows.parts:
            yield from rows_tables(resolved, part, at_least_one)
        return
    if isinstance(rows, RowBlock) and rows.is_bulk:
        table = rows.to_arrow()
        if rows.is_columnar or pc.all(pc.equal(table.column("confidence"), 1.0)).as_py():
            yield _completed(table, schema)
            return
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield _one_by_one(rows[start : start + _ROWS_AT_ONCE], schema, at_least_one)


def _lists(depth: int) -> pa.DataType:
    kind = pa.list_(IDS)
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


_NAMES = {"first_ms": "first_lo_ms", "last_ms": "last_hi_ms"}
_USUAL: Mapping[str, Any] = {"capped": False, "count": 1, "count_exact": True, "exact": True}


def _completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A block's own table with what it leaves out, as all its rows have it alike."""
    columns = []
    for field in schema:
        name = _NAMES.get(field.name, field.name)
        if name in table.column_names:
            columns.append(_as(table.column(name).combine_chunks(), field.type))
        else:
            columns.append(pa.repeat(pa.scalar(_USUAL.get(name), field.type), table.num_rows))
    return pa.table(columns, schema=schema)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as one of this type; fields of a struct that it has not are NULL."""
    if not pa.types.is_struct(kind):
        return array.cast(kind)
    names = [field.name for field in array.type]
    own = [
        pc.struct_field(array, field.name).cast(field.type) if field.name in names else pa.nulls(len(array), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(own, fields=list(kind))


def _one_by_one(rows: Sequence[Row], schema: pa.Schema, at_least_one: Sure) -> pa.Table:
    def bound(of: Mapping[str, Binding] | None, kinds: pa.StructType) -> dict[str, Any] | None:
        return None if of is None else {k.name: _at_depth(of[k.name], k.type) for k in kinds if k.name in of}

    readers: dict[str, Callable[[Any], Any]] = {
        "key": lambda row: dict(row.key),
        "first_ms": lambda row: row.first_lo_ms,
        "last_ms": lambda row: row.last_hi_ms,
        "bindings": lambda row: bound(row.bindings, schema.field("bindings").type),
        "confidence": lambda row: float(row.confidence),
        "values": lambda row: {name: _finite(value) for name, value in row.values.items()},
        "candidates": lambda row: bound(row.candidates, schema.field("candidates").type),
        "window_start_ms": lambda row: None if row.window is None else row.window[0],
        "window_end_ms": lambda row: None if row.window is None else row.window[1],
    }
    found = list(rows)
    sure = [at_least_one(row) for row in found] if "at_least_one_low" in schema.names else []
    columns: dict[str, list[Any]] = {
        "at_least_one_low": [None if known is None else known[0] for known in sure],
        "at_least_one_high": [None if known is None else known[1] for known in sure],
    }
    for name in set(schema.names) - set(columns):
        of = readers.get(name, attrgetter(name))
        columns[name] = [of(row) for row in found]
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _at_depth(binding: Any, kind: pa.DataType) -> Any:
    """A binding as lists of this type: where an iteration has no event, None."""
    if not pa.types.is_list(kind):
        return binding or None
    return [_at_depth(each, kind.value_type) for each in binding]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


__all__ = ["rows_schema", "rows_tables"]
