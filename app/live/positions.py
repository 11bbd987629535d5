"""Read positions on their way into a checkpoint and back: what is JSON, and the tables in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from collectors.base import Lasting

TABLE = "arrow_table__"
"""Stands in the JSON for a table, with its name. No collector's mapping has such a key."""
MAX_DEPTH = 4
"""Tables are at most so many mappings deep: what is further down is JSON alone and not looked through."""


@dataclass
class TakenApart:
    """Read positions by source."""

    json: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    """By the way to them."""
    lasting: dict[str, pa.Table] = field(default_factory=dict)
    """Those that are the same objects until they change."""


def take_apart(positions: Mapping[str, Mapping[str, Any]]) -> TakenApart:
    """Positions as collectors give them."""
    taken = TakenApart()
    taken.json = {
        source: _json(position, f"position/{source}", taken, MAX_DEPTH) for source, position in positions.items()
    }
    return taken


def put_together(positions: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Positions as collectors take them; raises KeyError for a table that is not there."""
    return {source: _whole(position, tables, MAX_DEPTH) for source, position in positions.items()}


def _json(value: Any, way: str, taken: TakenApart, depth: int) -> Any:
    if isinstance(value, Lasting):
        taken.lasting[way] = value.table
        return {TABLE: way}
    if isinstance(value, pa.Table):
        taken.tables[way] = value
        return {TABLE: way}
    if depth == 0 or not isinstance(value, Mapping):
        return value
    return {name: _json(inner, f"{way}/{name}", taken, depth - 1) for name, inner in value.items()}


def _whole(value: Any, tables: Mapping[str, pa.Table], depth: int) -> Any:
    if not isinstance(value, Mapping):
        return value
    if set(value) == {TABLE}:
        return tables[value[TABLE]]
    if depth == 0:
        return value
    return {name: _whole(inner, tables, depth - 1) for name, inner in value.items()}


__all__ = ["TABLE", "TakenApart", "put_together", "take_apart"]
