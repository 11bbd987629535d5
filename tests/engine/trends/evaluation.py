"""Trend queries through the engine, in any pieces, and their rows as they are compared."""

from __future__ import annotations

from typing import Any

import pytest

from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, EventBatch, EventSchema
from engine.matching.output.row_json import row_from_json, row_to_json
from engine.matching.output.rows import Binding, MatchRow
from engine.reference import reference_output
from engine.reference.observed import observe
from engine.reference.trends import _Trends
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


Told = dict[tuple[object, object], tuple[dict[str, Binding], int | None]]


def told(rows: list[MatchRow]) -> Told:
    return {(row.window, row.key): (dict(row.bindings), row.n_events) for row in rows}


def check_events(query: CompiledQuery, case: TrendCase) -> None:
    """Of an alert's query over few events: those of whole trends are told, others only if a trend comes to them, and
    neither cuts nor restarts change that."""
    rows = evaluated(query, case.stream, SCHEMA)
    trends, events = _Trends(query.resolved), observe(case.stream, SCHEMA)
    for row in rows:
        assert row.window is not None
        inside = [event for event in events if row.window[0] < event.lo_ms <= row.window[1]]
        own = [reading for reading in trends.of(inside) if trends.group_of(reading) == row.key]
        shown = {event_id for ids in row.bindings.values() for event_id in ids}
        assert {event.event_id for reading in own for event, _ in reading} <= shown
        assert shown <= {event.event_id for event in inside}
        assert row.n_events is not None
        assert row.n_events >= len(shown)
        assert row_from_json(row.query, row_to_json(row)) == row
    assert told(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == told(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "LEAST_FORGOTTEN", 0)
        patch.setattr(intake, "PAIRS", 1)
        assert told(evaluated(query, case.stream, SCHEMA, case.cuts)) == told(rows)


__all__ = ["Told", "check", "check_events", "evaluated", "shown", "told"]
