"""Rows as JSON values and back, without loss: what is saved of them, and what travels between processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from engine.matching.output.match_row import Binding, EventPosition, Expectation, MatchRow, RowEnds
from engine.uncertainty.possibilities import Possibilities


def row_to_json(row: MatchRow) -> dict[str, Any]:
    """All of the row but the name of its query; `row_from_json` reads it."""
    return {
        "key": [list(part) for part in row.key],
        "first_lo_ms": row.first_lo_ms,
        "last_hi_ms": row.last_hi_ms,
        "bindings": [[name, ids] for name, ids in row.bindings.items()],
        "confidence": row.confidence,
        "values": [[name, value] for name, value in row.values.items()],
        "count": row.count,
        "count_exact": row.count_exact,
        "candidates": None if row.candidates is None else [[name, ids] for name, ids in row.candidates.items()],
        "exact": row.exact,
        "capped": row.capped,
        "window": row.window,
        "last_lo_ms": row.last_lo_ms,
        "n_events": row.n_events,
        "expected": None if row.expected is None else str(row.expected),
        "possible": None if row.possible is None else row.possible.to_json(),
        "ends": row.ends,
        "place": row.position,
    }


def row_from_json(query: str, found: Mapping[str, Any]) -> MatchRow:
    """The row of this query that `row_to_json` wrote."""
    candidates, window, possible = found["candidates"], found["window"], found["possible"]
    ends, position, expected = found.get("ends"), found.get("place"), found.get("expected")
    return MatchRow(
        query=query,
        key=tuple((name, value) for name, value in found["key"]),
        first_lo_ms=found["first_lo_ms"],
        last_hi_ms=found["last_hi_ms"],
        bindings={name: _binding(ids) for name, ids in found["bindings"]},
        confidence=found["confidence"],
        values=dict(found["values"]),
        count=found["count"],
        count_exact=found["count_exact"],
        candidates=None if candidates is None else {name: tuple(ids) for name, ids in candidates},
        exact=found["exact"],
        capped=found["capped"],
        window=None if window is None else (window[0], window[1]),
        last_lo_ms=found["last_lo_ms"],
        n_events=found.get("n_events"),
        expected=None if expected is None else Expectation(expected),
        possible=None if possible is None else Possibilities.from_json(possible),
        ends=None if ends is None else RowEnds(*ends),
        position=None if position is None else (_position(position[0]), _position(position[1])),
    )


def plain(value: Any) -> object:
    """For `json.dumps`: kernels that run uncompiled return NumPy's numbers."""
    return value.item()


def _position(saved: Iterable[Any]) -> EventPosition:
    lo_ms, rank, seq, event_id = saved
    return lo_ms, rank, seq, event_id


def _binding(ids: Iterable[Any]) -> Binding:
    return cast("Binding", tuple(entry if isinstance(entry, str) else _binding(entry) for entry in ids))


__all__ = ["plain", "row_from_json", "row_to_json"]
