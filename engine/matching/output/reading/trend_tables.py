"""Rows of trend queries as Arrow tables of one schema."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from engine.events import AttributeType
from engine.language import ast
from engine.language.resolver import ResolvedQuery

LARGE = pa.struct([("decimal", pa.string()), ("value", pa.float64())])
"""A number of any size: all its digits, and the nearest double, NULL where it is beyond all of them."""


class TrendRow(Protocol):
    """What rows about trends, of the graph or the oracle's, have in common."""

    @property
    def key(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def values(self) -> Mapping[str, Any]: ...
    @property
    def exact(self) -> bool: ...
    @property
    def expected(self) -> str | None: ...
    @property
    def window(self) -> tuple[int, int] | None: ...


def trend_schema(resolved: ResolvedQuery) -> pa.Schema:
    """The columns of rows about trends.

    window_start_ms, window_end_ms: int64; group: struct of the attributes of GROUP BY, left out without one; values:
    struct of RETURN, in which counts, sums and what is calculated from aggregates are of any size (`LARGE`), left out
    without one; exact: no count and no sum of whole numbers has been rounded; expected: the text of an `Expectation`,
    NULL where no time leaves anything open.
    """
    attributes = resolved.schema.attributes
    group = [(name, attributes[name].arrow) for name in resolved.query.group_by]
    returned = zip(resolved.query.returns, resolved.return_types, strict=True)
    values = [(item.name, LARGE if _is_large(item, kind) else kind.arrow) for item, kind in returned]
    fields: list[tuple[str, pa.DataType]] = [("window_start_ms", pa.int64()), ("window_end_ms", pa.int64())]
    fields += [("group", pa.struct(group))] if group else []
    fields += [("values", pa.struct(values))] if values else []
    return pa.schema([*fields, ("exact", pa.bool_()), ("expected", pa.string())])


def _is_large(item: ast.ReturnItem, kind: AttributeType) -> bool:
    nodes = tuple(ast.walk(item.expression))
    requested = {node.function for node in nodes if isinstance(node, ast.TrendAggregate)}
    is_calculated = any(isinstance(node, ast.Arithmetic | ast.Negative) for node in nodes)
    return kind.is_number and bool(requested & {"count", "sum"} or is_calculated)


def trend_table(resolved: ResolvedQuery, rows: Sequence[TrendRow]) -> pa.Table:
    """The rows as a table of `trend_schema`."""
    schema = trend_schema(resolved)
    kinds = {field.name: field.type for field in schema.field("values").type} if "values" in schema.names else {}
    columns: dict[str, list[Any]] = {
        "window_start_ms": [None if row.window is None else row.window[0] for row in rows],
        "window_end_ms": [None if row.window is None else row.window[1] for row in rows],
        "group": [dict(row.key) for row in rows],
        "values": [{name: _as(value, kinds[name]) for name, value in row.values.items()} for row in rows],
        "exact": [row.exact for row in rows],
        "expected": [row.expected for row in rows],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _as(value: Any, kind: pa.DataType) -> Any:
    if value is None or kind != LARGE:
        return None if isinstance(value, float) and not math.isfinite(value) else value
    number = float(value)
    return {
        "decimal": value if isinstance(value, str) else repr(value) if math.isfinite(number) else None,
        "value": number if math.isfinite(number) else None,
    }


__all__ = ["LARGE", "trend_schema", "trend_table"]
