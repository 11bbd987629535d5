"""Rows of a query as every way to evaluate it gives them, in one form that compares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import engine
from app.commands.match.output import as_json, json_text
from engine import CompiledQuery, Engine
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.match_rows import json_line

Row = tuple[object, ...]


def engine_rows(query: CompiledQuery, stream: EventBatch) -> list[engine.MatchRow]:
    """The live engine's rows of a query over a whole stream."""
    limits = engine.Limits(
        possibilities=query.resolved.query.output in (engine.ast.Output.COLLAPSED, engine.ast.Output.COUNT)
    )
    running = Engine(query.chain, query.resolved.schema, limits=limits)
    rows = [*running.process(stream, FOREVER_MS), *running.finish()]
    return [row for row in rows if row.query == query.name]


def of_engine(query: CompiledQuery, rows: Iterable[engine.MatchRow]) -> list[Row]:
    """The engine's rows: id, key, times, and what is printed."""
    return sorted(
        (
            (
                engine.match_id(query.name, query.hash, row.key, row.window, {} if row.is_of_trends else row.bindings),
                json_text(dict(row.key)),
                int(row.first_lo_ms),
                int(row.last_hi_ms),
                _rounded(json.loads(json_text(as_json(row)))),
            )
            for row in rows
        ),
        key=repr,
    )


def of_columns(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Rows as columns, in the same form."""
    return of_dicts(row for batch in batches for row in batch.to_pylist())


def of_dicts(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The same of rows as mappings."""
    return sorted(
        (
            (row["match_id"], row["key"], row["first_ms"], row["last_ms"], _rounded(json.loads(json_line(row))))
            for row in rows
        ),
        key=repr,
    )


def _rounded(value: Any) -> str:
    """JSON text with numbers as exact as sums in another order agree."""
    return json.dumps(_numbers(value))


def _numbers(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9) + 0.0
    if isinstance(value, Mapping):
        return {name: _numbers(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_numbers(each) for each in value]
    return value
