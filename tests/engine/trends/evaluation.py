"""Trend queries through the engine, in any pieces, and their rows as they are compared."""

from __future__ import annotations

from typing import Any

import pytest

from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, EventBatch, EventSchema
from engine.matching.output.rows import MatchRow
from engine.reference import reference_output
from engine.runtime.engine import Engine
from engine.trends import intake, memory, runtime
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase


def evaluated(
    query: CompiledQuery, batch: EventBatch, schema: EventSchema, cuts: tuple[int, ...] = (), *, restarts: bool = False
) -> list[MatchRow]:
    """The rows of a stream that comes in parts, each before a watermark; after each the state is saved and restored."""
    running = Engine([query], schema)
    rows: list[MatchRow] = []
    for before, watermark_ms in zip((-(2**40), *cuts), (*cuts, FOREVER_MS), strict=True):
        part = batch.where((batch.t_lo_ms >= before) & (batch.t_lo_ms < watermark_ms))
        rows += running.process(part, watermark_ms)
        if restarts:
            state = running.save()
            running = Engine([query], schema)
            assert running.restore(state) == frozenset()
    return rows


def shown(rows: Any) -> list[tuple[Any, ...]]:
    """Windows, groups and values, these up to what doubles round."""
    return [(row.window, row.key, {k: _close(v) for k, v in row.values.items()}) for row in rows]


def _close(value: Any) -> Any:
    return pytest.approx(value, rel=1e-10) if isinstance(value, float) else value


def check(query: CompiledQuery, case: TrendCase) -> None:
    """Against the oracle: as a whole, in pieces with restarts, and with an index for everything."""
    expected = shown(reference_output(query.resolved, case.stream))
    assert shown(evaluated(query, case.stream, SCHEMA)) == expected
    assert shown(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "LEAST_INDEXED", 0)
        patch.setattr(memory, "WAITING_PER_ROOT", 0.0)
        patch.setattr(runtime, "LEAST_FORGOTTEN", 0)
        patch.setattr(runtime, "RESULTS", 1)
        patch.setattr(intake, "PAIRS", 1)
        assert shown(evaluated(query, case.stream, SCHEMA)) == expected
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == expected
        patch.setattr(memory, "WAITING_PER_ROOT", 1.0)  # some events wait behind an index
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts)) == expected


__all__ = ["check", "evaluated", "shown"]
