"""MatchRow objects as an Arrow table; blocks that are columns already have ways of their own (`formed_rows`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.matching.output.match_row import Binding, MatchRow
from engine.matching.output.reading.arrow import encoded


def rows_table(rows: Sequence[MatchRow]) -> pa.Table:
    """Rows as an Arrow table: key, first_lo_ms, last_hi_ms, bindings, confidence, values, and what is not as usual.

    key, bindings and values are structs with a field per attribute, variable (ids as lists, nested as the binding is,
    over dictionaries; NULL where an iteration lacks its event) and RETURN item; they are typed by the rows. count,
    count_exact, candidates, exact, capped and window are columns when one of the rows has them.
    """
    columns: dict[str, list[object]] = {
        "key": [dict(row.key) for row in rows],
        "first_lo_ms": [row.first_lo_ms for row in rows],
        "last_hi_ms": [row.last_hi_ms for row in rows],
        "bindings": _as_lists([row.bindings for row in rows]),
        "confidence": [float(row.confidence) for row in rows],
        "values": [dict(row.values) for row in rows],
    }
    if any(row.count != 1 or not row.count_exact or row.candidates is not None for row in rows):
        columns["count"] = [row.count for row in rows]
        columns["count_exact"] = [row.count_exact for row in rows]
    if any(row.candidates is not None for row in rows):
        columns["candidates"] = [None if row.candidates is None else dict(row.candidates) for row in rows]
        columns["exact"] = [row.exact for row in rows]
    if any(row.capped for row in rows):
        columns["capped"] = [row.capped for row in rows]
    if any(row.window is not None for row in rows):
        columns["window_start_ms"] = [None if row.window is None else row.window[0] for row in rows]
        columns["window_end_ms"] = [None if row.window is None else row.window[1] for row in rows]
    table = pa.table(columns)
    for name in ("bindings", "candidates"):
        at = table.schema.get_field_index(name)
        if at >= 0:
            table = table.set_column(at, name, encoded(table.column(at)))
    return table


def _as_lists(bindings: Sequence[Mapping[str, Binding]]) -> list[object]:
    """Bindings whose ids are all equally deep: an absent event, () among ids, is None."""
    depths: dict[str, int] = {}
    for name, binding in (item for bound in bindings for item in bound.items()):
        depths[name] = max(depths.get(name, 0), _depth(binding))

    def leveled(binding: str | Binding, depth: int) -> object:
        return (binding or None) if depth == 0 else [leveled(each, depth - 1) for each in binding]

    return [
        {
            name: binding if depths[name] <= 1 and () not in binding else leveled(binding, depths[name])
            for name, binding in bound.items()
        }
        for bound in bindings
    ]


def _depth(binding: str | Binding) -> int:
    """How many lists are around its ids; 0 without any."""
    if isinstance(binding, str):
        return 0
    below = [_depth(each) for each in binding if each]
    return 1 + max(below) if below else 0


__all__ = ["rows_table"]
