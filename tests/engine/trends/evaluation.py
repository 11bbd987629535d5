"""Trend queries through the engine, in any pieces, and their rows as they are compared."""

from __future__ import annotations

from typing import Any

import pytest

from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, EventBatch, EventSchema
from engine.matching.output.match_row import Binding, Expectation, MatchRow
from engine.matching.output.reading.row_json import row_from_json, row_to_json
from engine.matching.protocol import Limits
from engine.reference import reference_output
from engine.reference.observed import observe
from engine.reference.trends.aggregates import _worlds, trends_among
from engine.runtime.engine import Engine
from engine.trends import graph, indexes, intake, overlaps
from tests.engine.trends.trend_strategies import SCHEMA, TrendCase


def evaluated(
    query: CompiledQuery, batch: EventBatch, schema: EventSchema, cuts: tuple[int, ...] = (), *, restarts: bool = False,
    limits: Limits | None = None,
) -> list[MatchRow]:  # fmt: skip
    """The rows of a stream that comes in parts, each before a watermark; after each the state is saved and restored."""
    running = Engine([query], schema, limits=limits)
    rows: list[MatchRow] = []
    for before, watermark_ms in zip((-(2**40), *cuts), (*cuts, FOREVER_MS), strict=True):
        part = batch.where((batch.t_lo_ms >= before) & (batch.t_lo_ms < watermark_ms))
        rows += running.process(part, watermark_ms)
        if restarts:
            state = running.save()
            running = Engine([query], schema, limits=limits)
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
        patch.setattr(indexes, "LEAST_INDEXED", 0)
        patch.setattr(indexes, "WAITING_PER_ROOT", 0.0)
        patch.setattr(graph, "LEAST_FORGOTTEN", 0)
        patch.setattr(graph, "RESULTS", 1)
        patch.setattr(intake, "PAIRS", 1)
        patch.setattr(intake, "EVENTS", 2)
        patch.setattr(indexes, "BLOCK", 2)
        patch.setattr(indexes, "LEAST_AHEAD", 1)
        patch.setattr(indexes, "TILE", 3)
        assert shown(evaluated(query, case.stream, SCHEMA)) == expected
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == expected
        patch.setattr(indexes, "LEAST_AHEAD", 2)
        patch.setattr(indexes, "MOST_AHEAD", 5)  # a batch is several
        patch.setattr(indexes, "WAITING_PER_ROOT", 1.0)  # some events wait behind an index
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts)) == expected


def check_overlaps(query: CompiledQuery, case: TrendCase) -> None:
    """Events whose times overlap, against every world; where nothing is left open numbers are whole as ever. With room
    for few events or none counts are upper bounds, which say so where they are larger."""
    reference = reference_output(query.resolved, case.stream)
    expected = shown(reference)
    whole = evaluated(query, case.stream, SCHEMA)
    assert shown(whole) == expected
    assert all(its.expected is None for its, row in zip(reference, whole, strict=True) if row.expected is None)
    assert shown(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "LEAST_INDEXED", 0)
        patch.setattr(indexes, "WAITING_PER_ROOT", 0.0)
        patch.setattr(graph, "LEAST_FORGOTTEN", 0)
        patch.setattr(graph, "RESULTS", 1)
        patch.setattr(intake, "PAIRS", 1)
        patch.setattr(intake, "EVENTS", 2)
        patch.setattr(indexes, "BLOCK", 2)
        patch.setattr(overlaps, "PART", 1)
        patch.setattr(overlaps, "LEAST_MEMBERS", 1)
        patch.setattr(overlaps, "LEAST_ENTRIES", 1)
        assert shown(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == expected
    if query.resolved.query.having is None:
        for capacity in (0, 1):
            _check_bounds(query, case, whole, Limits(trend_overlap=capacity))


def _check_bounds(query: CompiledQuery, case: TrendCase, whole: list[MatchRow], limits: Limits) -> None:
    bounded = evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True, limits=limits)
    by_place = {(row.window, row.key): row for row in whole}
    assert [place for row in bounded if (place := (row.window, row.key)) in by_place] == [*by_place]
    for row in bounded:
        true = by_place.get((row.window, row.key))
        if row.expected is not Expectation.UPPER_BOUND:
            assert true is not None
            assert shown([row]) == shown([true])
        for name in {"count", "n"} & set(row.values):
            found, exact = row.values[name], 0 if true is None else true.values[name]  # trends of no world are bounds
            assert isinstance(found, int | float)
            assert isinstance(exact, int | float)
            assert found >= exact * (1 - 1e-10)


Told = dict[tuple[object, object], tuple[dict[str, Binding], int | None]]


def emitted(rows: list[MatchRow]) -> Told:
    return {(row.window, row.key): (dict(row.bindings), row.n_events) for row in rows}


def check_events(query: CompiledQuery, case: TrendCase) -> None:
    """Of an alert's query over few events: those of whole trends are told, others only if a trend comes to them, and
    neither cuts nor restarts change that."""
    rows = evaluated(query, case.stream, SCHEMA)
    events = observe(case.stream, SCHEMA)
    trends = trends_among(query.resolved, events)
    worlds = [world for _, world in _worlds(query.resolved, events)]
    for row in rows:
        assert row.window is not None
        start_ms, end_ms = row.window
        inside = [event for event in events if start_ms < event.hi_ms and event.lo_ms <= end_ms]
        own = [
            reading
            for world in worlds
            for reading in trends.counted([event for event in world if start_ms < event.lo_ms <= end_ms])
            if trends.group_of(reading) == row.key
        ]
        shown = {event_id for ids in row.bindings.values() for event_id in ids}
        assert {event.event_id for reading in own for event, _ in reading} <= shown
        assert shown <= {event.event_id for event in inside}
        assert row.n_events is not None
        assert row.n_events >= len(shown)
        assert row_from_json(row.query, row_to_json(row)) == row
    assert emitted(evaluated(query, case.stream, SCHEMA, case.cuts, restarts=True)) == emitted(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "LEAST_FORGOTTEN", 0)
        patch.setattr(intake, "PAIRS", 1)
        patch.setattr(intake, "EVENTS", 2)
        assert emitted(evaluated(query, case.stream, SCHEMA, case.cuts)) == emitted(rows)


__all__ = ["Told", "check", "check_events", "check_overlaps", "emitted", "evaluated", "shown"]
